#include "lora/literal_keys.h"

#include <algorithm>

#include "lora/dotted_path.h"

namespace patchbay {
namespace {

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

std::string with_dots(std::string_view text, const std::vector<size_t> &positions) {
  std::string dotted(text);
  for (const size_t i : positions) dotted[i] = '.';
  return dotted;
}

}  // namespace

bool LiteralKeys::is_literal(std::string_view key) {
  return !key.empty() &&
         std::all_of(key.begin(), key.end(), [](char c) { return is_word(c) || c == '.'; });
}

bool LiteralKeys::can_look_up(std::string_view module) {
  return std::all_of(module.begin(), module.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

void LiteralKeys::add(std::string_view key, size_t id) {
  Dots dots;
  for (size_t i = 0; i < key.size(); ++i) {
    if (key[i] == '.') dots.push_back(i);
  }
  dots_by_size_[key.size()].insert(std::move(dots));
  ids_[std::string(key)].push_back(id);
}

std::vector<size_t> LiteralKeys::find(std::string_view module) const {
  std::vector<size_t> found;
  for (const auto suffix : dotted_suffixes(module)) {
    const auto of_size = dots_by_size_.find(suffix.size());
    if (of_size == dots_by_size_.end()) continue;
    for (const auto &dots : of_size->second) {
      const auto key = ids_.find(with_dots(suffix, dots));
      if (key == ids_.end()) continue;
      found.insert(found.end(), key->second.begin(), key->second.end());
    }
  }
  // The dots of the module itself may lead to one key by several ways.
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace patchbay
