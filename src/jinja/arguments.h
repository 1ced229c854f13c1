#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/value.h"

namespace patchbay::jinja {

/// What a call passes.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;  ///< each name once

  /// Takes a named argument out; nullopt when it was not given.
  [[nodiscard]] std::optional<Value> take(std::string_view name);
};

/// What a function takes: the names of its parameters, the first `n_required` of which must be
/// given.
struct Signature {
  std::string_view function;
  std::initializer_list<std::string_view> parameters;
  size_t n_required = 0;
  bool by_position_only = false;
};

/// The arguments of one call, by parameter.
class Bound {
 public:
  /// Throws RenderError: too many, too few, unknown or given twice.
  Bound(const Arguments &arguments, const Signature &signature);

  /// Null when it was not given.
  [[nodiscard]] const Value *find(size_t i) const {
    const std::optional<Value> &value = values_[i];
    return value ? &*value : nullptr;
  }
  /// REQUIRES: a required parameter.
  [[nodiscard]] const Value &at(size_t i) const { return *find(i); }

  // For parameters of one kind only. Throw RenderError for another; the default when not given.
  [[nodiscard]] bool truth(size_t i, bool otherwise) const;
  [[nodiscard]] Int integer(size_t i, Int otherwise) const;
  /// The same, no further from 0 than what is too large in any case, so that one can count with it.
  [[nodiscard]] Int width(size_t i, Int otherwise) const;
  /// None counts as not given.
  [[nodiscard]] std::optional<Int> optional_integer(size_t i) const;
  [[nodiscard]] const std::string &text(size_t i) const;
  /// Null when not given or None.
  [[nodiscard]] const std::string *optional_text(size_t i) const;

 private:
  std::string function_;
  std::vector<std::optional<Value>> values_;
};

/// The integer that an index or a count means. Throws RenderError.
[[nodiscard]] Int require_integer(const Value &value);

/// Throws RenderError unless it is a string.
[[nodiscard]] const std::string &require_text(const Value &value, std::string_view function);

}  // namespace patchbay::jinja
