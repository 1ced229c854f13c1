#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "gguf/gguf_file.h"
#include "model/hadamard.h"
#include "tools/tensor_change.h"

namespace patchbay {

/// Sums over rows of a weight, before and after changes.
struct ChangeSquares {
  double weight = 0;  ///< |W|^2
  double change = 0;  ///< |W' - W|^2

  /// REQUIRES: as many numbers in both.
  void add(std::span<const float> before, std::span<const float> after);
  void add(const ChangeSquares &other);
  /// |W' - W| / |W|; none: W is 0.
  [[nodiscard]] std::optional<double> relative_change() const;
};

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
