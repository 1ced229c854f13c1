#include "model/fold_row.h"

#include <gtest/gtest.h>

#include <vector>

namespace patchbay {
namespace {

TEST(FoldRow, TurnsEveryBlockOfTheSignedRow) {
  const HadamardFolding folding{.block_size = 2, .signs = {{4, {1, -1, 1, 1}}}};
  std::vector<float> row{3, 1, 5, 2};
  fold_row(folding, row);
  const float root = 0.70710678F;
  const std::vector<float> wanted{2 * root, 4 * root, 7 * root, 3 * root};
  for (size_t i = 0; i < row.size(); ++i) EXPECT_FLOAT_EQ(row[i], wanted[i]);
}

TEST(FoldRow, WithoutSignsIsItsOwnInverse) {
  const HadamardFolding folding{.block_size = 8};
  const std::vector<float> before{1, 2, -3, 4, 0.5F, 6, 7, -8, 9, 10, 11, 12, 13, 14, 15, 16};
  std::vector<float> row = before;
  fold_row(folding, row);
  EXPECT_NE(row, before);
  fold_row(folding, row);
  for (size_t i = 0; i < row.size(); ++i) EXPECT_NEAR(row[i], before[i], 1e-5);
}

TEST(FoldRow, UnfoldingBringsBackWhatWasFolded) {
  const HadamardFolding folding{.block_size = 4, .signs = {{8, {1, -1, -1, 1, -1, 1, 1, -1}}}};
  const std::vector<float> before{1, 2, -3, 4, 0.5F, 6, 7, -8};
  std::vector<float> row = before;
  fold_row(folding, row);
  unfold_row(folding, row);
  for (size_t i = 0; i < row.size(); ++i) EXPECT_NEAR(row[i], before[i], 1e-5);
}

}  // namespace
}  // namespace patchbay
