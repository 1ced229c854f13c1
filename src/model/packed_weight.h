#pragma once

#include <ggml.h>

#include <optional>

#include "kernels/product_format.h"

namespace patchbay {

/// A weight laid out for our own products. A view: the WeightStore owns the memory.
struct PackedWeight {
  WeightFormat format = WeightFormat::q8_0;
  int64_t n_in = 0;
  int64_t n_out = 0;  ///< rows, of each expert
  int64_t n_expert = 1;
  const uint8_t *tiles = nullptr;  ///< of the first expert, the others' follow

  [[nodiscard]] int64_t n_tiles() const { return n_product_tiles(n_out); }
  [[nodiscard]] const uint8_t *tile(int64_t i_expert, int64_t i_tile) const {
    return tiles + (i_expert * n_tiles() + i_tile) * tile_bytes(format, n_in);
  }
  /// Of all experts' tiles.
  [[nodiscard]] size_t size_bytes() const {
    return static_cast<size_t>(n_expert * n_tiles() * tile_bytes(format, n_in));
  }
};

/// The format of our products for a type of ggml's.
[[nodiscard]] std::optional<WeightFormat> weight_format(ggml_type type);

}  // namespace patchbay
