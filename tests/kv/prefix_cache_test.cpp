#include "kv/prefix_cache.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "kv/prefix_support.h"

namespace patchbay {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint32_t k_block_size = 4;
constexpr KvSizes k_roomy{.block_size = k_block_size, .n_blocks = 64, .n_blocks_swa = 64};
constexpr int32_t k_none = BlockTable::k_none;

TEST(PrefixCache, ABeginningOfAnyLengthIsFoundToTheLastTokenComputed) {
  for (uint32_t n_computed = 0; n_computed <= 3 * k_block_size + 1; ++n_computed) {
    CachedTables cache(k_roomy);
    cache.serve(text(n_computed));
    for (uint32_t n_asked = 0; n_asked <= n_computed + 5; ++n_asked) {
      const uint32_t n_wanted = std::min(n_asked, n_computed);
      EXPECT_EQ(cache.hit(text(n_asked)), n_wanted) << n_asked << " of " << n_computed;
      EXPECT_EQ(cache.begin(0, text(n_asked)), n_wanted);
      cache.release(0);
    }
    // Another token, or the same token that wears another set, ends it wherever it stands.
    for (uint32_t i = 0; i < n_computed; ++i) {
      const auto n_rest = n_computed - i;
      const auto first = 100 + static_cast<int32_t>(i);
      EXPECT_EQ(cache.hit(joined(text(i), text(n_rest, 30))), i);
      EXPECT_EQ(cache.hit(joined(text(i), text(n_rest, first, 1))), i);
    }
  }
}

TEST(PrefixCache, OfARunningSequenceWholeBlocksAreFound) {
  for (uint32_t n_computed = 1; n_computed <= 3 * k_block_size + 1; ++n_computed) {
    CachedTables cache(k_roomy);
    cache.begin(0, {});
    for (uint32_t n = 1; n <= n_computed; ++n) ASSERT_TRUE(cache.compute(0, text(n)));
    const PrefixCache::Match match = cache.tables.prefixes().match("", text(20));
    EXPECT_EQ(match.n_tokens, n_computed / k_block_size * k_block_size);
    EXPECT_EQ(match.n_tokens_in_use, match.n_tokens);
    cache.release(0);
    EXPECT_EQ(cache.hit(text(20)), n_computed);
    EXPECT_EQ(cache.tables.prefixes().match("", text(20)).n_tokens_in_use, 0U);
  }
}

TEST(PrefixCache, WhoGoesOnInsideABlockGetsACopyOfIt) {
  CachedTables cache(k_roomy);
  cache.serve(text(8));
  const PrefixContent other = joined(text(6), text(3, 30));
  EXPECT_EQ(cache.begin(0, other), 6U);
  EXPECT_THAT(cache.tables.full().table(0).blocks, ElementsAre(0, 1)) << "the blocks themselves";
  {
    const auto reservation = cache.tables.reserve(std::vector<SeqExtent>{{0, 1}});
    ASSERT_TRUE(reservation);
    EXPECT_THAT(reservation->copies_full(), ElementsAre(BlockCopy{.from = 1, .to = 2}));
  }
  ASSERT_TRUE(cache.compute(0, other));
  EXPECT_EQ(cache.hit(text(8)), 8U);
  EXPECT_EQ(cache.hit(other), 8U);
}

TEST(PrefixCache, AnUnfinishedBlockGivesWayToALongerOneOfTheSameBeginning) {
  CachedTables cache(k_roomy);
  const auto expect_nodes = [&](size_t n_nodes) {
    EXPECT_EQ(cache.tables.prefixes().n_nodes(), n_nodes);
    EXPECT_EQ(cache.tables.full().pool().n_idle(), n_nodes);
  };
  cache.serve(text(5));
  expect_nodes(2);
  cache.serve(text(7));
  expect_nodes(2);
  cache.serve(text(6));
  expect_nodes(2);
  EXPECT_EQ(cache.hit(text(9)), 7U);
  cache.serve(joined(text(6), text(1, 30)));  // another end of the same length
  expect_nodes(3);
  cache.serve(text(8));
  expect_nodes(3);
  EXPECT_EQ(cache.hit(text(9)), 8U);
  EXPECT_EQ(cache.hit(joined(text(6), text(1, 30))), 7U);
  cache.serve(text(7));
  expect_nodes(3);
}

TEST(PrefixCache, WhatTwoSequencesComputeIsKeptOnceAndShared) {
  CachedTables cache(k_roomy, 6);
  cache.begin(0, {});
  cache.begin(1, {});
  auto step = cache.tables.reserve(
      std::vector<SeqExtent>{{0, 8, text(8)}, {1, 9, joined(text(8), text(1, 30))}});
  ASSERT_TRUE(step);
  EXPECT_EQ(cache.tables.full().pool().n_free(), 64U - 5);
  step->commit();
  cache.check();
  EXPECT_EQ(cache.tables.full().pool().n_free(), 64U - 3);
  EXPECT_THAT(cache.tables.full().table(0).blocks, ElementsAre(0, 1));
  EXPECT_EQ(cache.tables.full().table(1).blocks[0], 0);
  EXPECT_EQ(cache.tables.full().table(1).blocks[1], 1);
  EXPECT_EQ(cache.tables.window()->table(1).blocks[1], 1);
  EXPECT_EQ(cache.tables.prefixes().n_nodes(), 2U);
}

TEST(PrefixCache, TenantsDoNotFindWhatOthersComputed) {
  CachedTables cache(k_roomy);
  cache.serve(text(9), "a");
  EXPECT_EQ(cache.hit(text(9), "a"), 9U);
  EXPECT_EQ(cache.hit(text(9), "b"), 0U);
  EXPECT_EQ(cache.hit(text(9)), 0U);
  EXPECT_EQ(cache.begin(0, text(9), "b"), 0U);
  cache.begin(1, text(9), "a");
  ASSERT_TRUE(cache.compute(0, text(9)));
  EXPECT_NE(cache.tables.full().table(0).blocks[0], cache.tables.full().table(1).blocks[0]);
  cache.release(0);
  EXPECT_EQ(cache.tables.full().pool().n_idle(), 3U) << "those of b; a's are in use";
}

TEST(PrefixCache, EachWayOfWearingHasABranchOfItsOwnBehindTheCommonPart) {
  CachedTables cache(k_roomy);
  const PrefixContent base = text(6);
  const auto spoken_by = [&](unsigned char worn) { return joined(base, text(5, 106, worn)); };
  cache.serve(spoken_by(0));
  cache.serve(spoken_by(1));
  EXPECT_EQ(cache.hit(spoken_by(2)), 6U);
  cache.serve(spoken_by(2));
  for (unsigned char worn = 0; worn < 3; ++worn) EXPECT_EQ(cache.hit(spoken_by(worn)), 11U);
}

TEST(PrefixCache, TheLongestIdleGoesFirstAndALeafBeforeWhatItFollowsOn) {
  CachedTables cache({.block_size = k_block_size, .n_blocks = 6});
  const PrefixContent first = text(9);
  const PrefixContent second = joined(text(4), text(8, 30));
  cache.serve(first);
  cache.serve(second);
  EXPECT_EQ(cache.tables.full().pool().n_idle(), 5U);
  // Each new token block takes the one that is free, then the longest idle ones.
  cache.begin(0, {}, "other");
  const std::vector<std::pair<uint32_t, uint32_t>> n_left{{9, 12}, {8, 12}, {4, 12},
                                                          {4, 8},  {4, 4},  {0, 0}};
  for (uint32_t i = 0; i < 6; ++i) {
    ASSERT_TRUE(cache.compute(0, text((i + 1) * k_block_size, 500)));
    EXPECT_EQ(cache.hit(first), n_left[i].first) << i;
    EXPECT_EQ(cache.hit(second), n_left[i].second) << i;
  }
  EXPECT_EQ(cache.tables.prefixes().counters().n_blocks_evicted, 5U);
  EXPECT_FALSE(cache.compute(0, text(25, 500)));
}

TEST(PrefixCache, WhatIsUsedAgainIsYoungAgain) {
  CachedTables cache({.block_size = k_block_size, .n_blocks = 4});
  cache.serve(text(8, 10));
  cache.serve(text(8, 30));
  EXPECT_EQ(cache.begin(0, text(8, 10)), 8U);
  cache.release(0);
  ASSERT_TRUE((cache.begin(0, {}), cache.compute(0, text(8, 500))));
  EXPECT_EQ(cache.hit(text(8, 10)), 8U);
  EXPECT_EQ(cache.hit(text(8, 30)), 0U);
}

TEST(PrefixCache, WhatASequenceHoldsIsNotEvicted) {
  CachedTables cache({.block_size = k_block_size, .n_blocks = 4});
  cache.serve(text(12));
  EXPECT_EQ(cache.begin(0, text(8)), 8U);
  cache.begin(1, {});
  EXPECT_FALSE(cache.compute(1, text(9, 500)));
  EXPECT_EQ(cache.tables.n_tokens(1), 0U);
  EXPECT_EQ(cache.hit(text(12)), 8U) << "only what nobody held went";
  ASSERT_TRUE(cache.compute(1, text(8, 500)));
}

TEST(PrefixCache, ASequenceThatWasNotBegunLeavesNothing) {
  CachedTables cache(k_roomy);
  cache.serve(text(8));
  ASSERT_TRUE(cache.compute(0, text(8)));
  EXPECT_NE(cache.tables.full().table(0).blocks[0], 0) << "nor does it share";
  cache.tables.prefixes().adopt(0, text(8));
  EXPECT_EQ(cache.tables.n_tokens(0), 8U);
  cache.release(0);
  EXPECT_EQ(cache.tables.prefixes().n_nodes(), 2U);
  EXPECT_EQ(cache.tables.full().pool().n_free(), 62U);
}

TEST(PrefixCache, BothSidesOfAForkAreKnown) {
  CachedTables cache(k_roomy);
  cache.begin(0, {});
  ASSERT_TRUE(cache.compute(0, text(6)));
  cache.tables.fork(0, 1);
  const PrefixContent other = joined(text(6), text(5, 30));
  ASSERT_TRUE(cache.compute(0, text(11)));
  ASSERT_TRUE(cache.compute(1, other));
  cache.release(0);
  cache.release(1);
  EXPECT_EQ(cache.hit(text(11)), 11U);
  EXPECT_EQ(cache.hit(other), 11U);
  cache.begin(2, {});
  cache.tables.fork(3, 2);  // of nobody
  ASSERT_TRUE(cache.compute(2, text(4, 70)));
  EXPECT_EQ(cache.hit(text(4, 70)), 0U) << "a fork of what was not begun is nobody's";
}

TEST(PrefixCache, ASequenceGoesOnWithWhatOthersComputedSinceItBegan) {
  CachedTables cache(k_roomy, 6);
  cache.begin(0, text(20));
  ASSERT_TRUE(cache.compute(0, text(6)));
  cache.serve(text(15));
  cache.tables.prefixes().adopt(0, text(20).slice(4, 16));
  cache.check();
  EXPECT_EQ(cache.tables.n_tokens(0), 15U);
  cache.tables.prefixes().adopt(0, text(20).slice(12, 8));
  EXPECT_EQ(cache.tables.n_tokens(0), 15U) << "there is no more";
  ASSERT_TRUE(cache.compute(0, text(20)));
  EXPECT_EQ(cache.hit(text(20)), 20U);
}

TEST(PrefixCache, ASequenceOfATenantThatWasForgottenGoesOnAndLeavesNothing) {
  CachedTables cache(k_roomy);
  cache.begin(0, {}, "forgotten");
  for (int i = 0; i < 5000; ++i) cache.tables.prefixes().begin(1, std::to_string(i));
  ASSERT_TRUE(cache.compute(0, text(6)));
  ASSERT_TRUE(cache.compute(0, text(9)));
  cache.release(0);
  EXPECT_EQ(cache.tables.prefixes().n_nodes(), 0U);
  EXPECT_EQ(cache.tables.full().pool().n_free(), 64U);
}

TEST(PrefixCacheWindow, AHitNeedsWhatTheNextTokenSeesAndNoMore) {
  constexpr uint32_t k_swa = 6;
  CachedTables cache(k_roomy, k_swa);
  cache.serve(text(24));
  EXPECT_EQ(cache.begin(0, text(24)), 24U);
  // The next token, 24, sees 19..24.
  EXPECT_THAT(cache.tables.window()->table(0).blocks,
              ElementsAre(k_none, k_none, k_none, k_none, 4, 5));
  EXPECT_THAT(cache.tables.full().table(0).blocks, ElementsAre(0, 1, 2, 3, 4, 5));
  cache.release(0);
  EXPECT_EQ(cache.begin(0, text(22)), 22U);  // 22 sees 17..22
  EXPECT_THAT(cache.tables.window()->table(0).blocks,
              ElementsAre(k_none, k_none, k_none, k_none, 4, 5));
  cache.release(0);
  EXPECT_EQ(cache.begin(0, text(20)), 20U);  // 20 sees 15..20
  EXPECT_THAT(cache.tables.window()->table(0).blocks, ElementsAre(k_none, k_none, k_none, 3, 4));
}

TEST(PrefixCacheWindow, WithoutItsWindowAHitFallsBackToTheLongestThatHasOne) {
  // A sequence that was computed in one go keeps all of its window blocks, the front ones idle
  // first.
  constexpr uint32_t k_swa = 6;
  constexpr KvSizes sizes{.block_size = k_block_size, .n_blocks = 64, .n_blocks_swa = 6};
  const auto after_evicting = [&](uint32_t n_blocks) {
    CachedTables cache(sizes, k_swa);
    cache.serve(text(24));
    cache.begin(0, {}, "other");
    EXPECT_TRUE(cache.compute(0, text(n_blocks * k_block_size, 500)));
    std::vector<uint32_t> hits;
    for (uint32_t n_asked = 1; n_asked <= 25; ++n_asked) hits.push_back(cache.hit(text(n_asked)));
    EXPECT_EQ(cache.tables.prefixes().n_nodes(), 6 + n_blocks) << "the other layers' stay";
    return hits;
  };
  // With the window blocks from `first` on, n tokens are found when none that the next one sees
  // lies before.
  for (uint32_t n_gone = 0; n_gone <= 5; ++n_gone) {
    const auto hits = after_evicting(n_gone);
    for (uint32_t n_asked = 1; n_asked <= 25; ++n_asked) {
      uint32_t n_wanted = 0;
      for (uint32_t n = 1; n <= std::min(n_asked, 24U); ++n) {
        const uint32_t first_seen = n + 1 > k_swa ? n + 1 - k_swa : 0;
        // What was evicted are the blocks at the front.
        if (first_seen / k_block_size >= n_gone) n_wanted = n;
      }
      EXPECT_EQ(hits[n_asked - 1], n_wanted) << n_asked << " without " << n_gone;
    }
  }
}

TEST(PrefixCacheWindow, AWindowBlockThatWasEvictedComesBackWhenItIsComputedAgain) {
  constexpr uint32_t k_swa = 6;
  CachedTables cache({.block_size = k_block_size, .n_blocks = 64, .n_blocks_swa = 4}, k_swa);
  cache.serve(text(16));
  cache.begin(0, {}, "other");
  ASSERT_TRUE(cache.compute(0, text(16, 500)));
  cache.release(0);
  EXPECT_EQ(cache.hit(text(16)), 0U);
  const size_t n_nodes = cache.tables.prefixes().n_nodes();
  cache.serve(text(16));
  EXPECT_EQ(cache.hit(text(16)), 16U);
  EXPECT_EQ(cache.tables.prefixes().n_nodes(), n_nodes) << "the same nodes";
}

TEST(PrefixCacheInvariants, ABlockThatIsKeptForNobodyIsFound) {
  BlockTables tables(2, k_block_size);
  PrefixCache cache(tables, nullptr, 0);
  EXPECT_THAT(cache.check_invariants(), IsEmpty());
  ASSERT_TRUE(tables.extend(0, 1));
  tables.pool().keep(0);
  EXPECT_EQ(cache.check_invariants(), "block 0 is kept: true, for node 0");
}

TEST(PrefixCacheInvariants, ABlockThatANodeHasLostIsFound) {
  BlockTables tables(2, k_block_size);
  PrefixCache cache(tables, nullptr, 0);
  cache.begin(0, "");
  ASSERT_TRUE(tables.extend(0, 4));
  cache.append(0, text(4));
  EXPECT_THAT(cache.check_invariants(), IsEmpty());
  tables.pool().forget(0);
  EXPECT_EQ(cache.check_invariants(), "block 0 is kept: false, for node 2");
}

}  // namespace
}  // namespace patchbay
