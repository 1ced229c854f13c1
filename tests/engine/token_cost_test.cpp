#include "engine/token_cost.h"

#include <gtest/gtest.h>

#include "lora/adapter.h"

namespace patchbay {
namespace {

std::shared_ptr<const Adapter> of_ranks(std::initializer_list<int64_t> ranks) {
  auto made = std::make_shared<Adapter>();
  for (const int64_t n_rank : ranks) made->pairs.push_back({.n_rank = n_rank});
  return made;
}

TEST(AdapterCostFactor, TheBaseCostsOne) {
  EXPECT_EQ(adapter_cost_factor({}), 1);
  EXPECT_EQ(adapter_cost_factor({.spans = {{0, {}}, {3, {{of_ranks({64}), 0}}}}}), 1);
}

TEST(AdapterCostFactor, AHighRankCostsMoreThanALowOne) {
  EXPECT_EQ(adapter_cost_factor({.spans = {{0, {{of_ranks({8, 2}), 1}}}}}), 1.125);
  EXPECT_EQ(adapter_cost_factor({.spans = {{0, {{of_ranks({2, 64}), 1}}}}}), 2);
}

TEST(AdapterCostFactor, RanksAddUpAndTheHeaviestSpanCounts) {
  const auto one = of_ranks({32});
  EXPECT_EQ(adapter_cost_factor(
                {.spans = {{0, {}}, {4, {{one, 1}, {of_ranks({64}), -1}}}, {8, {{one, 1}}}}}),
            2.5);
}

}  // namespace
}  // namespace patchbay
