#pragma once

#include <cstdint>
#include <vector>

#include "grammar/char_set.h"

namespace patchbay {

struct ByteRange {
  uint8_t first = 0;
  uint8_t last = 0;  ///< included

  auto operator<=>(const ByteRange &) const = default;
};

/// The UTF-8 of a set of characters, as sequences of one to four ranges of bytes: a string is one
/// of the characters iff its bytes lie in the ranges of one sequence, and then of that one only.
[[nodiscard]] std::vector<std::vector<ByteRange>> utf8_ranges(const CharSet &chars);

}  // namespace patchbay
