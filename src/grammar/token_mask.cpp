#include "grammar/token_mask.h"

#include <algorithm>
#include <array>
#include <limits>

namespace patchbay {
namespace {

constexpr float k_never = -std::numeric_limits<float>::infinity();
using Eight = std::array<float, 8>;

/// By the bits of eight tokens: what to add to their logits. Eight additions at once, where
/// branching on bits would be guessed wrong half of the time.
constexpr std::array<Eight, 256> k_added = [] {
  std::array<Eight, 256> added{};
  for (uint32_t bits = 0; bits < 256; ++bits) {
    for (uint32_t i = 0; i < 8; ++i) added[bits][i] = (bits >> i & 1U) != 0 ? 0 : k_never;
  }
  return added;
}();

}  // namespace

void TokenMask::leave_out(std::span<float> logits) const {
  for (size_t i_word = 0; i_word < words_.size(); ++i_word) {
    const uint64_t word = words_[i_word];
    // Most words are all or nothing.
    if (word == ~uint64_t{0}) continue;
    auto part = logits.subspan(64 * i_word, std::min<size_t>(64, n_vocab_ - 64 * i_word));
    if (word == 0) {
      std::ranges::fill(part, k_never);
      continue;
    }
    for (uint64_t bits = word; !part.empty(); bits >>= 8U) {
      const Eight &added = k_added[bits & 0xFFU];
      if (part.size() < 8) {
        for (size_t i = 0; i < part.size(); ++i) part[i] += added[i];
        break;
      }
      for (size_t i = 0; i < 8; ++i) part[i] += added[i];
      part = part.subspan(8);
    }
  }
}

}  // namespace patchbay
