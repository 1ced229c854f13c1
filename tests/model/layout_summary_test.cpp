#include "model/layout_summary.h"

#include <gmock/gmock.h>

#include <vector>

namespace patchbay {
namespace {

TEST(LayoutSummary, CountsWeightsByLayoutAndNamesEachInstructionSetOnce) {
  const WeightPlan plan{.weights = {{.layout = WeightLayout::as_stored},
                                    {.layout = WeightLayout::packed, .isa = Isa::avx512_bf16},
                                    {.layout = WeightLayout::packed, .isa = Isa::avx512_vnni},
                                    {.layout = WeightLayout::interleaved},
                                    {.layout = WeightLayout::packed, .isa = Isa::avx512_vnni},
                                    {.layout = WeightLayout::as_stored}}};
  const LayoutSummary summary = LayoutSummary::of(plan);
  EXPECT_EQ(summary.n_packed, 3U);
  EXPECT_EQ(summary.n_interleaved, 1U);
  EXPECT_EQ(summary.n_as_stored, 2U);
  EXPECT_THAT(summary.isas, testing::ElementsAre("avx512_vnni", "avx512_bf16"));
  EXPECT_EQ(to_string(summary), "3 packed (avx512_vnni, avx512_bf16), 1 interleaved, 2 as stored");
}

TEST(LayoutSummary, OfNothingPackedNamesNoInstructionSet) {
  EXPECT_EQ(to_string(LayoutSummary::of({.weights = std::vector<PlannedWeight>(2)})),
            "0 packed, 0 interleaved, 2 as stored");
}

}  // namespace
}  // namespace patchbay
