#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace patchbay {

/// A matrix as a product of two narrow ones: left [n_rank, n_rows] times right [n_cols, n_rank] in
/// ggml order, the root of each singular value on either side.
struct LowRankFit {
  int64_t n_rank = 0;
  std::vector<float> left;
  std::vector<float> right;
  double energy = 0;  ///< the part of the matrix's squared norm that is kept, 0 to 1
};

/// How much of a matrix to keep.
struct RankWanted {
  int64_t n_rank = 16;           ///< at most
  std::optional<double> energy;  ///< and no more than it takes for this part of the squared norm
};

/// The best approximation of `matrix`, F32 [n_cols, n_rows], by its largest singular values.
/// Where few of many are wanted they are found by subspace iteration from a random start that is
/// always the same (Halko, Martinsson, Tropp, arXiv 0909.4061, algorithms 4.4 and 5.1): their
/// energy is then within a thousandth of the best one's. REQUIRES: not all zero; finite.
[[nodiscard]] LowRankFit fit_low_rank(std::span<const float> matrix, int64_t n_rows, int64_t n_cols,
                                      const RankWanted &wanted);

}  // namespace patchbay
