#include "kv/kv_tables.h"

#include <gmock/gmock.h>

#include "kv/kv_invariants.h"

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
    EXPECT_THAT(reservation->copies_full(), ElementsAre(BlockCopy{.from = 2, .to = 3}));
    EXPECT_THAT(reservation->copies_window(), ElementsAre(BlockCopy{.from = 2, .to = 0}));
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

/// Two sequences that share blocks, in both pools.
KvSnapshot sound_snapshot() {
  KvTables tables(k_sizes, k_swa);
  add(tables, 0, 9);
  tables.fork(0, 1);
  add(tables, 1, 2);
  return snapshot_of(tables);
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

}  // namespace
}  // namespace patchbay
