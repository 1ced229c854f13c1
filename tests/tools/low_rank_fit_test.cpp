#include "tools/low_rank_fit.h"

#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <cmath>
#include <random>
#include <vector>

namespace patchbay {
namespace {

using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Rows random_matrix(Eigen::Index n_rows, Eigen::Index n_cols, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  return Rows::NullaryExpr(n_rows, n_cols, [&] { return normal(random); });
}

LowRankFit fit(const Rows &matrix, const RankWanted &wanted) {
  return fit_low_rank({matrix.data(), static_cast<size_t>(matrix.size())}, matrix.rows(),
                      matrix.cols(), wanted);
}

Rows product(const LowRankFit &fit, const Rows &like) {
  return Eigen::Map<const Rows>(fit.left.data(), like.rows(), fit.n_rank) *
         Eigen::Map<const Rows>(fit.right.data(), fit.n_rank, like.cols());
}

TEST(LowRankFit, FindsAMatrixOfItsRankExactly) {
  for (const auto &[n_rows, n_cols] :
       std::vector<std::pair<int, int>>{{40, 60}, {300, 200}, {200, 700}}) {
    const Rows matrix = random_matrix(n_rows, 5, 1) * random_matrix(5, n_cols, 2);
    const auto found = fit(matrix, {.n_rank = 5});
    EXPECT_EQ(found.n_rank, 5);
    EXPECT_LT((product(found, matrix) - matrix).norm() / matrix.norm(), 1e-5);
    EXPECT_NEAR(found.energy, 1, 1e-5);
  }
}

TEST(LowRankFit, IsNearlyTheBestOfItsRank) {
  // Singular values that fall slowly, the hard case for a random start.
  Rows matrix = random_matrix(400, 300, 3);
  for (Eigen::Index i = 0; i < 300; ++i) matrix.col(i) /= std::sqrt(static_cast<float>(1 + i));
  const Eigen::BDCSVD<Eigen::MatrixXd> svd(matrix.cast<double>());
  const double best =
      svd.singularValues().head(20).squaredNorm() / svd.singularValues().squaredNorm();
  const auto found = fit(matrix, {.n_rank = 20});
  EXPECT_NEAR(found.energy, best, 1e-3 * best);
  const double lost = (product(found, matrix) - matrix).squaredNorm() / matrix.squaredNorm();
  EXPECT_NEAR(1 - lost, found.energy, 1e-4);
}

TEST(LowRankFit, TakesNoMoreThanTheEnergyNeeds) {
  Rows matrix = Rows::Zero(200, 200);
  for (Eigen::Index i = 0; i < 200; ++i) matrix(i, i) = i < 40 ? 1.0F : 0.01F;
  const auto found = fit(matrix, {.n_rank = 200, .energy = 0.9});
  EXPECT_NEAR(static_cast<double>(found.n_rank), 37, 1);
  EXPECT_GE(found.energy, 0.9);
  EXPECT_EQ(fit(matrix, {.n_rank = 8, .energy = 0.9}).n_rank, 8);
}

}  // namespace
}  // namespace patchbay
