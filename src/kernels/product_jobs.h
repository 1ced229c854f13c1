#pragma once

#include <cstdint>

#include "kernels/product_format.h"

// Plain declarations only, for the files with instruction flags include this.

namespace patchbay {

/// Some tiles of a weight times one panel of inputs: y[t][o] = (row o of W) . (token t). The sum of
/// each pair has an order of its own: neither the other tokens nor the cut into jobs moves a bit.
struct PanelJob {
  const uint8_t *tiles = nullptr;
  int64_t tile_stride = 0;  ///< bytes from one tile to the next
  int64_t n_blocks = 0;
  int64_t n_out = 0;  ///< rows of the weight in these tiles; the last tile may be padded
  const uint8_t *panel = nullptr;
  int64_t n_tokens = 0;  ///< of the panel, at most k_product_panel
  float *y = nullptr;    ///< [n_tokens][n_out], rows y_stride apart
  int64_t y_stride = 0;
  const int32_t *rows = nullptr;  ///< [n_tokens]: which row of y is each token's; null: in order
};

/// An instruction set's kernels, by the format of the weight; null where it has none.
struct ProductKernels {
  using Kernel = void (*)(const PanelJob &job);
  Kernel q4_0 = nullptr;
  Kernel q4_1 = nullptr;
  Kernel q5_0 = nullptr;
  Kernel q5_1 = nullptr;
  Kernel q8_0 = nullptr;
  Kernel q4_k = nullptr;
  Kernel q5_k = nullptr;
  Kernel q6_k = nullptr;
  Kernel f16 = nullptr;
  Kernel bf16 = nullptr;
};

extern const ProductKernels k_products_avx2;
extern const ProductKernels k_products_avx_vnni;
extern const ProductKernels k_products_avx512_vnni;
extern const ProductKernels k_products_avx512_bf16;

}  // namespace patchbay
