#include "kv/host_tier.h"

#include <gmock/gmock.h>

#include <algorithm>

namespace patchbay {
namespace {

using testing::Each;
using testing::Optional;

void add(HostTier &tier, HostTier::Key key, size_t n_bytes) {
  const auto bytes = tier.add(key, n_bytes);
  ASSERT_TRUE(bytes);
  ASSERT_EQ(bytes->size(), n_bytes);
  std::ranges::fill(*bytes, static_cast<std::byte>(key));
}

TEST(HostTier, GivesBackTheBytesThatItWasGiven) {
  HostTier tier(100);
  add(tier, 7, 30);
  add(tier, 8, 20);
  EXPECT_THAT(tier.bytes(7), Each(std::byte{7}));
  const HostBytes taken = tier.take(8);
  EXPECT_EQ(taken.bytes().size(), 20U);
  EXPECT_THAT(taken.bytes(), Each(std::byte{8}));
  EXPECT_FALSE(tier.contains(8));
  EXPECT_TRUE(tier.contains(7));
}

TEST(HostTier, CountsBytesExactly) {
  HostTier tier(100);
  EXPECT_TRUE(tier.has_room(100));
  EXPECT_FALSE(tier.has_room(101));
  add(tier, 1, 60);
  add(tier, 2, 40);
  EXPECT_EQ(tier.size_bytes(), 100U);
  EXPECT_TRUE(tier.has_room(0));
  EXPECT_FALSE(tier.has_room(1));
  EXPECT_TRUE(tier.remove(1));
  EXPECT_EQ(tier.size_bytes(), 40U);
  EXPECT_FALSE(tier.remove(1)) << "it has gone";
  EXPECT_EQ(tier.size_bytes(), 40U);
  EXPECT_EQ(tier.n_entries(), 1U);
}

TEST(HostTier, WhatCameFirstIsOldest) {
  HostTier tier(100);
  EXPECT_EQ(tier.oldest(), std::nullopt);
  for (const HostTier::Key key : {9, 3, 5}) add(tier, key, 10);
  EXPECT_THAT(tier.oldest(), Optional(9U));
  tier.remove(9);
  EXPECT_THAT(tier.oldest(), Optional(3U));
  static_cast<void>(tier.take(3));
  add(tier, 3, 10);  // it comes anew
  EXPECT_THAT(tier.oldest(), Optional(5U));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// The sanitizers end the process where memory cannot be had.
TEST(HostTier, MemoryThatCannotBeHadChangesNothing) {
  constexpr size_t k_too_much = size_t{1} << 62U;
  HostTier tier(k_too_much);
  add(tier, 1, 10);
  EXPECT_FALSE(tier.add(2, k_too_much - 10));
  EXPECT_FALSE(tier.contains(2));
  EXPECT_EQ(tier.size_bytes(), 10U);
  EXPECT_EQ(tier.n_entries(), 1U);
}
#endif

}  // namespace
}  // namespace patchbay
