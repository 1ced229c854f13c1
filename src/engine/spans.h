#pragma once

#include <cstdint>
#include <span>

#include "lora/routing.h"

namespace patchbay {

/// Tokens of a sequence from `first` on, up to the next span's first, wear `set`: a RequestSpan
/// whose adapters are resident.
struct AdapterSpan {
  int32_t first = 0;
  AdapterSet set;
};

/// Start of the last occurrence of `needle` in `tokens`, or -1. An empty needle is nowhere.
[[nodiscard]] int32_t find_last(std::span<const int32_t> tokens, std::span<const int32_t> needle);

}  // namespace patchbay
