#include <gmock/gmock.h>

#include "kv/kv_invariants.h"
#include "kv/kv_tables.h"

namespace patchbay {
namespace {

constexpr uint32_t k_block_size = 4;
const std::string k_tenant = "someone";

PrefixContent content_of(std::vector<int32_t> tokens) {
  return PrefixContent(ContentView{.tokens = tokens, .worn = {}});
}

std::vector<int32_t> counted(int32_t first, int32_t n) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < n; ++i) tokens.push_back(first + i);
  return tokens;
}

/// Computes these tokens for a sequence of its own, which ends.
void compute(KvTables &tables, const std::vector<int32_t> &tokens) {
  constexpr int32_t k_seq = 99;
  tables.prefixes().begin(k_seq, k_tenant);
  auto reservation = tables.reserve(
      std::vector<SeqExtent>{{k_seq, static_cast<uint32_t>(tokens.size()), content_of(tokens)}});
  ASSERT_TRUE(reservation);
  reservation->commit();
  tables.release(k_seq);
}

void adopt(KvTables &tables, int32_t seq_id, const std::vector<int32_t> &tokens) {
  tables.prefixes().begin(seq_id, k_tenant);
  tables.prefixes().adopt(seq_id, content_of(tokens));
  ASSERT_EQ(tables.n_tokens(seq_id), tokens.size());
}

class Reservation : public testing::TestWithParam<uint32_t> {
 protected:
  static KvTables tables_of(uint32_t n_blocks) {
    return KvTables({.block_size = k_block_size, .n_blocks = n_blocks, .n_blocks_swa = n_blocks},
                    GetParam());
  }
};

TEST_P(Reservation, WhatFailsGivesASharedBlockBackThatItWouldHaveCopied) {
  KvTables tables = tables_of(3);
  compute(tables, counted(0, 6));
  adopt(tables, 0, counted(0, 5));
  const auto before = tables.full().tables();
  // The copy takes the third block; the second sequence finds none.
  EXPECT_FALSE(tables.reserve(std::vector<SeqExtent>{{0, 1, {}}, {1, 8, {}}}));
  EXPECT_EQ(tables.full().tables(), before);
  EXPECT_EQ(check_invariants(snapshot_of(tables)), "");
}

TEST_P(Reservation, ASequenceThatFillsTheCacheGoesOnInItsLastBlock) {
  KvTables tables = tables_of(2);
  compute(tables, counted(0, 8));
  adopt(tables, 0, counted(0, 7));
  auto reservation = tables.reserve(std::vector<SeqExtent>{{0, 1, content_of({7})}});
  ASSERT_TRUE(reservation);
  EXPECT_TRUE(reservation->copies_full().empty());
  reservation->commit();
  EXPECT_EQ(tables.n_tokens(0), 8U);
  EXPECT_EQ(check_invariants(snapshot_of(tables)), "");
}

std::string name_of(const testing::TestParamInfo<uint32_t> &info) {
  return info.param == 0 ? "full" : "windows";
}

INSTANTIATE_TEST_SUITE_P(Layers, Reservation, testing::Values(0U, 6U), name_of);

}  // namespace
}  // namespace patchbay
