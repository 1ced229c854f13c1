#include "kernels/attention_plan.h"

#include <gmock/gmock.h>

#include <set>
#include <tuple>

namespace patchbay {
namespace {

const AttentionShape k_shape{.n_embd_head = 64, .n_head = 9, .n_head_kv = 3};
const std::vector<int32_t> k_blocks(64, 0);

AttentionRun run_of(uint32_t first_row, uint32_t first_pos, uint32_t n_rows = 1) {
  return {.first_row = first_row, .n_rows = n_rows, .first_pos = first_pos, .blocks = k_blocks};
}

/// What a thread's items cost.
uint64_t cost_of(const AttentionPlan &plan, uint32_t i_thread, uint32_t n_threads) {
  const auto share = plan.share(i_thread, n_threads);
  if (share.empty()) return 0;
  uint64_t end = plan.cost();
  if (share.data() + share.size() != plan.items().data() + plan.items().size())
    end = share.data()[share.size()].cost_before;
  return end - share.front().cost_before;
}

TEST(AttentionPlan, EveryRowHeadAndPartitionIsComputedOnce) {
  for (const uint32_t n_threads : {1U, 2U, 5U, 64U}) {
    AttentionPlan plan(k_shape);
    plan.set(std::vector{run_of(0, 0, 100), run_of(100, 1000), run_of(101, 255, 2)}, n_threads);
    std::set<std::tuple<uint32_t, uint32_t, uint32_t>> done;
    size_t n_done = 0;
    for (uint32_t i = 0; i < n_threads; ++i) {
      for (const auto &item : plan.share(i, n_threads)) {
        const QueryTile &tile = plan.tiles()[item.i_tile];
        for (uint32_t row = tile.first_row; row < tile.first_row + tile.n_rows; ++row) {
          for (uint32_t part = item.first_partition; part < item.end_partition; ++part, ++n_done)
            done.insert({row, item.i_head_kv, part});
        }
      }
    }
    EXPECT_EQ(n_done, done.size());
    EXPECT_EQ(done.size(), 3U * (100 + 4 + 2 * 2)) << n_threads;
  }
}

TEST(AttentionPlan, OneLongSequenceIsSharedEvenlyByThreads) {
  AttentionPlan plan(k_shape);
  plan.set(std::vector{run_of(0, 2047)}, 2);
  EXPECT_EQ(plan.splits().size(), 3U);
  EXPECT_EQ(cost_of(plan, 0, 2), cost_of(plan, 1, 2));
}

TEST(AttentionPlan, OneThreadSplitsNothing) {
  AttentionPlan plan(k_shape);
  plan.set(std::vector{run_of(0, 2000, 40)}, 1);
  EXPECT_TRUE(plan.splits().empty());
}

TEST(AttentionPlan, AWindowLeavesOutWhatItDoesNotReach) {
  AttentionShape shape = k_shape;
  shape.n_swa = 100;
  AttentionPlan plan(shape);
  plan.set(std::vector{run_of(0, 1023)}, 1);
  for (const auto &item : plan.items()) {
    EXPECT_EQ(item.first_partition, 3U);
    EXPECT_EQ(item.end_partition, 4U);
  }
}

TEST(AttentionPlan, TheLastOfASplitIsToldEachTime) {
  AttentionPlan plan(k_shape);
  plan.set(std::vector{run_of(0, 767)}, 8);
  ASSERT_EQ(plan.splits().front().n_partitions, 3U);
  for (int layer = 0; layer < 2; ++layer) {
    EXPECT_FALSE(plan.finish(0));
    EXPECT_FALSE(plan.finish(0));
    EXPECT_TRUE(plan.finish(0));
  }
}

}  // namespace
}  // namespace patchbay
