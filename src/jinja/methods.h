#pragma once

#include <string_view>

#include "jinja/arguments.h"
#include "jinja/runtime.h"

namespace patchbay::jinja {

/// What a kind of value has under a name.
struct Member {
  using Body = Value (*)(Runtime &, const Value &self, const Arguments &);

  std::string_view name;
  Body call = nullptr;                          ///< null with `value`: Python has it, we do not
  Value (*value)(const Value &self) = nullptr;  ///< set: no method but a value
  bool is_unsafe = false;                       ///< it would change its object
};

/// Null when values of the kind of `self` have nothing of that name in Python either.
[[nodiscard]] const Member *find_member(const Value &self, std::string_view name);

/// The same for text.
[[nodiscard]] const Member *find_text_member(std::string_view name);

}  // namespace patchbay::jinja
