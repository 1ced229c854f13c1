// The prefix cache with a host tier: what leaves its block comes back, and is what it was.

#include <gmock/gmock.h>

#include <random>
#include <tuple>

#include "kv/filled_cache.h"

namespace patchbay {
namespace {

constexpr uint32_t k_block_size = 4;
constexpr size_t k_plenty = size_t{1} << 20U;

std::vector<int32_t> counted(int32_t first, int32_t n) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < n; ++i) tokens.push_back(first + i);
  return tokens;
}

/// A sequence of its own computes these tokens and ends.
uint32_t serve(FilledCache &kv, const std::vector<int32_t> &tokens) {
  constexpr int32_t k_seq = 50;
  const uint32_t n_there = kv.begin(k_seq, "", {tokens.begin(), tokens.end() - 1});
  EXPECT_TRUE(kv.compute(k_seq, {tokens.begin() + n_there, tokens.end()}));
  kv.release(k_seq);
  return n_there;
}

KvSizes sizes_of(uint32_t n_blocks) {
  return {.block_size = k_block_size, .n_blocks = n_blocks, .n_blocks_swa = n_blocks};
}

size_t block_bytes(FilledCache &kv) { return kv.cache().block_bytes(BlockMemory::full); }

TEST(HostTierOfPrefixCache, WhatWasEvictedComesBack) {
  FilledCache kv({.sizes = sizes_of(4), .host_bytes = k_plenty});
  serve(kv, counted(0, 16));
  serve(kv, counted(100, 16));
  EXPECT_EQ(kv.counters().n_blocks_saved, 4U);
  EXPECT_EQ(serve(kv, counted(0, 16)), 15U);
  EXPECT_EQ(kv.counters().n_blocks_restored, 4U);
  EXPECT_EQ(serve(kv, counted(100, 16)), 15U);
}

TEST(HostTierOfPrefixCache, WithoutOneWhatWasEvictedIsForgotten) {
  FilledCache kv({.sizes = sizes_of(4)});
  serve(kv, counted(0, 16));
  serve(kv, counted(100, 16));
  EXPECT_EQ(serve(kv, counted(0, 16)), 0U);
  EXPECT_EQ(kv.counters().n_blocks_saved, 0U);
}

TEST(HostTierOfPrefixCache, ABudgetBelowABlockKeepsNothing) {
  FilledCache probe({.sizes = sizes_of(4)});
  FilledCache kv({.sizes = sizes_of(4), .host_bytes = block_bytes(probe) - 1});
  serve(kv, counted(0, 16));
  serve(kv, counted(100, 16));
  EXPECT_EQ(kv.tables().prefixes().host_bytes(), 0U);
  EXPECT_EQ(serve(kv, counted(0, 16)), 0U);
}

TEST(HostTierOfPrefixCache, TheBudgetIsUsedToTheByteAndLeavesGoFirst) {
  FilledCache probe({.sizes = sizes_of(4)});
  FilledCache kv({.sizes = sizes_of(4), .host_bytes = 3 * block_bytes(probe)});
  serve(kv, counted(0, 16));
  serve(kv, counted(100, 16));
  EXPECT_EQ(kv.tables().prefixes().host_bytes(), 3 * block_bytes(kv));
  EXPECT_EQ(kv.counters().n_blocks_dropped, 1U);
  EXPECT_EQ(serve(kv, counted(0, 16)), 12U) << "the last block was the first to go";
}

TEST(HostTierOfPrefixCache, ComesBackAsFarAsBlocksCanBeHad) {
  FilledCache kv({.sizes = sizes_of(6), .host_bytes = k_plenty});
  serve(kv, counted(0, 24));
  ASSERT_EQ(kv.begin(1, "", counted(100, 13)), 0U);
  ASSERT_TRUE(kv.compute(1, counted(100, 13)));  // runs on, in four of the six blocks
  EXPECT_EQ(kv.begin(2, "", counted(0, 24)), 8U);
  kv.release(2);
  kv.release(1);
  EXPECT_EQ(kv.begin(2, "", counted(0, 24)), 24U);
}

TEST(HostTierOfPrefixCache, APathIsNotEvictedToMakeRoomForItself) {
  FilledCache kv({.sizes = sizes_of(4), .host_bytes = k_plenty});
  serve(kv, counted(0, 16));
  serve(kv, counted(100, 8));  // takes the blocks of tokens 8..15
  EXPECT_EQ(kv.begin(1, "", counted(0, 16)), 16U);
  EXPECT_EQ(kv.counters().n_blocks_restored, 2U);
}

TEST(HostTierOfPrefixCache, WhatIsComputedAgainIsNotKeptTwice) {
  FilledCache kv({.sizes = sizes_of(4), .host_bytes = k_plenty});
  serve(kv, counted(0, 16));
  serve(kv, counted(100, 16));
  ASSERT_EQ(kv.begin(1, "", {}), 0U);
  ASSERT_TRUE(kv.compute(1, counted(0, 16)));  // without looking for it
  EXPECT_EQ(kv.counters().n_blocks_dropped, 4U);
  kv.release(1);
  EXPECT_EQ(serve(kv, counted(100, 16)), 15U);
}

TEST(HostTierOfPrefixCache, ABlockThatASequenceWritesToIsSavedBefore) {
  FilledCache kv({.sizes = sizes_of(2), .host_bytes = k_plenty});
  serve(kv, counted(0, 8));
  ASSERT_EQ(kv.begin(1, "", counted(0, 6)), 6U);
  ASSERT_TRUE(kv.compute(1, {70, 71}));  // there is no third block to copy to
  kv.release(1);
  EXPECT_EQ(kv.begin(1, "", counted(0, 8)), 8U);
  kv.release(1);
  EXPECT_EQ(kv.begin(1, "", {0, 1, 2, 3, 4, 5, 70, 71}), 8U);
}

TEST(HostTierOfPrefixCache, OnlyTheWindowComesBack) {
  constexpr uint32_t k_swa = 6;
  FilledCache kv({.sizes = {.block_size = k_block_size, .n_blocks = 8, .n_blocks_swa = 4},
                  .n_swa = k_swa,
                  .host_bytes = k_plenty});
  ASSERT_EQ(kv.begin(1, "", {}), 0U);
  for (int32_t first = 0; first < 16; first += 4) ASSERT_TRUE(kv.compute(1, counted(first, 4)));
  kv.release(1);
  serve(kv, counted(100, 16));
  serve(kv, counted(200, 16));
  ASSERT_EQ(kv.begin(1, "", counted(0, 16)), 16U);
  // Token 16 sees 11..16: blocks 2 and 3 of the windows, beside the four that see everything.
  EXPECT_EQ(kv.counters().n_blocks_restored, 6U);
}

struct Shape {
  ggml_type type;
  KvLayout layout;
  uint32_t n_swa;
};

class HostTierOfShape : public testing::TestWithParam<Shape> {};

/// Sequences over two token ids meet each other's beginnings all the time; the pools hold about
/// three of them, and the host tier about as much again.
TEST_P(HostTierOfShape, EveryTokenIsWhatItWasComputedToBeWhateverHappens) {
  const auto &[type, layout, n_swa] = GetParam();
  const KvSizes sizes{.block_size = k_block_size, .n_blocks = 14, .n_blocks_swa = 12};
  FilledCache probe({.sizes = sizes, .n_swa = n_swa, .type = type, .layout = layout});
  for (const size_t n_host_blocks : {2U, 12U, 1000U}) {
    FilledCache kv({.sizes = sizes,
                    .n_swa = n_swa,
                    .type = type,
                    .layout = layout,
                    .host_bytes = n_host_blocks * block_bytes(probe) + 17});
    std::mt19937_64 random(2026);
    const auto below = [&](uint64_t n) { return static_cast<int32_t>(random() % n); };
    const auto draw = [&](uint64_t n_most) {
      std::vector<int32_t> tokens(1 + random() % n_most);
      for (auto &token : tokens) token = below(8) == 0 ? 1 : 0;
      return tokens;
    };
    constexpr int32_t k_n_seqs = 4;
    for (int32_t i = 0; i < 800 && !testing::Test::HasFatalFailure(); ++i) {
      const int32_t seq_id = below(k_n_seqs);
      const bool runs = kv.sequences().contains(seq_id);
      if (!runs) {
        kv.begin(seq_id, below(4) == 0 ? "other" : "one", draw(24));
      } else if (below(4) == 0) {
        kv.release(seq_id);
      } else if (below(8) == 0) {
        kv.fork(seq_id, (seq_id + 1) % k_n_seqs);
      } else if (!kv.compute(seq_id, draw(9))) {
        kv.release(seq_id);
      }
    }
    EXPECT_GT(kv.counters().n_blocks_restored, n_host_blocks < 3 ? 5U : 40U);
    const uint64_t n_most_dropped = kv.counters().n_blocks_saved;
    EXPECT_GT(kv.counters().n_blocks_dropped, n_host_blocks < 1000 ? n_most_dropped / 20 : 0U);
  }
}

std::vector<Shape> shapes() {
  std::vector<Shape> shapes;
  for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q8_0}) {
    for (const KvLayout layout : {KvLayout::by_head, KvLayout::by_token}) {
      for (const uint32_t n_swa : {0U, 6U}) shapes.push_back({type, layout, n_swa});
    }
  }
  return shapes;
}

std::string name_of(const testing::TestParamInfo<Shape> &info) {
  const auto &[type, layout, n_swa] = info.param;
  return std::string(ggml_type_name(type)) +
         (layout == KvLayout::by_head ? "_by_head" : "_by_token") + (n_swa > 0 ? "_windows" : "");
}

INSTANTIATE_TEST_SUITE_P(Shapes, HostTierOfShape, testing::ValuesIn(shapes()), name_of);

}  // namespace
}  // namespace patchbay
