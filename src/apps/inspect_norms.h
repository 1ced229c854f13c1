#pragma once

#include <optional>

#include "lora/adapter.h"

namespace patchbay {

/// Frobenius norms of a pair, over all experts together.
struct PairNorms {
  double a = 0;
  double b = 0;
  double delta = 0;  ///< of scale * B A, the change of the base weight at strength 1
};

/// Works on the n_rank x n_rank Gram matrices, |B A|^2 = sum_ij (A A^T)_ij (B^T B)_ij, so B A is
/// never formed; the error of `delta` is about 1e-8 |A| |B| |scale|. nullopt for a rank too large
/// to be worth it. REQUIRES: shapes as FactorPair says.
[[nodiscard]] std::optional<PairNorms> pair_norms(const FactorPair &pair);

}  // namespace patchbay
