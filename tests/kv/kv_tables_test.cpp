#include "kv/kv_tables.h"

#include <gmock/gmock.h>

#include "kv/kv_invariants.h"
#include "kv/prefix_support.h"

namespace patchbay {
namespace {

using testing::ElementsAre;

constexpr KvSizes k_sizes{.block_size = 4, .n_blocks = 8, .n_blocks_swa = 4};
constexpr uint32_t k_swa = 6;
constexpr int32_t k_none = BlockTable::k_none;

void add(KvTables &tables, int32_t seq_id, uint32_t n_tokens) {
  auto reservation = tables.reserve(std::vector<SeqExtent>{{seq_id, n_tokens}});
  ASSERT_TRUE(reservation);
  reservation->commit();
  EXPECT_EQ(check_invariants(snapshot_of(tables)), "");
}

TEST(KvTables, ACommittedStepGivesBackWhatIsOutOfTheWindow) {
  KvTables tables(k_sizes, k_swa);
  add(tables, 0, 9);  // the next token, 9, sees 4..9
  EXPECT_THAT(tables.window()->table(0).blocks, ElementsAre(k_none, 1, 2));
  EXPECT_THAT(tables.full().table(0).blocks, ElementsAre(0, 1, 2));
  add(tables, 0, 4);  // 13 sees 8..13
  EXPECT_THAT(tables.window()->table(0).blocks, ElementsAre(k_none, k_none, 2, 0));
}

TEST(KvTables, AStepThatIsNotCommittedLeavesEverythingAsItWas) {
  KvTables tables(k_sizes, k_swa);
  add(tables, 0, 9);
  tables.fork(0, 1);
  const auto full = tables.full().tables();
  const auto window = tables.window()->tables();
  {
    const auto reservation = tables.reserve(std::vector<SeqExtent>{{0, 2}, {1, 3}});
    ASSERT_TRUE(reservation);
    EXPECT_EQ(tables.n_tokens(1), 12U);
    EXPECT_THAT(reservation->copies_full(), ElementsAre(BlockCopy{2, 3}, BlockCopy{2, 4}));
    EXPECT_THAT(reservation->copies_window(), ElementsAre(BlockCopy{2, 0}, BlockCopy{2, 3}));
  }
  EXPECT_EQ(tables.full().tables(), full);
  EXPECT_EQ(tables.window()->tables(), window);
  EXPECT_EQ(check_invariants(snapshot_of(tables)), "");
}

TEST(KvTables, WhatDoesNotFitIntoOnePoolIsTakenFromNeither) {
  KvTables tables({.block_size = 4, .n_blocks = 8, .n_blocks_swa = 2}, k_swa);
  EXPECT_FALSE(tables.reserve(std::vector<SeqExtent>{{0, 4}, {1, 5}}));
  EXPECT_EQ(tables.full().pool().n_free(), 8U);
  EXPECT_EQ(tables.window()->pool().n_free(), 2U);
  EXPECT_EQ(tables.n_tokens(0), 0U);
}

TEST(KvTables, AModelWithoutWindowsHasOneTable) {
  KvTables tables(k_sizes, 0);
  add(tables, 0, 32);
  EXPECT_EQ(tables.window(), nullptr);
  EXPECT_EQ(tables.full().pool().n_free(), 0U);
}

TEST(KvTables, WhatOnlyThePrefixCacheHoldsMakesRoom) {
  CachedTables cache({.block_size = 4, .n_blocks = 4, .n_blocks_swa = 4}, k_swa);
  cache.serve(text(14));
  EXPECT_EQ(cache.tables.full().pool().n_free(), 0U);
  cache.begin(0, {});
  ASSERT_TRUE(cache.compute(0, text(9, 500)));
  EXPECT_EQ(cache.hit(text(14)), 4U);
  EXPECT_EQ(cache.tables.full().pool().n_idle(), 1U);
}

TEST(KvTables, ARefusedStepLosesWhatIsKeptAndNothingElse) {
  CachedTables cache({.block_size = 4, .n_blocks = 4, .n_blocks_swa = 4}, k_swa);
  cache.serve(text(6, 500));
  cache.begin(0, {});
  ASSERT_TRUE(cache.compute(0, text(5)));
  const auto full = cache.tables.full().tables();
  const auto window = cache.tables.window()->tables();
  EXPECT_FALSE(cache.tables.reserve(std::vector<SeqExtent>{{0, 4}, {1, 9}}));
  cache.check();
  EXPECT_EQ(cache.tables.full().tables(), full);
  EXPECT_EQ(cache.tables.window()->tables(), window);
  EXPECT_EQ(cache.hit(text(6, 500)), 0U);
  EXPECT_EQ(cache.hit(text(5)), 4U);
}

TEST(KvTables, ARefusedStepGivesABlockBackThatWasCopiedAndThenEvicted) {
  CachedTables cache({.block_size = 4, .n_blocks = 4, .n_blocks_swa = 4}, k_swa);
  cache.serve(text(6));
  ASSERT_EQ(cache.begin(0, text(6)), 6U);
  const auto full = cache.tables.full().tables();
  // The first copies its last block, the second takes what the copy was made of, and the third
  // finds nothing.
  EXPECT_FALSE(cache.tables.reserve(std::vector<SeqExtent>{{0, 1}, {1, 8}, {2, 1}}));
  cache.check();
  EXPECT_EQ(cache.tables.full().tables(), full);
  ASSERT_TRUE(cache.compute(0, text(7)));
}

TEST(KvTables, WhereThereIsNoRoomForACopyTheCacheLeavesTheBlockToItsSequence) {
  for (const uint32_t n_blocks_swa : {4U, 8U}) {
    CachedTables cache({.block_size = 4, .n_blocks = 4, .n_blocks_swa = n_blocks_swa}, 100);
    cache.serve(text(14));
    ASSERT_EQ(cache.begin(0, text(14)), 14U);
    ASSERT_TRUE(cache.compute(0, text(16))) << "it fits when nothing is kept";
    EXPECT_THAT(cache.tables.full().table(0).blocks, ElementsAre(0, 1, 2, 3));
    cache.release(0);
    EXPECT_EQ(cache.hit(text(16)), 16U);
  }
}

TEST(KvTables, ABlockThatOthersHoldAsWellIsNotLeftToOne) {
  CachedTables cache({.block_size = 4, .n_blocks = 2, .n_blocks_swa = 2}, k_swa);
  cache.serve(text(6));
  ASSERT_EQ(cache.begin(0, text(6)), 6U);
  ASSERT_EQ(cache.begin(1, text(6)), 6U);
  EXPECT_FALSE(cache.compute(0, text(7)));
  EXPECT_EQ(cache.hit(text(6)), 6U);
}

/// Two sequences that share blocks, in both pools.
KvSnapshot sound_snapshot() {
  KvTables tables(k_sizes, k_swa);
  add(tables, 0, 9);
  tables.fork(0, 1);
  add(tables, 1, 2);
  return snapshot_of(tables);
}

/// The prefix cache holds blocks 0 to 2, a sequence the first two of them.
KvSnapshot snapshot_with_prefixes() {
  CachedTables cache(k_sizes);
  cache.serve(text(11));
  cache.begin(0, text(8));
  return snapshot_of(cache.tables);
}

TEST(KvInvariants, EachBrokenOneIsFound) {
  const std::vector<std::pair<std::string, void (*)(KvSnapshot &)>> breaks{
      {"block 0 is counted 3 times and has 2 holders", [](auto &kv) { kv.full.n_refs[0] = 3; }},
      {"block 7 is counted 0 times and listed as free 0 times",
       [](auto &kv) { kv.full.free_blocks.pop_back(); }},
      {"block 0 is counted 2 times and listed as free 1 times",
       [](auto &kv) { kv.full.free_blocks.push_back(0); }},
      {"block 7 is counted 0 times and listed as free 2 times",
       [](auto &kv) { kv.full.free_blocks.push_back(7); }},
      {"block 8 is free, and there is none", [](auto &kv) { kv.full.free_blocks.push_back(8); }},
      {"sequence 0 has 13 tokens in 3 blocks", [](auto &kv) { kv.full.tables[0].n_tokens = 13; }},
      {"sequence 5 has a table and no tokens", [](auto &kv) { kv.full.tables[5] = {}; }},
      {"sequence 0 has block 9, which there is not",
       [](auto &kv) { kv.full.tables[0].blocks[1] = 9; }},
      {"sequence 0 has block 0 twice", [](auto &kv) { kv.full.tables[0].blocks[1] = 0; }},
      {"entry 1 of sequence 0 is -1", [](auto &kv) { kv.full.tables[0].blocks[1] = k_none; }},
      {"window: sequence 0 with 9 tokens has dropped 0 blocks",
       [](auto &kv) { kv.window->tables[0].n_dropped = 0; }},
      {"window: entry 0 of sequence 0 is 0", [](auto &kv) { kv.window->tables[0].blocks[0] = 0; }},
      {"sequence 0 differs between its full and its window table",
       [](auto &kv) { kv.full.tables[0].n_tokens = 10; }},
      {"2 sequences have full tables and 0 have window tables",
       [](auto &kv) {
         kv.window->tables.clear();
         kv.window->n_refs.assign(4, 0);
         kv.window->free_blocks = {0, 1, 2, 3};
       }},
  };
  EXPECT_EQ(check_invariants(sound_snapshot()), "");
  for (const auto &[problem, break_it] : breaks) {
    KvSnapshot snapshot = sound_snapshot();
    break_it(snapshot);
    EXPECT_EQ(check_invariants(snapshot), problem);
  }
}

TEST(KvInvariants, EachBrokenOneOfThePrefixCacheIsFound) {
  const std::vector<std::pair<std::string, void (*)(KvSnapshot &)>> breaks{
      {"prefix cache: something", [](auto &kv) { kv.prefixes = "something"; }},
      {"2 blocks are counted as idle and 1 are", [](auto &kv) { kv.full.n_idle = 2; }},
      {"0 blocks are counted as idle and 1 are", [](auto &kv) { kv.full.n_idle = 0; }},
      {"block 0 is counted 2 times and has 1 holders",
       [](auto &kv) { kv.full.kept_blocks.erase(0); }},
      {"block 3 is counted 0 times and has 1 holders",
       [](auto &kv) { kv.full.kept_blocks.insert(3); }},
  };
  EXPECT_EQ(check_invariants(snapshot_with_prefixes()), "");
  for (const auto &[problem, break_it] : breaks) {
    KvSnapshot snapshot = snapshot_with_prefixes();
    break_it(snapshot);
    EXPECT_EQ(check_invariants(snapshot), problem);
  }
}

}  // namespace
}  // namespace patchbay
