#include "gguf/gguf_split.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace patchbay {
namespace {

constexpr size_t k_n_digits = 5;

/// Takes "-00002" or "-of-00003" from the end of `name`.
std::optional<uint32_t> take_number(std::string_view &name, std::string_view before) {
  if (name.size() < before.size() + k_n_digits) return std::nullopt;
  const auto digits = name.substr(name.size() - k_n_digits);
  if (!std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; })) {
    return std::nullopt;
  }
  const auto head = name.substr(0, name.size() - k_n_digits);
  if (!head.ends_with(before)) return std::nullopt;
  name = head.substr(0, head.size() - before.size());
  uint32_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

}  // namespace

std::optional<SplitName> parse_split_name(std::string_view file_name) {
  constexpr std::string_view k_suffix = ".gguf";
  if (!file_name.ends_with(k_suffix)) return std::nullopt;
  std::string_view rest = file_name.substr(0, file_name.size() - k_suffix.size());
  const auto count = take_number(rest, "-of-");
  if (!count) return std::nullopt;
  const auto no = take_number(rest, "-");
  if (!no || *no < 1 || *no > *count || rest.empty()) return std::nullopt;
  return SplitName{.prefix = std::string(rest), .no = *no, .count = *count};
}

std::string format_split_name(const SplitName &name) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", name.prefix, name.no, name.count);
}

}  // namespace patchbay
