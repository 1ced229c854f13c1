#include "lora/peft_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <array>
#include <utility>

#include "base/error.h"

namespace patchbay {
namespace {

// Real keys need a few hundred steps on a module name; nested repeats in a hostile one would need
// years.
constexpr uint32_t k_match_limit = 100'000;

struct FreeCode {
  void operator()(pcre2_code *code) const { pcre2_code_free(code); }
};
struct FreeMatch {
  void operator()(pcre2_match_data *match) const { pcre2_match_data_free(match); }
};
struct FreeContext {
  void operator()(pcre2_match_context *context) const { pcre2_match_context_free(context); }
};

std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char *>(text.data());
}

}  // namespace

struct PatternTable::Regex {
  std::unique_ptr<pcre2_code, FreeCode> code;
};

void PatternTable::add(std::string key, double value) {
  // The groups capture as they do in PEFT, so that back references in the key count alike.
  const std::string regex = "(.*\\.)?(" + key + ")$";
  int error = 0;
  PCRE2_SIZE offset = 0;
  std::unique_ptr<pcre2_code, FreeCode> code(pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(regex.data()), regex.size(),
      PCRE2_ANCHORED | PCRE2_DOLLAR_ENDONLY | PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C,
      &error, &offset, nullptr));
  if (code == nullptr) {
    throw LoadError({.path = path_,
                     .item = option_,
                     .problem = fmt::format("has a key that is no regular expression: '{}' ({})",
                                            key, pcre2_message(error))});
  }
  auto shared = std::make_shared<const Regex>(Regex{std::move(code)});
  entries_.push_back({.key = std::move(key), .value = value, .regex = std::move(shared)});
}

bool PatternTable::matches(const Entry &entry, std::string_view module) const {
  const std::unique_ptr<pcre2_match_data, FreeMatch> match(
      pcre2_match_data_create_from_pattern(entry.regex->code.get(), nullptr));
  const std::unique_ptr<pcre2_match_context, FreeContext> context(
      pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(context.get(), k_match_limit);
  const int result =
      pcre2_match(entry.regex->code.get(), reinterpret_cast<PCRE2_SPTR>(module.data()),
                  module.size(), 0, 0, match.get(), context.get());
  if (result >= 0) return true;
  if (result == PCRE2_ERROR_NOMATCH) return false;
  throw LoadError(
      {.path = path_,
       .item = option_,
       .problem = fmt::format("has the key '{}', which cannot be matched with '{}' ({})", entry.key,
                              module, pcre2_message(result))});
}

std::optional<double> PatternTable::find(std::string_view module) const {
  for (const auto &entry : entries_) {
    if (matches(entry, module)) return entry.value;
  }
  return std::nullopt;
}

std::optional<std::string> PatternTable::ambiguity(std::string_view module) const {
  const Entry *first = nullptr;
  for (const auto &entry : entries_) {
    if (!matches(entry, module)) continue;
    if (first == nullptr) first = &entry;
    if (entry.value == first->value) continue;
    return fmt::format(
        "{}: the keys '{}' ({}) and '{}' ({}) both match {}; the first in the file is used",
        option_, first->key, first->value, entry.key, entry.value, module);
  }
  return std::nullopt;
}

}  // namespace patchbay
