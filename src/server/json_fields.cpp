#include "server/json_fields.h"

#include <fmt/format.h>

#include <cmath>

namespace patchbay {
namespace {

constexpr size_t k_longest_shown = 40;

bool asks_nothing(const Json &value) {
  if (value.is_string()) return value.get_ref<const std::string &>().empty();
  return value.is_structured() ? value.empty() : value == false || value == 0;
}

}  // namespace

std::string describe(const Json &value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  std::string text = to_text(value);
  if (text.size() > k_longest_shown) text = text.substr(0, k_longest_shown) + "...";
  return text;
}

JsonFields::JsonFields(const Json &value, std::string prefix)
    : value_(&value), prefix_(std::move(prefix)) {
  if (!value.is_object()) refuse("", "an object", value);
}

void JsonFields::refuse(const std::string &name, const std::string &wanted, const Json &found) {
  if (is_wrong_) return;
  is_wrong_ = true;
  error_.param = prefix_.empty() || name.empty() ? prefix_ + name : prefix_ + "." + name;
  const std::string subject = error_.param.empty() ? "the body" : error_.param;
  error_.error.code = ErrorCode::invalid_argument;
  error_.error.message = fmt::format("{} must be {}, found {}", subject, wanted, describe(found));
}

void JsonFields::refuse_unsupported(std::initializer_list<const char *> names) {
  for (const char *name : names) {
    const Json *value = any(name);
    if (value != nullptr && !asks_nothing(*value))
      refuse(name, "nothing, as it is not supported here", *value);
  }
}

void JsonFields::take_error(const ApiError &error) {
  if (is_wrong_) return;
  is_wrong_ = true;
  error_ = error;
}

const Json *JsonFields::any(const char *name) const {
  if (!value_->is_object()) return nullptr;
  const auto found = value_->find(name);
  return found == value_->end() || found->is_null() ? nullptr : &*found;
}

std::optional<std::string> JsonFields::text(const char *name) {
  const Json *value = any(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  refuse(name, "a string", *value);
  return std::nullopt;
}

std::optional<bool> JsonFields::flag(const char *name) {
  const Json *value = any(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  refuse(name, "true or false", *value);
  return std::nullopt;
}

std::optional<int64_t> JsonFields::integer(const char *name, int64_t least, int64_t most) {
  const Json *value = any(name);
  if (value == nullptr) return std::nullopt;
  // Every whole number that JSON can hold and a bound can be is exact as a double or an int64.
  const bool is_whole = value->is_number_float() &&
                        std::nearbyint(value->get<double>()) == value->get<double>() &&
                        std::abs(value->get<double>()) < 9e15;
  const bool is_unsigned = value->is_number_unsigned();
  const bool fits = is_unsigned ? value->get<uint64_t>() <= uint64_t{INT64_MAX}
                                : value->is_number_integer() || is_whole;
  if (fits) {
    const int64_t number =
        is_whole ? static_cast<int64_t>(value->get<double>()) : value->get<int64_t>();
    if (number >= least && number <= most) return number;
  }
  refuse(name, fmt::format("a whole number from {} to {}", least, most), *value);
  return std::nullopt;
}

std::optional<double> JsonFields::number(const char *name, double least, double most) {
  const Json *value = any(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) {
    const auto number = value->get<double>();
    if (number >= least && number <= most) return number;
  }
  refuse(name, fmt::format("a number from {} to {}", least, most), *value);
  return std::nullopt;
}

std::vector<std::string> JsonFields::texts(const char *name) {
  const Json *value = any(name);
  if (value == nullptr) return {};
  if (value->is_string()) return {value->get<std::string>()};
  std::vector<std::string> texts;
  if (value->is_array()) {
    for (const Json &item : *value) {
      if (item.is_string()) texts.push_back(item.get<std::string>());
    }
    if (texts.size() == value->size()) return texts;
  }
  refuse(name, "a string or an array of strings", *value);
  return {};
}

const Json *JsonFields::object(const char *name) {
  const Json *value = any(name);
  if (value != nullptr && !value->is_object()) {
    refuse(name, "an object", *value);
    return nullptr;
  }
  return value;
}

const Json *JsonFields::array(const char *name) {
  const Json *value = any(name);
  if (value != nullptr && !value->is_array()) {
    refuse(name, "an array", *value);
    return nullptr;
  }
  return value;
}

}  // namespace patchbay
