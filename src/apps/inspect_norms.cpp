#include "apps/inspect_norms.h"

#include <algorithm>
#include <cmath>

namespace patchbay {
namespace {

constexpr int64_t k_max_rank = 2048;  // a Gram matrix of 32 MiB

/// Which side of a factor the rank stands on, in ggml order.
enum class RankAxis { inner, outer };

/// Products of the n_rank vectors of one factor with each other; only [i][j <= i] is filled in.
using Gram = std::vector<double>;

/// `values` holds rows of n_rank numbers.
Gram gram_of_columns(std::span<const float> values, size_t n_rank) {
  Gram gram(n_rank * n_rank);
  for (; !values.empty(); values = values.subspan(n_rank)) {
    for (size_t i = 0; i < n_rank; ++i) {
      const double value = values[i];
      for (size_t j = 0; j <= i; ++j) gram[i * n_rank + j] += value * values[j];
    }
  }
  return gram;
}

double dot(std::span<const float> one, std::span<const float> other) {
  double sum = 0;
  for (size_t i = 0; i < one.size(); ++i) sum += static_cast<double>(one[i]) * other[i];
  return sum;
}

/// `values` holds n_rank rows.
Gram gram_of_rows(std::span<const float> values, size_t n_rank) {
  Gram gram(n_rank * n_rank);
  const size_t n = values.size() / n_rank;
  for (size_t i = 0; i < n_rank; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      gram[i * n_rank + j] = dot(values.subspan(i * n, n), values.subspan(j * n, n));
    }
  }
  return gram;
}

Gram gram_of(const Factor &factor, int64_t i_expert, RankAxis axis) {
  const int64_t n_elements = factor.ne[0] * factor.ne[1];
  std::vector<float> values(static_cast<size_t>(n_elements));
  to_f32(factor, i_expert * n_elements, values);
  const auto n_rank = static_cast<size_t>(factor.ne[axis == RankAxis::inner ? 0 : 1]);
  return axis == RankAxis::inner ? gram_of_columns(values, n_rank) : gram_of_rows(values, n_rank);
}

double trace(const Gram &gram, size_t n_rank) {
  double sum = 0;
  for (size_t i = 0; i < n_rank; ++i) sum += gram[i * n_rank + i];
  return sum;
}

/// The sum over all i and j of one_ij other_ij.
double inner_product(const Gram &one, const Gram &other, size_t n_rank) {
  double sum = 0;
  for (size_t i = 0; i < n_rank; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      const double product = one[i * n_rank + j] * other[i * n_rank + j];
      sum += i == j ? product : 2 * product;
    }
  }
  return sum;
}

}  // namespace

std::optional<PairNorms> pair_norms(const FactorPair &pair) {
  if (pair.n_rank < 1 || pair.n_rank > k_max_rank) return std::nullopt;
  const auto n_rank = static_cast<size_t>(pair.n_rank);
  const RankAxis axis_a = pair.kind == UseKind::embed ? RankAxis::inner : RankAxis::outer;
  PairNorms squares;
  for (int64_t i_expert = 0; i_expert < pair.b.ne[2]; ++i_expert) {
    const Gram a = gram_of(pair.a, i_expert, axis_a);
    const Gram b = gram_of(pair.b, i_expert, RankAxis::inner);
    squares.a += trace(a, n_rank);
    squares.b += trace(b, n_rank);
    squares.delta += inner_product(a, b, n_rank);
  }
  // Rounding may bring a delta of nothing just below zero; NaN is kept.
  const double delta = squares.delta < 0 ? 0 : std::sqrt(squares.delta);
  return PairNorms{.a = std::sqrt(squares.a),
                   .b = std::sqrt(squares.b),
                   .delta = std::abs(static_cast<double>(pair.scale)) * delta};
}

}  // namespace patchbay
