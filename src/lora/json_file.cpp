#include "lora/json_file.h"

#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/read_json.h"
#include "base/regular_file.h"

namespace patchbay {
namespace {

using nlohmann::ordered_json;

constexpr size_t k_max_bytes = size_t{16} << 20;
// Configs that name each expert of a large mixture have about 20,000.
constexpr JsonLimits k_limits{.n_levels = 32, .n_keys = 50'000};

std::string problem_of(const JsonError &error) {
  switch (error.fault) {
    case JsonFault::too_deep:
      return "is nested too deeply";
    case JsonFault::too_many_keys:
      return "has too many keys";
    case JsonFault::syntax:
      break;
  }
  return "is not valid JSON: " + error.message;
}

template <class Item>
std::vector<Item> read_list(const JsonFile &file, const std::string &key, const ordered_json &list,
                            const char *wanted, std::optional<Item> (*read)(const ordered_json &)) {
  if (!list.is_array()) file.refuse_type(key, wanted);
  std::vector<Item> items;
  for (const auto &value : list) {
    auto item = read(value);
    if (!item) file.refuse_type(key, wanted);
    items.push_back(std::move(*item));
  }
  return items;
}

std::optional<std::string> as_string(const ordered_json &value) {
  if (!value.is_string()) return std::nullopt;
  return value.get<std::string>();
}

}  // namespace

std::optional<int64_t> as_integer(const ordered_json &value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (!value.is_number_integer()) return std::nullopt;
  return value.get<int64_t>();
}

std::optional<double> as_number(const ordered_json &value) {
  if (!value.is_number()) return std::nullopt;
  const auto number = value.get<double>();
  return std::isfinite(number) ? std::optional(number) : std::nullopt;
}

bool is_unset(const ordered_json &value) {
  if (value.is_string()) return value.get_ref<const std::string &>().empty();
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number()) return value.get<double>() == 0;
  return value.empty();
}

std::string shown(const ordered_json &value) {
  constexpr size_t k_longest = 120;
  auto text = value.dump(-1, ' ', true);  // ASCII only, so that a cut never halves a character
  if (text.size() > k_longest) text = text.substr(0, k_longest) + "...";
  return text;
}

JsonFile JsonFile::open(const std::filesystem::path &path) {
  const auto file = RegularFile::open(path);
  const auto refuse = [&](std::string problem) {
    throw LoadError({.path = file.path(), .problem = std::move(problem)});
  };
  if (file.size_bytes() > k_max_bytes) refuse("is too large for a configuration");
  JsonFile json;
  json.path_ = file.path();
  auto read = read_json(file.read_all(), k_limits);
  if (!read) refuse(problem_of(read.error()));
  json.root_ = *std::move(read);
  if (!json.root_.is_object()) refuse("is not a JSON object");
  return json;
}

const ordered_json *JsonFile::find(const std::string &key) const {
  const auto found = root_.find(key);
  return found == root_.end() || found->is_null() ? nullptr : &*found;
}

void JsonFile::refuse_type(const std::string &key, const char *wanted) const {
  throw LoadError({.path = path_,
                   .item = key,
                   .problem = "has a wrong type",
                   .wanted = wanted,
                   .found = shown(root_.at(key))});
}

std::optional<bool> JsonFile::get_bool(const std::string &key) const {
  const auto *value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) refuse_type(key, "true or false");
  return value->get<bool>();
}

std::optional<std::string> JsonFile::get_string(const std::string &key) const {
  const auto *value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) refuse_type(key, "a string");
  return value->get<std::string>();
}

std::optional<int64_t> JsonFile::get_integer(const std::string &key) const {
  const auto *value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = as_integer(*value);
  if (!number) refuse_type(key, "an integer");
  return number;
}

std::optional<double> JsonFile::get_number(const std::string &key) const {
  const auto *value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = as_number(*value);
  if (!number) refuse_type(key, "a finite number");
  return number;
}

std::optional<std::vector<std::string>> JsonFile::get_strings(const std::string &key) const {
  const auto *value = find(key);
  if (value == nullptr) return std::nullopt;
  return read_list<std::string>(*this, key, *value, "a list of strings", as_string);
}

std::optional<std::vector<int64_t>> JsonFile::get_integers(const std::string &key) const {
  const auto *value = find(key);
  if (value == nullptr) return std::nullopt;
  return read_list<int64_t>(*this, key, *value, "a list of integers", as_integer);
}

}  // namespace patchbay
