#include "apps/lora_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <set>
#include <stdexcept>

namespace patchbay {
namespace {

namespace fs = std::filesystem;

bool exists(std::string_view path) {
  std::error_code ignored;  // a path too long or not allowed to be looked at does not exist for us
  return !path.empty() && fs::exists(fs::path(path), ignored);
}

std::optional<float> parse_finite(std::string_view text) {
  float value = 0;
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    return std::nullopt;
  return value;
}

/// Splits at commas outside double quotes; "" inside quotes is one quote.
std::vector<std::string> split_csv(std::string_view list) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i] == '"') {
      const bool doubled = quoted && i + 1 < list.size() && list[i + 1] == '"';
      if (doubled) fields.back() += list[++i];
      if (!doubled) quoted = !quoted;
    } else if (list[i] == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += list[i];
    }
  }
  if (quoted) throw std::invalid_argument(fmt::format("'{}' has an unfinished quote", list));
  return fields;
}

/// PATH or PATH:STRENGTH.
std::optional<LoraItem> parse_path(std::string_view text) {
  if (exists(text)) return LoraItem{.path = std::string(text)};
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto strength = parse_finite(text.substr(colon + 1));
  if (!strength && exists(text.substr(0, colon))) {
    throw std::invalid_argument(fmt::format("'{}': a strength must be a finite number", text));
  }
  if (!strength) return std::nullopt;
  return LoraItem{.path = std::string(text.substr(0, colon)), .strength = *strength};
}

LoraItem parse_item(std::string_view text, bool strength_required) {
  if (text.empty()) throw std::invalid_argument("the list of adapters has an empty item");
  const size_t equals = text.find('=');
  const auto unnamed = parse_path(text);
  const bool is_path = unnamed && exists(unnamed->path);
  const bool named = equals != std::string_view::npos && equals > 0 && !is_path;
  const std::string_view rest = named ? text.substr(equals + 1) : text;
  // What neither exists nor ends in a strength is still a path: loading will say that it is not
  // there.
  LoraItem item = parse_path(rest).value_or(LoraItem{.path = std::string(rest)});
  if (named) item.name = std::string(text.substr(0, equals));
  const bool has_strength = item.path.size() < rest.size();
  if (strength_required && !has_strength) {
    throw std::invalid_argument(fmt::format("'{}' needs a strength: PATH:STRENGTH", text));
  }
  if (item.path.empty()) throw std::invalid_argument(fmt::format("'{}' names no file", text));
  return item;
}

/// The stem of a file or the name of a folder, without what no name on the wire may hold.
std::string default_name(const std::string &path) {
  std::error_code ignored;
  fs::path real = fs::absolute(path, ignored).lexically_normal();  // "." has the folder's name
  if (!real.has_filename()) real = real.parent_path();  // a folder written with a slash behind it
  std::string name =
      fs::is_directory(real, ignored) ? real.filename().string() : real.stem().string();
  const auto is_bad = [](char c) {
    return c == ',' || static_cast<unsigned char>(c) < ' ' || c == '\x7F';
  };
  std::ranges::replace_if(name, is_bad, '_');
  return name.empty() ? "adapter" : name;
}

}  // namespace

std::vector<LoraItem> parse_lora_list(std::string_view list, bool strength_required) {
  std::vector<LoraItem> items;
  for (const auto &field : split_csv(list)) items.push_back(parse_item(field, strength_required));
  return items;
}

void name_loras(std::vector<LoraItem> &items, const std::string &base) {
  std::set<std::string> taken{base};
  for (const auto &item : items) {
    if (item.name.empty() || taken.insert(item.name).second) continue;
    throw std::invalid_argument(item.name == base
                                    ? fmt::format("'{}' is the name of the base model", base)
                                    : fmt::format("two adapters are named '{}'", item.name));
  }
  for (auto &item : items) {
    if (!item.name.empty()) continue;
    const std::string stem = default_name(item.path);
    item.name = stem;
    for (int i = 2; !taken.insert(item.name).second; ++i) item.name = fmt::format("{}-{}", stem, i);
  }
}

}  // namespace patchbay
