#include "lora/peft_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/pcre2.h"

namespace patchbay {
namespace {

// Real keys need a few hundred steps on a module name; nested repeats in a hostile one would need
// years.
constexpr uint32_t k_match_limit = 100'000;

}  // namespace

struct PatternTable::Regex {
  Pcre2Ptr<pcre2_code> code;
};

/// What PCRE2 needs to match one module with any number of keys.
struct PatternTable::Matcher {
  // Only whether a key matches is asked for, so there is room for no group.
  Pcre2Ptr<pcre2_match_data> data{pcre2_match_data_create(1, nullptr)};
  Pcre2Ptr<pcre2_match_context> context{pcre2_match_context_create(nullptr)};

  Matcher() { pcre2_set_match_limit(context.get(), k_match_limit); }
};

void PatternTable::add(std::string key, double value) {
  // The groups capture as they do in PEFT, so that back references in the key count alike.
  auto compiled =
      compile_pattern("(.*\\.)?(" + key + ")$", PCRE2_ANCHORED | PCRE2_DOLLAR_ENDONLY | PCRE2_UTF |
                                                    PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C);
  if (compiled.code == nullptr) {
    throw LoadError({.path = path_,
                     .item = option_,
                     .problem = fmt::format("has a key that is no regular expression: '{}' ({})",
                                            key, compiled.error)});
  }
  if (LiteralKeys::is_literal(key)) {
    literals_.add(key, entries_.size());
  } else {
    regexes_.push_back(entries_.size());
  }
  auto shared = std::make_shared<const Regex>(Regex{std::move(compiled.code)});
  entries_.push_back({.key = std::move(key), .value = value, .regex = std::move(shared)});
}

bool PatternTable::matches(const Entry &entry, std::string_view module,
                           const Matcher &matcher) const {
  const int result = pcre2_match(entry.regex->code.get(), pcre2_subject(module), module.size(), 0,
                                 0, matcher.data.get(), matcher.context.get());
  if (result >= 0) return true;
  if (result == PCRE2_ERROR_NOMATCH) return false;
  throw LoadError(
      {.path = path_,
       .item = option_,
       .problem = fmt::format("has the key '{}', which cannot be matched with '{}' ({})", entry.key,
                              module, pcre2_error_text(result))});
}

template <class Visit>
void PatternTable::visit_matches(std::string_view module, Visit visit) const {
  std::vector<size_t> known;  // to match
  std::vector<size_t> to_try(regexes_);
  if (LiteralKeys::can_look_up(module)) {
    known = literals_.find(module);
  } else {
    to_try.resize(entries_.size());
    std::iota(to_try.begin(), to_try.end(), size_t{0});
  }
  const Matcher matcher;
  auto next_known = known.begin();
  auto next_to_try = to_try.begin();
  while (next_known != known.end() || next_to_try != to_try.end()) {
    const bool is_known =
        next_to_try == to_try.end() || (next_known != known.end() && *next_known < *next_to_try);
    const Entry &entry = entries_[is_known ? *next_known++ : *next_to_try++];
    if ((is_known || matches(entry, module, matcher)) && !visit(entry)) return;
  }
}

std::optional<double> PatternTable::find(std::string_view module) const {
  std::optional<double> value;
  visit_matches(module, [&](const Entry &entry) {
    value = entry.value;
    return false;
  });
  return value;
}

std::optional<std::string> PatternTable::ambiguity(std::string_view module) const {
  const Entry *first = nullptr;
  const Entry *other = nullptr;
  visit_matches(module, [&](const Entry &entry) {
    if (first == nullptr) first = &entry;
    if (entry.value != first->value) other = &entry;
    return other == nullptr;
  });
  if (other == nullptr) return std::nullopt;
  return fmt::format(
      "{}: the keys '{}' ({}) and '{}' ({}) both match {}; the first in the file is used", option_,
      first->key, first->value, other->key, other->value, module);
}

}  // namespace patchbay
