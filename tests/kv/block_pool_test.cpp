#include "kv/block_pool.h"

#include <gmock/gmock.h>

namespace patchbay {
namespace {

TEST(BlockPool, TakesTheLowestFreeBlock) {
  BlockPool pool(3);
  EXPECT_EQ(pool.take(), 0);
  EXPECT_EQ(pool.take(), 1);
  pool.release(0);
  EXPECT_EQ(pool.take(), 0);
  EXPECT_EQ(pool.n_free(), 1U);
}

TEST(BlockPool, OneOverCapacityIsRefused) {
  BlockPool pool(1);
  EXPECT_TRUE(pool.take());
  EXPECT_FALSE(pool.take());
  EXPECT_EQ(pool.n_free(), 0U);
}

TEST(BlockPool, ABlockIsFreeWhenItsLastHolderIsGone) {
  BlockPool pool(2);
  const int32_t block = *pool.take();
  pool.retain(block);
  EXPECT_TRUE(pool.is_shared(block));
  pool.release(block);
  EXPECT_FALSE(pool.is_shared(block));
  EXPECT_EQ(pool.n_free(), 1U);
  pool.release(block);
  EXPECT_EQ(pool.n_free(), 2U);
}

TEST(BlockPool, TheEndIsBehindTheHighestBlockInUse) {
  BlockPool pool(4);
  EXPECT_EQ(pool.end(), 0U);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(pool.take());
  pool.release(1);
  EXPECT_EQ(pool.end(), 3U);
  pool.release(2);
  EXPECT_EQ(pool.end(), 1U);
}

TEST(BlockPool, WhatIsKeptStaysInUseUntilItIsForgotten) {
  BlockPool pool(2);
  const int32_t block = *pool.take();
  pool.keep(block);
  EXPECT_TRUE(pool.is_kept(block));
  EXPECT_TRUE(pool.is_shared(block)) << "its holder may no longer write into it";
  EXPECT_FALSE(pool.is_idle(block)) << "somebody holds it";
  EXPECT_EQ(pool.longest_idle(), std::nullopt);
  pool.release(block);
  EXPECT_TRUE(pool.is_idle(block));
  EXPECT_EQ(pool.n_idle(), 1U);
  EXPECT_EQ(pool.n_free(), 1U);
  pool.forget(block);
  EXPECT_FALSE(pool.is_kept(block));
  EXPECT_EQ(pool.n_idle(), 0U);
  EXPECT_EQ(pool.n_free(), 2U);
}

TEST(BlockPool, WhatIsForgottenWhileHeldBelongsToItsHolderAlone) {
  BlockPool pool(1);
  const int32_t block = *pool.take();
  pool.keep(block);
  pool.forget(block);
  EXPECT_FALSE(pool.is_shared(block));
  EXPECT_EQ(pool.n_free(), 0U);
  pool.release(block);
  EXPECT_EQ(pool.n_free(), 1U);
}

TEST(BlockPool, TheLongestIdleIsTheOneThatWasLetGoFirst) {
  BlockPool pool(3);
  for (int32_t block = 0; block < 3; ++block) {
    EXPECT_TRUE(pool.take());
    pool.keep(block);
  }
  for (const int32_t block : {1, 0, 2}) pool.release(block);
  EXPECT_EQ(pool.longest_idle(), 1);
  // Used again, it is the youngest; a second holder makes no difference.
  pool.retain(1);
  pool.retain(1);
  EXPECT_EQ(pool.longest_idle(), 0);
  pool.release(1);
  EXPECT_EQ(pool.n_idle(), 2U);
  pool.release(1);
  for (const int32_t block : {0, 2, 1}) {
    EXPECT_EQ(pool.longest_idle(), block);
    pool.forget(block);
  }
  EXPECT_EQ(pool.longest_idle(), std::nullopt);
}

}  // namespace
}  // namespace patchbay
