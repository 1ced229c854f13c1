#include "grammar/utf8_ranges.h"

#include <array>

#include "base/utf8.h"

namespace patchbay {
namespace {

using Sequences = std::vector<std::vector<ByteRange>>;

// The last characters of one, two and three bytes.
constexpr std::array<char32_t, 3> k_last_of_size = {0x7F, 0x7FF, 0xFFFF};

/// Cuts a range until the bytes of its first and last character span exactly what lies between.
void split(char32_t first, char32_t last, Sequences &sequences) {
  if (first > last) return;
  for (const char32_t border : k_last_of_size) {
    if (first > border || last <= border) continue;
    split(first, border, sequences);
    split(border + 1, last, sequences);
    return;
  }
  for (uint32_t n_tail = 1; last > k_last_of_size[0] && n_tail <= 3; ++n_tail) {
    const char32_t tail = (char32_t{1} << (6 * n_tail)) - 1;
    if ((first & ~tail) == (last & ~tail)) continue;
    if ((first & tail) != 0) {
      split(first, first | tail, sequences);
      split((first | tail) + 1, last, sequences);
      return;
    }
    if ((last & tail) != tail) {
      split(first, (last & ~tail) - 1, sequences);
      split(last & ~tail, last, sequences);
      return;
    }
  }
  const std::string low = to_utf8(first);
  const std::string high = to_utf8(last);
  auto &sequence = sequences.emplace_back();
  for (size_t i = 0; i < low.size(); ++i)
    sequence.push_back({static_cast<uint8_t>(low[i]), static_cast<uint8_t>(high[i])});
}

}  // namespace

std::vector<std::vector<ByteRange>> utf8_ranges(const CharSet &chars) {
  Sequences sequences;
  for (const auto &range : chars.ranges()) split(range.first, range.last, sequences);
  return sequences;
}

}  // namespace patchbay
