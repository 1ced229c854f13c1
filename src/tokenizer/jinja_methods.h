#pragma once

#include <string_view>

#include "tokenizer/jinja_arguments.h"
#include "tokenizer/jinja_runtime.h"

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

// Where the members of each kind are written.
[[nodiscard]] const Member *find_text_member(std::string_view name);
[[nodiscard]] const Member *find_list_member(std::string_view name);
[[nodiscard]] const Member *find_tuple_member(std::string_view name);
[[nodiscard]] const Member *find_dict_member(std::string_view name);
[[nodiscard]] const Member *find_number_member(std::string_view name, bool is_real);

}  // namespace patchbay::jinja
