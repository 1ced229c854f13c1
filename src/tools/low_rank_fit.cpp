#include "tools/low_rank_fit.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <random>

namespace patchbay {
namespace {

using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Dense = Eigen::MatrixXf;
using Exact = Eigen::MatrixXd;

constexpr Eigen::Index k_spare = 16;   // columns beyond those that are wanted
constexpr int k_n_iterations = 4;      // each sharpens the gap between kept and dropped values
constexpr Eigen::Index k_small = 128;  // up to here all singular values are as cheap

/// Left and right singular vectors with their values, largest first.
struct Svd {
  Dense left;
  Eigen::VectorXd values;
  Dense right;
};

Svd svd_of(const Exact &matrix) {
  const Eigen::BDCSVD<Exact> svd(matrix, Eigen::ComputeThinU | Eigen::ComputeThinV);
  return {svd.matrixU().cast<float>(), svd.singularValues(), svd.matrixV().cast<float>()};
}

/// An orthonormal basis of the columns.
Dense basis_of(const Dense &columns) {
  const Eigen::HouseholderQR<Dense> qr(columns);
  return qr.householderQ() * Dense::Identity(columns.rows(), columns.cols());
}

Dense random_columns(Eigen::Index n_rows, Eigen::Index n_cols) {
  // NOLINTNEXTLINE(bugprone-random-generator-seed): the same models give the same adapter
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  return Dense::NullaryExpr(n_rows, n_cols, [&] { return normal(random); });
}

Svd largest_values(const Eigen::Map<const Rows> &matrix, Eigen::Index n_wanted) {
  Dense basis = basis_of(matrix * random_columns(matrix.cols(), n_wanted + k_spare));
  for (int i = 0; i < k_n_iterations; ++i) {
    const Dense other = basis_of(matrix.transpose() * basis);
    basis = basis_of(matrix * other);
  }
  Svd svd = svd_of((basis.transpose() * matrix).cast<double>());
  svd.left = basis * svd.left;
  return svd;
}

Svd decompose(const Eigen::Map<const Rows> &matrix, Eigen::Index n_wanted) {
  const Eigen::Index n_all = std::min(matrix.rows(), matrix.cols());
  if (n_all <= k_small || 2 * (n_wanted + k_spare) > n_all) return svd_of(matrix.cast<double>());
  return largest_values(matrix, n_wanted);
}

/// How many of the values it takes; all of them if they are not enough.
Eigen::Index n_enough(const Eigen::VectorXd &values, double squares) {
  double sum = 0;
  for (Eigen::Index i = 0; i < values.size(); ++i) {
    sum += values[i] * values[i];
    if (sum >= squares) return i + 1;
  }
  return values.size();
}

LowRankFit cut(const Svd &svd, Eigen::Index n_rank, double squares) {
  LowRankFit fit{.n_rank = n_rank};
  const Eigen::VectorXf roots = svd.values.head(n_rank).cwiseSqrt().cast<float>();
  const Rows left = svd.left.leftCols(n_rank) * roots.asDiagonal();
  const Rows right = roots.asDiagonal() * svd.right.leftCols(n_rank).transpose();
  fit.left.assign(left.data(), left.data() + left.size());
  fit.right.assign(right.data(), right.data() + right.size());
  fit.energy = std::min(1.0, svd.values.head(n_rank).squaredNorm() / squares);
  return fit;
}

}  // namespace

LowRankFit fit_low_rank(std::span<const float> numbers, int64_t n_rows, int64_t n_cols,
                        const RankWanted &wanted) {
  const Eigen::Map<const Rows> matrix(numbers.data(), n_rows, n_cols);
  double squares = 0;
  for (const float number : numbers) squares += static_cast<double>(number) * number;
  const Eigen::Index n_most = std::min({wanted.n_rank, n_rows, n_cols});
  if (!wanted.energy) return cut(decompose(matrix, n_most), n_most, squares);
  constexpr Eigen::Index k_first_try = 16;
  for (Eigen::Index n_tried = std::min(k_first_try, n_most);;
       n_tried = std::min(2 * n_tried, n_most)) {
    const Svd svd = decompose(matrix, n_tried);
    const Eigen::Index n_rank = n_enough(svd.values, *wanted.energy * squares);
    // Of the values past those that were asked for only the sum is any good.
    if (n_rank <= n_tried || n_tried == n_most) return cut(svd, std::min(n_rank, n_most), squares);
  }
}

}  // namespace patchbay
