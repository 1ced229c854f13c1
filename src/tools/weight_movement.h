#pragma once

#include <cstdint>
#include <optional>

#include "gguf/gguf_file.h"
#include "model/hadamard.h"
#include "tools/tensor_change.h"

namespace patchbay {

/// How far changes move a weight, in Frobenius norms.
struct WeightMovement {
  double norm_weight = 0;  ///< |W|, of all experts together
  /// |W' - W| / |W|, of the expert that it is largest for; none: every W is 0.
  std::optional<double> relative_change;
};

/// Reads all rows of `tensor` with `n_threads` threads. `folding` null: its rows are not folded.
/// REQUIRES: is_readable(tensor.type).
[[nodiscard]] WeightMovement weight_movement(const TensorChange &change, const GgufTensor &tensor,
                                             const HadamardFolding *folding, uint32_t n_threads);

}  // namespace patchbay
