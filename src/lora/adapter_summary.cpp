#include "lora/adapter_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <utility>

#include "base/text.h"
#include "lora/digest.h"
#include "lora/factor_ops.h"

namespace patchbay {
namespace {

bool is_alnum(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// The last component of a path or repository name; a trailing slash does not count.
std::string_view last_component(std::string_view name) {
  while (!name.empty() && name.back() == '/') name.remove_suffix(1);
  return name.substr(name.find_last_of('/') + 1);
}

std::set<std::string> words(std::string_view name) {
  std::set<std::string> found;
  std::string word;
  for (const char c : ascii_lower(last_component(name))) {
    if (is_alnum(c)) {
      word += c;
    } else if (!word.empty()) {
      found.insert(std::exchange(word, {}));
    }
  }
  if (!word.empty()) found.insert(word);
  return found;
}

/// "135m", "7b": digits and one letter of size.
std::set<std::string> sizes(const std::set<std::string> &all_words) {
  std::set<std::string> found;
  for (const auto &word : all_words) {
    const bool is_size = word.size() > 1 && (word.back() == 'b' || word.back() == 'm') &&
                         std::all_of(word.begin(), word.end() - 1, is_digit);
    if (is_size) found.insert(word);
  }
  return found;
}

bool share_one(const std::set<std::string> &one, const std::set<std::string> &other) {
  return std::any_of(one.begin(), one.end(),
                     [&](const std::string &word) { return other.contains(word); });
}

std::string letters(std::string_view name) {
  std::string found;
  for (const char c : ascii_lower(last_component(name))) {
    if (is_alnum(c)) found += c;
  }
  return found;
}

bool has_effect(const FactorPair &pair) { return pair.scale != 0 && !all_zero(pair.b); }

}  // namespace

bool names_differ_clearly(std::string_view one, std::string_view other) {
  const auto words_one = words(one);
  const auto words_other = words(other);
  if (words_one.empty() || words_other.empty()) return false;
  const auto sizes_one = sizes(words_one);
  const auto sizes_other = sizes(words_other);
  if (!sizes_one.empty() && !sizes_other.empty() && !share_one(sizes_one, sizes_other)) return true;
  // "TinyLlama" and "Tiny_Llama" share no word but all letters.
  return !share_one(words_one, words_other) && letters(one) != letters(other);
}

void finish_adapter(Adapter &adapter) {
  std::sort(
      adapter.pairs.begin(), adapter.pairs.end(),
      [](const FactorPair &one, const FactorPair &other) { return one.target < other.target; });
  adapter.size_bytes = 0;
  for (const auto &pair : adapter.pairs)
    adapter.size_bytes += pair.a.data.size() + pair.b.data.size();
  adapter.digest = digest_of(adapter);
  adapter.cannot_change_output =
      std::none_of(adapter.pairs.begin(), adapter.pairs.end(), has_effect);
  if (adapter.cannot_change_output) {
    adapter.notes.emplace_back("cannot change the output: every scale is 0 or every B is zero");
  }
}

void note_other_base(Adapter &adapter, const BaseInfo &base) {
  if (names_differ_clearly(adapter.base_name, base.name)) {
    adapter.notes.push_back(fmt::format(
        "says that it was trained on '{}', and this base is named '{}' (names are only a hint)",
        adapter.base_name, base.name));
  }
}

}  // namespace patchbay
