#include "lora/adapter_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <utility>

#include "base/text.h"
#include "lora/adapter_changes.h"
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

bool has_effect(const FactorPair &pair) {
  if (pair.magnitude.n_elements() > 0) return true;
  return pair.scale != 0 && !(all_zero(pair.b) && all_zero(pair.bias));
}

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

void finish_adapter(Adapter &adapter, const BaseInfo &base) {
  std::ranges::sort(adapter.pairs, {}, &FactorPair::target);
  std::ranges::sort(adapter.replacements, {}, &Replacement::tensor);
  adapter.changes = make_changes(adapter, base);
  adapter.size_bytes = adapter.changes == nullptr ? 0 : adapter.changes->size_bytes;
  for (const auto &pair : adapter.pairs) {
    for (const Factor *factor : {&pair.a, &pair.b, &pair.magnitude, &pair.bias})
      adapter.size_bytes += factor->data.size();
  }
  for (const auto &replacement : adapter.replacements)
    adapter.size_bytes += replacement.value.data.size();
  adapter.digest = digest_of(adapter);
  adapter.cannot_change_output =
      adapter.replacements.empty() && std::ranges::none_of(adapter.pairs, has_effect);
  if (adapter.cannot_change_output) {
    adapter.notes.emplace_back("cannot change the output: every scale is 0 or every B is zero");
  }
}

std::vector<std::string> describe_extras(const Adapter &adapter) {
  std::vector<std::string> texts;
  const auto tell = [&](size_t n, std::string_view what) {
    if (n > 0) texts.push_back(fmt::format("{} {}", n, what));
  };
  const auto count_pairs = [&](const Factor FactorPair::*part) {
    return static_cast<size_t>(std::ranges::count_if(
        adapter.pairs, [&](const FactorPair &pair) { return (pair.*part).n_elements() > 0; }));
  };
  const auto count_replaced = [&](auto is_one) {
    return static_cast<size_t>(std::ranges::count_if(adapter.replacements, is_one));
  };
  const auto is_vector = [](const Replacement &one) {
    return one.rows.empty() && one.value.n_elements() == one.value.ne[0];
  };
  tell(count_pairs(&FactorPair::magnitude), "pairs have DoRA lengths");
  tell(count_pairs(&FactorPair::bias), "pairs have a bias of their own");
  tell(count_replaced(
           [&](const Replacement &one) { return is_vector(one) && one.tensor.ends_with(".bias"); }),
       "biases are replaced");
  tell(count_replaced([&](const Replacement &one) {
         return is_vector(one) && !one.tensor.ends_with(".bias");
       }),
       "norms are replaced");
  tell(count_replaced([](const Replacement &one) { return !one.rows.empty(); }),
       "tables have new rows of tokens");
  tell(count_replaced([&](const Replacement &one) { return one.rows.empty() && !is_vector(one); }),
       "whole matrices are replaced");
  return texts;
}

void note_other_base(Adapter &adapter, const BaseInfo &base) {
  if (names_differ_clearly(adapter.base_name, base.name)) {
    adapter.notes.push_back(fmt::format(
        "says that it was trained on '{}', and this base is named '{}' (names are only a hint)",
        adapter.base_name, base.name));
  }
}

}  // namespace patchbay
