#pragma once

#include <cstdint>
#include <optional>

#include "kernels/isa.h"
#include "kernels/product_format.h"

namespace patchbay {

/// Which instruction set's product serves the format on a processor whose best one is `isa`. Any
/// thread.
[[nodiscard]] std::optional<Isa> product_isa(Isa isa, WeightFormat format);

/// Whether there is one. Any thread.
[[nodiscard]] bool has_product(Isa isa, WeightFormat format);

/// Tiles of a weight times panels of inputs: y[t][o] = (row o of W) . (token t), summed in F32.
struct ProductJob {
  WeightFormat format = WeightFormat::q8_0;
  const uint8_t *tiles = nullptr;
  int64_t n_in = 0;
  int64_t n_out = 0;                ///< rows of the weight in these tiles
  const uint8_t *panels = nullptr;  ///< one after the other, all full but the last
  int64_t n_tokens = 0;
  float *y = nullptr;  ///< [n_tokens][n_out], rows y_stride apart
  int64_t y_stride = 0;
  const int32_t *rows = nullptr;  ///< [n_tokens]: which row of y is each token's; null: in order
};

/// Runs a job by the named instruction set, which has_product(). A number of the result has the
/// same bits whatever else the job holds. Any thread.
void run_product(Isa isa, const ProductJob &job);

}  // namespace patchbay
