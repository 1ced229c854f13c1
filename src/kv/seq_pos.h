#pragma once

#include <compare>
#include <cstdint>

namespace patchbay {

/// One token's place in a sequence.
struct SeqPos {
  int32_t seq_id = 0;
  int32_t pos = 0;

  auto operator<=>(const SeqPos &) const = default;
};

}  // namespace patchbay
