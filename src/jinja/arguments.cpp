#include "jinja/arguments.h"

#include <fmt/format.h>

#include <algorithm>

#include "jinja/error.h"
#include "jinja/limits.h"

namespace patchbay::jinja {

std::optional<Value> Arguments::take(std::string_view name) {
  const auto at = std::find_if(named.begin(), named.end(),
                               [&](const auto &argument) { return argument.first == name; });
  if (at == named.end()) return std::nullopt;
  Value value = std::move(at->second);
  named.erase(at);
  return value;
}

Bound::Bound(const Arguments &arguments, const Signature &signature)
    : function_(signature.function), values_(signature.parameters.size()) {
  if (arguments.positional.size() > values_.size()) {
    type_error(fmt::format("{}() takes at most {} arguments ({} given)", function_, values_.size(),
                           arguments.positional.size()));
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = arguments.positional[i];
  for (const auto &[name, value] : arguments.named) {
    const auto *const parameter =
        std::find(signature.parameters.begin(), signature.parameters.end(), name);
    if (parameter == signature.parameters.end() || signature.by_position_only) {
      type_error(fmt::format("{}() got an unexpected keyword argument '{}'", function_, name));
    }
    auto &slot = values_[static_cast<size_t>(parameter - signature.parameters.begin())];
    if (slot) {
      type_error(fmt::format("{}() got multiple values for argument '{}'", function_, name));
    }
    slot = value;
  }
  for (size_t i = 0; i < signature.n_required; ++i) {
    if (!values_[i]) {
      type_error(fmt::format("{}() is missing the argument '{}'", function_,
                             *(signature.parameters.begin() + i)));
    }
  }
}

bool Bound::truth(size_t i, bool otherwise) const {
  return values_[i] ? values_[i]->truth() : otherwise;
}

Int Bound::integer(size_t i, Int otherwise) const {
  return values_[i] ? require_integer(*values_[i]) : otherwise;
}

Int Bound::width(size_t i, Int otherwise) const {
  constexpr Int k_too_large = k_max_value_size + 1;
  return std::clamp(integer(i, otherwise), -k_too_large, k_too_large);
}

std::optional<Int> Bound::optional_integer(size_t i) const {
  if (!values_[i] || values_[i]->is_none()) return std::nullopt;
  return require_integer(*values_[i]);
}

const std::string &Bound::text(size_t i) const { return require_text(*values_[i], function_); }

const std::string *Bound::optional_text(size_t i) const {
  if (!values_[i] || values_[i]->is_none()) return nullptr;
  return &text(i);
}

Int require_integer(const Value &value) {
  if (const auto integer = value.as_integer()) return *integer;
  type_error(fmt::format("{} object cannot be interpreted as an integer", quoted_type(value)));
}

const std::string &require_text(const Value &value, std::string_view function) {
  if (const std::string *text = value.as_string()) return *text;
  type_error(fmt::format("{}() needs a string, not {}", function, quoted_type(value)));
}

}  // namespace patchbay::jinja
