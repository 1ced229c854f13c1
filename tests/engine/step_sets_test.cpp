#include "engine/step_sets.h"

#include <gtest/gtest.h>

namespace patchbay {
namespace {

std::vector<AdapterSet> sets_of(int32_t n) {
  std::vector<AdapterSet> sets;
  for (int32_t i = 0; i < n; ++i) sets.push_back({{i, 1.0F}});
  return sets;
}

TEST(StepSets, AStepIsCountedInTheFirstClassThatHoldsItsSets) {
  StepSets counts;
  for (const int32_t n : {0, 1, 4, 5, 8, 64, 65, 100}) count_sets(counts, sets_of(n));
  EXPECT_EQ(counts.n_steps, (std::array<uint64_t, 10>{1, 1, 0, 0, 1, 2, 0, 0, 1, 2}));
  EXPECT_EQ(counts.n_sets, 0U + 1 + 4 + 5 + 8 + 64 + 65 + 100);
}

TEST(StepSets, TokensOfTheBaseAreNoSet) {
  StepSets counts;
  count_sets(counts, std::vector<AdapterSet>{{}, {{0, 1.0F}}});
  count_sets(counts, std::vector<AdapterSet>{{}});
  EXPECT_EQ(counts.n_steps[0], 1U);
  EXPECT_EQ(counts.n_steps[1], 1U);
  EXPECT_EQ(counts.n_sets, 1U);
}

}  // namespace
}  // namespace patchbay
