#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/product_format.h"

namespace patchbay {

/// Rows of a weight as a GGUF file has them, ggml's blocks one after the other.
struct PackJob {
  WeightFormat format = WeightFormat::q8_0;
  const std::byte *rows = nullptr;
  size_t row_bytes = 0;
  int64_t n_in = 0;   ///< a multiple of the format's block; any number for F16 and BF16
  int64_t n_out = 0;  ///< rows; what is missing in the last tile becomes zero rows
};

/// Writes the tiles [first, last) of a weight to `tiles`, where the first one lies, tile_bytes()
/// each. Any thread.
void pack_tiles(const PackJob &job, int64_t first, int64_t last, uint8_t *tiles);

}  // namespace patchbay
