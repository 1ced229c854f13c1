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

}  // namespace
}  // namespace patchbay
