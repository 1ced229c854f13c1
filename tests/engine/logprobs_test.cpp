#include "engine/logprobs.h"

#include <gmock/gmock.h>

#include <cmath>

namespace patchbay {
namespace {

TEST(LogprobsOf, AreTheLogarithmOfTheSoftmax) {
  const std::vector<float> logits{1, 3, 2};
  const double sum = std::exp(1.0) + std::exp(3.0) + std::exp(2.0);
  const auto logprobs = logprobs_of(logits, 2, 3);
  EXPECT_NEAR(logprobs.chosen, 2 - std::log(sum), 1e-6);
  ASSERT_EQ(logprobs.top.size(), 3U);
  EXPECT_EQ(logprobs.top[0].token, 1);
  EXPECT_EQ(logprobs.top[1].token, 2);
  EXPECT_EQ(logprobs.top[2].token, 0);
  EXPECT_NEAR(logprobs.top[0].logprob, 3 - std::log(sum), 1e-6);
}

TEST(LogprobsOf, AreNeverAboveZeroNorInfinite) {
  const auto certain = logprobs_of(std::vector<float>{1e4F, -1e4F}, 0, 2);
  EXPECT_EQ(certain.chosen, 0);
  EXPECT_TRUE(std::isfinite(certain.top[1].logprob));
  EXPECT_LE(certain.top[0].logprob, 0);
}

TEST(LogprobsOf, TiesGoByTokenAndNoMoreThanThereAre) {
  const auto logprobs = logprobs_of(std::vector<float>{2, 2, 2}, 0, 9);
  ASSERT_EQ(logprobs.top.size(), 3U);
  for (int32_t i = 0; i < 3; ++i) EXPECT_EQ(logprobs.top[static_cast<size_t>(i)].token, i);
  EXPECT_TRUE(logprobs_of(std::vector<float>{1, 2}, 0, 0).top.empty());
}

}  // namespace
}  // namespace patchbay
