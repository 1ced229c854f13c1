#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace patchbay {

/// "a, b, c, d, e and 3 more": the first five of a list of names or numbers, for messages.
template <class Item>
[[nodiscard]] std::string first_five(const std::vector<Item> &items) {
  const size_t n_shown = std::min<size_t>(items.size(), 5);
  const auto end = items.begin() + static_cast<ptrdiff_t>(n_shown);
  std::string text = fmt::format("{}", fmt::join(items.begin(), end, ", "));
  if (items.size() > n_shown) text += fmt::format(" and {} more", items.size() - n_shown);
  return text;
}

/// A to Z in lower case and all else as it is, whatever the locale.
[[nodiscard]] std::string ascii_lower(std::string_view text);

/// "0f3a...": two lower-case digits for each byte, for digests.
[[nodiscard]] std::string hex(std::span<const unsigned char> bytes);

}  // namespace patchbay
