#include "engine/pooler.h"

#include <gmock/gmock.h>

namespace patchbay {
namespace {

using testing::ElementsAre;

/// Feeds the rows that the pooling reads of three tokens, the first two of them twice.
std::vector<float> pool(Pooling pooling) {
  const std::vector<std::vector<float>> rows{{1, 10}, {2, 20}, {6, 60}};
  Pooler pooler(pooling, rows.size());
  for (const size_t i : {0, 1, 0, 1, 2}) {
    if (pooling_reads(pooling, i, rows.size())) pooler.add(i, rows[i]);
  }
  EXPECT_TRUE(pooler.is_complete());
  return pooler.take();
}

TEST(Pooler, MakesOneVectorOfWhatItReads) {
  EXPECT_THAT(pool(Pooling::mean), ElementsAre(3, 30));
  EXPECT_THAT(pool(Pooling::cls), ElementsAre(1, 10));
  EXPECT_THAT(pool(Pooling::last), ElementsAre(6, 60));
  EXPECT_THAT(pool(Pooling::none), ElementsAre(1, 10, 2, 20, 6, 60));
}

TEST(Pooler, IsCompleteWhenNothingMoreIsNeeded) {
  const std::vector<float> row{1};
  Pooler mean(Pooling::mean, 2);
  EXPECT_FALSE(mean.is_complete());
  mean.add(0, row);
  EXPECT_FALSE(mean.is_complete());
  mean.add(1, row);
  EXPECT_TRUE(mean.is_complete());
  Pooler cls(Pooling::cls, 2);
  cls.add(0, row);
  EXPECT_TRUE(cls.is_complete());
}

TEST(Pooler, AMeanOfManyLosesNoDigits) {
  constexpr size_t k_n = 100000;
  const std::vector<float> row{0.1F};
  Pooler pooler(Pooling::mean, k_n);
  for (size_t i = 0; i < k_n; ++i) pooler.add(i, row);
  EXPECT_FLOAT_EQ(pooler.take()[0], 0.1F);
}

}  // namespace
}  // namespace patchbay
