#include "lora/lora_pool.h"

#include <gmock/gmock.h>

#include "gguf/load_failure.h"
#include "lora/random_adapter.h"

namespace patchbay {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::vector<AdaptableUse> k_uses{{"linear", UseKind::linear, {4, 6, 1}},
                                       {"table", UseKind::embed, {4, 5, 1}}};

const BaseInfo k_base{.path = "base.gguf", .uses = k_uses};

std::shared_ptr<const Adapter> adapter(uint64_t seed) {
  return make_random_adapter(k_uses, 2, 1, seed);
}

TEST(LoraPool, TheSameContentHasOneIndex) {
  LoraPool pool(k_base);
  EXPECT_EQ(pool.add(adapter(1)), 0);
  EXPECT_EQ(pool.add(adapter(2)), 1);
  const auto version = pool.version();
  EXPECT_EQ(pool.add(adapter(1)), 0);
  EXPECT_EQ(pool.version(), version);
  EXPECT_EQ(pool.find(adapter(2)->digest), 1);
  EXPECT_EQ(pool.find(adapter(3)->digest), -1);
}

TEST(LoraPool, RemovingOneKeepsTheIndicesOfTheOthersAndFreesItsOwn) {
  LoraPool pool(k_base);
  for (uint64_t seed = 0; seed < 3; ++seed) (void)pool.add(adapter(seed));
  pool.remove(1);
  EXPECT_FALSE(pool.is_resident(1));
  EXPECT_EQ(pool.find(adapter(1)->digest), -1);
  EXPECT_EQ(pool.find(adapter(2)->digest), 2);
  EXPECT_EQ(pool.add(adapter(4)), 1);
  EXPECT_EQ(pool.add(adapter(5)), 3);
  EXPECT_TRUE(pool.is_resident(1));
  EXPECT_FALSE(pool.is_resident(4));
  EXPECT_FALSE(pool.is_resident(-1));
}

TEST(LoraPool, MemoryOfARemovedAdapterComesBack) {
  LoraPool pool(k_base);
  EXPECT_EQ(pool.size_bytes(), 0U);
  (void)pool.add(adapter(1));
  const size_t one = pool.size_bytes();
  EXPECT_GE(one, adapter(1)->size_bytes);
  (void)pool.add(adapter(2));
  EXPECT_GT(pool.size_bytes(), one);
  pool.remove(1);
  EXPECT_EQ(pool.size_bytes(), one);
}

TEST(LoraPool, StacksHoldTheResidentAdapters) {
  LoraPool pool(k_base);
  (void)pool.add(adapter(1));
  EXPECT_EQ(pool.stacks().find("linear")->b->ne[2], 1 + 1);
  (void)pool.add(adapter(2));
  EXPECT_EQ(pool.stacks().find("linear")->b->ne[2], 1 + 2);
  pool.remove(0);
  EXPECT_EQ(pool.stacks().find("linear")->b->ne[2], 1 + 1);
  EXPECT_EQ(pool.stacks().slot_maps()[0].slot(0), 0);
  EXPECT_EQ(pool.stacks().slot_maps()[0].slot(1), 1);
}

TEST(LoraPool, CanonicalAddsUpAndLeavesOutZeros) {
  LoraPool pool(k_base);
  for (uint64_t seed = 0; seed < 3; ++seed) (void)pool.add(adapter(seed));
  EXPECT_THAT(pool.canonical(std::vector<Worn>{{1, 0.25F}, {0, 0}, {1, 0.5F}}),
              ElementsAre(Worn{1, 0.75F}));
  EXPECT_THAT(pool.canonical(std::vector<Worn>{{1, 0.5F}, {1, -0.5F}}), IsEmpty());
}

TEST(LoraPool, TheCanonicalOrderIsThatOfContentWhateverTheOrderOfLoading) {
  LoraPool forth(k_base);
  LoraPool back(k_base);
  for (uint64_t seed = 0; seed < 5; ++seed) {
    (void)forth.add(adapter(seed));
    (void)back.add(adapter(4 - seed));
  }
  const std::vector<Worn> all{{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}};
  const AdapterSet set = forth.canonical(all);
  AdapterSet mirrored = back.canonical(all);
  for (auto &worn : mirrored) worn.i_adapter = 4 - worn.i_adapter;
  EXPECT_EQ(set, mirrored);
}

TEST(LoraPool, AnAdapterOfAnotherBaseIsRefusedAndNothingChanges) {
  for (const AdaptableUse &other : {AdaptableUse{"linear", UseKind::linear, {8, 6, 1}},
                                    AdaptableUse{"linear", UseKind::linear, {4, 5, 1}},
                                    AdaptableUse{"linear", UseKind::experts, {4, 6, 1}},
                                    AdaptableUse{"elsewhere", UseKind::linear, {4, 6, 1}}}) {
    BaseInfo base = k_base;
    base.uses[0] = other;
    LoraPool pool(base);
    EXPECT_THAT(load_failure([&] { (void)pool.add(adapter(1)); }),
                testing::HasSubstr("linear was loaded for another base model"));
    EXPECT_EQ(pool.version(), 0U);
    EXPECT_FALSE(pool.is_resident(0));
  }
}

}  // namespace
}  // namespace patchbay
