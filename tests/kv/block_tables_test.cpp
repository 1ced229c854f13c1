#include "kv/block_tables.h"

#include <gmock/gmock.h>

namespace patchbay {
namespace {

using testing::ElementsAre;

constexpr uint32_t k_block_size = 4;

TEST(BlockTables, ASequenceGrowsBlockByBlock) {
  BlockTables tables(8, k_block_size);
  EXPECT_TRUE(tables.extend(7, 3));
  EXPECT_TRUE(tables.extend(2, 1));
  EXPECT_TRUE(tables.extend(7, 1));
  EXPECT_THAT(tables.table(7).blocks, ElementsAre(0));
  EXPECT_TRUE(tables.extend(7, 6));
  EXPECT_THAT(tables.table(7).blocks, ElementsAre(0, 2, 3));
  EXPECT_EQ(tables.table(7).n_tokens, 10U);
  EXPECT_EQ(tables.cell({7, 3}), 3);
  EXPECT_EQ(tables.cell({7, 5}), 9);
  EXPECT_EQ(tables.cell({2, 0}), 4);
}

TEST(BlockTables, OneBlockTooFewChangesNothing) {
  BlockTables tables(2, k_block_size);
  EXPECT_TRUE(tables.extend(0, 4));
  EXPECT_FALSE(tables.extend(0, 5));
  EXPECT_FALSE(tables.extend(1, 5));
  EXPECT_EQ(tables.table(0).n_tokens, 4U);
  EXPECT_EQ(tables.tables().count(1), 0U);
  EXPECT_EQ(tables.pool().n_free(), 1U);
  EXPECT_TRUE(tables.extend(0, 4));
}

TEST(BlockTables, AnExtensionTakenBackLeavesNothing) {
  BlockTables tables(4, k_block_size);
  EXPECT_TRUE(tables.extend(0, 5));
  const auto before = tables.table(0);
  const auto more = tables.extend(0, 6);
  const auto other = tables.extend(1, 2);
  ASSERT_TRUE(more && other);
  tables.undo(*other);
  tables.undo(*more);
  EXPECT_EQ(tables.table(0), before);
  EXPECT_EQ(tables.tables().size(), 1U);
  EXPECT_EQ(tables.pool().n_free(), 2U);
}

TEST(BlockTables, AForkSharesUntilOneSideWrites) {
  BlockTables tables(8, k_block_size);
  EXPECT_TRUE(tables.extend(0, 6));
  tables.fork(0, 1);
  EXPECT_EQ(tables.table(1), tables.table(0));
  EXPECT_EQ(tables.pool().n_free(), 6U);

  const auto first = tables.extend(1, 1);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->copy, (BlockCopy{.from = 1, .to = 2}));
  EXPECT_THAT(tables.table(1).blocks, ElementsAre(0, 2));
  tables.keep(*first);
  // The other side is alone now.
  const auto second = tables.extend(0, 1);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->copy, std::nullopt);
  EXPECT_THAT(tables.table(0).blocks, ElementsAre(0, 1));
}

TEST(BlockTables, AForkAtABlockBorderCopiesNothing) {
  BlockTables tables(8, k_block_size);
  EXPECT_TRUE(tables.extend(0, 4));
  tables.fork(0, 1);
  const auto extension = tables.extend(1, 1);
  ASSERT_TRUE(extension);
  EXPECT_EQ(extension->copy, std::nullopt);
  EXPECT_THAT(tables.table(1).blocks, ElementsAre(0, 1));
}

TEST(BlockTables, CopiesTakenBackAreSharedAgain) {
  BlockTables tables(8, k_block_size);
  EXPECT_TRUE(tables.extend(0, 6));
  tables.fork(0, 1);
  const auto before = tables.tables();
  const auto first = tables.extend(0, 3);
  const auto second = tables.extend(1, 3);
  ASSERT_TRUE(first && second);
  tables.undo(*second);
  tables.undo(*first);
  EXPECT_EQ(tables.tables(), before);
  EXPECT_THAT(tables.pool().n_refs(), ElementsAre(2, 2, 0, 0, 0, 0, 0, 0));
}

TEST(BlockTables, ACopyNeedsAFreeBlock) {
  BlockTables tables(2, k_block_size);
  EXPECT_TRUE(tables.extend(0, 6));
  tables.fork(0, 1);
  EXPECT_FALSE(tables.extend(1, 1));
  EXPECT_EQ(tables.table(1), tables.table(0));
}

TEST(BlockTables, AForkOntoASequenceReleasesWhatItHeld) {
  BlockTables tables(4, k_block_size);
  EXPECT_TRUE(tables.extend(0, 4));
  EXPECT_TRUE(tables.extend(1, 8));
  tables.fork(0, 1);
  EXPECT_EQ(tables.pool().n_free(), 3U);
  tables.fork(2, 1);
  EXPECT_EQ(tables.tables().count(1), 0U);
  tables.fork(0, 0);
  EXPECT_EQ(tables.table(0).n_tokens, 4U);
}

TEST(BlockTables, ReleasingTheLastHolderFreesTheBlocks) {
  BlockTables tables(4, k_block_size);
  EXPECT_TRUE(tables.extend(0, 8));
  tables.fork(0, 1);
  tables.release(0);
  EXPECT_EQ(tables.pool().n_free(), 2U);
  tables.release(1);
  tables.release(1);
  EXPECT_EQ(tables.pool().n_free(), 4U);
}

TEST(BlockTables, TruncatingKeepsTheFront) {
  BlockTables tables(4, k_block_size);
  EXPECT_TRUE(tables.extend(0, 10));
  tables.truncate(0, 5);
  EXPECT_THAT(tables.table(0).blocks, ElementsAre(0, 1));
  tables.truncate(0, 9);
  EXPECT_EQ(tables.table(0).n_tokens, 5U);
}

TEST(BlockTables, OnlyBlocksWhollyBeforeAPositionAreDropped) {
  BlockTables tables(4, k_block_size);
  EXPECT_TRUE(tables.extend(0, 10));
  tables.fork(0, 1);
  tables.drop_before(0, 3);
  EXPECT_EQ(tables.table(0).n_dropped, 0U);
  tables.drop_before(0, 7);
  EXPECT_THAT(tables.table(0).blocks, ElementsAre(BlockTable::k_none, 1, 2));
  EXPECT_EQ(tables.pool().n_free(), 1U) << "the fork still has the block";
  tables.drop_before(1, 8);
  EXPECT_EQ(tables.pool().n_free(), 2U);
  tables.release(0);
  tables.release(1);
  EXPECT_EQ(tables.pool().n_free(), 4U);
}

TEST(BlockTables, AdoptedBlocksAreSharedWithThoseWhoHoldThem) {
  BlockTables tables(8, k_block_size);
  EXPECT_TRUE(tables.extend(0, 8));
  tables.adopt(1, tables.table(0).blocks, 6);
  EXPECT_THAT(tables.table(1).blocks, ElementsAre(0, 1));
  EXPECT_EQ(tables.table(1).n_tokens, 6U);
  EXPECT_THAT(tables.pool().n_refs().first(3), ElementsAre(2, 2, 0));
  const auto extension = tables.extend(1, 1);
  ASSERT_TRUE(extension);
  EXPECT_EQ(extension->copy, (BlockCopy{.from = 1, .to = 2})) << "written only where it is alone";
  tables.adopt(2, {}, 0);
  EXPECT_EQ(tables.tables().count(2), 0U);
}

TEST(BlockTables, BlocksThatAreNotThereCanBeAdoptedAndAreThenDropped) {
  BlockTables tables(4, k_block_size);
  EXPECT_TRUE(tables.extend(0, 8));
  const std::vector<int32_t> blocks{BlockTable::k_none, 1};
  tables.adopt(1, blocks, 8);
  tables.drop_before(1, 5);
  EXPECT_EQ(tables.table(1).n_dropped, 1U);
  EXPECT_EQ(tables.cell({1, 7}), 7);
  tables.release(1);
  EXPECT_THAT(tables.pool().n_refs(), ElementsAre(1, 1, 0, 0));
}

TEST(BlockTables, AReplacedBlockIsGivenBackUnlessOthersHoldIt) {
  BlockTables tables(4, k_block_size);
  EXPECT_TRUE(tables.extend(0, 4));
  EXPECT_TRUE(tables.extend(1, 6));
  tables.replace(1, 0, 0);
  EXPECT_THAT(tables.table(1).blocks, ElementsAre(0, 2));
  EXPECT_THAT(tables.pool().n_refs(), ElementsAre(2, 0, 1, 0));
  tables.replace(1, 0, 0);
  EXPECT_THAT(tables.pool().n_refs(), ElementsAre(2, 0, 1, 0)) << "by itself: nothing changes";
}

TEST(BlockTables, WhatACopyIsMadeOfIsNobodyElsesUntilTheStepIsKept) {
  BlockTables tables(4, k_block_size);
  EXPECT_TRUE(tables.extend(0, 2));
  tables.fork(0, 1);
  const auto first = tables.extend(0, 1);
  const auto second = tables.extend(1, 1);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->copy, (BlockCopy{.from = 0, .to = 1}));
  EXPECT_EQ(second->copy, (BlockCopy{.from = 0, .to = 2})) << "the first may yet be taken back";
  tables.keep(*first);
  tables.keep(*second);
  EXPECT_THAT(tables.pool().n_refs(), ElementsAre(0, 1, 1, 0));
}

TEST(BlockTables, WhatACopyIsMadeOfIsNotIdleWhileTheStepMayFail) {
  BlockTables tables(3, k_block_size);
  EXPECT_TRUE(tables.extend(0, 2));
  tables.pool().keep(0);
  const auto copied = tables.extend(0, 1);
  ASSERT_TRUE(copied && copied->copy);
  EXPECT_FALSE(tables.pool().is_idle(0));
  tables.undo(*copied);
  EXPECT_THAT(tables.table(0).blocks, ElementsAre(0));
  EXPECT_THAT(tables.pool().n_refs(), ElementsAre(2, 0, 0));
}

}  // namespace
}  // namespace patchbay
