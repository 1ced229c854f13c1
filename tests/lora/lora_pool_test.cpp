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
  LoraPool pool(k_base, LoraPool::Form::packed);
  EXPECT_EQ(pool.add(adapter(1)), 0);
  EXPECT_EQ(pool.add(adapter(2)), 1);
  const auto version = pool.version();
  EXPECT_EQ(pool.add(adapter(1)), 0);
  EXPECT_EQ(pool.version(), version);
  EXPECT_EQ(pool.find(adapter(2)->digest), 1);
  EXPECT_EQ(pool.find(adapter(3)->digest), -1);
}

TEST(LoraPool, RemovingOneKeepsTheIndicesOfTheOthersAndFreesItsOwn) {
  LoraPool pool(k_base, LoraPool::Form::packed);
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
  LoraPool pool(k_base, LoraPool::Form::packed);
  EXPECT_EQ(pool.size_bytes(), 0U);
  (void)pool.add(adapter(1));
  const size_t one = pool.size_bytes();
  EXPECT_GE(one, adapter(1)->size_bytes);
  (void)pool.add(adapter(2));
  EXPECT_GT(pool.size_bytes(), one);
  pool.remove(1);
  EXPECT_EQ(pool.size_bytes(), one);
}

TEST(LoraPool, PairsAreFoundByTheUseOfTheBase) {
  LoraPool pool(k_base, LoraPool::Form::packed);
  const auto linear_only = make_random_adapter(std::span(k_uses).first(1), 3, 1, 9);
  const int32_t both = pool.add(adapter(1));
  const int32_t one = pool.add(linear_only);
  const size_t i_linear = pool.find_use("linear");
  const size_t i_table = pool.find_use("table");
  EXPECT_EQ(pool.find_use("elsewhere"), LoraPool::k_nowhere);
  EXPECT_EQ(pool.changes(both, i_table).front().n_rank(), 2);
  EXPECT_EQ(pool.changes(one, i_linear).front().change->b.data.data(),
            linear_only->find("linear")->b.data.data());
  EXPECT_TRUE(pool.changes(one, i_table).empty());
}

TEST(LoraPool, WhatWasPackedBeforehandIsUsed) {
  LoraPool pool(k_base, LoraPool::Form::packed);
  const auto packed = std::make_shared<const PackedAdapter>(*adapter(1));
  (void)pool.add(adapter(1), packed);
  EXPECT_EQ(pool.changes(0, 0).data(), packed->products().data());
}

TEST(LoraPool, UsesThatReadOneInputAreTogether) {
  BaseInfo base = k_base;
  base.uses = {{.name = "q", .i_input = 4},
               {.name = "alone"},
               {.name = "gate", .i_input = 2},
               {.name = "v", .i_input = 4},
               {.name = "also alone"}};
  const LoraPool pool(base, LoraPool::Form::packed);
  EXPECT_THAT(pool.inputs(),
              ElementsAre(ElementsAre(0, 3), ElementsAre(1), ElementsAre(2), ElementsAre(4)));
  EXPECT_EQ(pool.input_of(3), 0U);
  EXPECT_EQ(pool.input_of(4), 3U);
}

TEST(LoraPool, StacksHoldTheResidentAdapters) {
  LoraPool pool(k_base, LoraPool::Form::stacked);
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
  LoraPool pool(k_base, LoraPool::Form::packed);
  for (uint64_t seed = 0; seed < 3; ++seed) (void)pool.add(adapter(seed));
  EXPECT_THAT(pool.canonical(std::vector<Worn>{{1, 0.25F}, {0, 0}, {1, 0.5F}}),
              ElementsAre(Worn{1, 0.75F}));
  EXPECT_THAT(pool.canonical(std::vector<Worn>{{1, 0.5F}, {1, -0.5F}}), IsEmpty());
}

TEST(LoraPool, TheCanonicalOrderIsThatOfContentWhateverTheOrderOfLoading) {
  LoraPool forth(k_base, LoraPool::Form::stacked);
  LoraPool back(k_base, LoraPool::Form::stacked);
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

/// A base of which only "linear" reaches keys and values, and adapters on either use.
struct KvDigests {
  std::shared_ptr<const Adapter> feeding(uint64_t seed) const {
    return make_random_adapter(std::span(base.uses).first(1), 2, 1, seed);
  }
  std::shared_ptr<const Adapter> not_feeding(uint64_t seed) const {
    return make_random_adapter(std::span(base.uses).last(1), 2, 1, seed);
  }
  Sha256Digest of(const std::vector<Wearing> &wearing) const { return pool.kv_digest(wearing); }

  BaseInfo base = [] {
    BaseInfo made = k_base;
    made.uses[0].feeds_kv = true;
    return made;
  }();
  LoraPool pool{base, LoraPool::Form::packed};
  const Sha256Digest bare{};
};

TEST(LoraPool, KeysAndValuesDoNotDependOnTheOrderOfWearing) {
  const KvDigests digests;
  const auto one = digests.feeding(1);
  const auto two = digests.feeding(2);
  EXPECT_EQ(digests.of({{one.get(), 1}, {two.get(), 0.5F}}),
            digests.of({{two.get(), 0.5F}, {one.get(), 1}}));
  EXPECT_NE(digests.of({{one.get(), 1}, {two.get(), 0.5F}}),
            digests.of({{one.get(), 0.5F}, {two.get(), 1}}));
}

TEST(LoraPool, KeysAndValuesDependOnContentAndStrengthAndOnNoName) {
  const KvDigests digests;
  const auto one = digests.feeding(1);
  Adapter renamed = *one;
  renamed.name = "other";
  renamed.path = "/elsewhere";
  const Sha256Digest worn = digests.of({{one.get(), 1}});
  EXPECT_NE(worn, digests.bare);
  EXPECT_EQ(digests.of({{&renamed, 1}}), worn);
  EXPECT_EQ(digests.of({{one.get(), 0.25F}, {&renamed, 0.75F}}), worn) << "they are one";
  Adapter replaced = *digests.feeding(2);
  replaced.name = one->name;
  EXPECT_NE(digests.of({{&replaced, 1}}), worn);
  for (const float strength : {0.5F, -1.0F, 1.0000001F})
    EXPECT_NE(digests.of({{one.get(), strength}}), worn) << strength;
}

TEST(LoraPool, WhatCannotReachKeysAndValuesLeavesThemTheBases) {
  const KvDigests digests;
  const auto one = digests.feeding(1);
  const auto head = digests.not_feeding(1);
  EXPECT_EQ(digests.of({}), digests.bare);
  EXPECT_EQ(digests.of({{one.get(), 0}}), digests.bare);
  EXPECT_EQ(digests.of({{one.get(), 1.5F}, {one.get(), -1.5F}}), digests.bare);
  EXPECT_EQ(digests.of({{head.get(), 1}}), digests.bare);
  EXPECT_EQ(digests.of({{head.get(), 1}, {one.get(), 1}, {head.get(), 2}}),
            digests.of({{one.get(), 1}}));
  const auto both = make_random_adapter(digests.base.uses, 2, 1, 1);
  EXPECT_NE(digests.of({{both.get(), 1}}), digests.bare);
}

TEST(LoraPool, ResidentAdaptersHaveTheDigestThatTheyHadBeforeTheyCame) {
  KvDigests digests;
  const std::vector<std::shared_ptr<const Adapter>> adapters{
      digests.feeding(1), digests.not_feeding(2), digests.feeding(3)};
  for (const auto &adapter : adapters) (void)digests.pool.add(adapter);
  for (const std::vector<Worn> &worn : {std::vector<Worn>{},
                                        {{0, 1}},
                                        {{1, 1}},
                                        {{2, 0.5F}, {1, 1}, {0, -1}},
                                        {{0, 0.5F}, {2, 1}, {0, 0.25F}},
                                        {{0, 1}, {0, -1}},
                                        {{2, 0}}}) {
    std::vector<Wearing> wearing;
    for (const auto &[i_adapter, strength] : worn)
      wearing.push_back({adapters[static_cast<size_t>(i_adapter)].get(), strength});
    EXPECT_EQ(digests.pool.kv_digest(digests.pool.canonical(worn)), digests.of(wearing));
  }
}

TEST(LoraPool, AnAdapterOfAnotherBaseIsRefusedAndNothingChanges) {
  for (const AdaptableUse &other : {AdaptableUse{"linear", UseKind::linear, {8, 6, 1}},
                                    AdaptableUse{"linear", UseKind::linear, {4, 5, 1}},
                                    AdaptableUse{"linear", UseKind::experts, {4, 6, 1}},
                                    AdaptableUse{"elsewhere", UseKind::linear, {4, 6, 1}}}) {
    BaseInfo base = k_base;
    base.uses[0] = other;
    LoraPool pool(base, LoraPool::Form::packed);
    EXPECT_THAT(load_failure([&] { (void)pool.add(adapter(1)); }),
                testing::HasSubstr("linear was loaded for another base model"));
    EXPECT_EQ(pool.version(), 0U);
    EXPECT_FALSE(pool.is_resident(0));
  }
}

}  // namespace
}  // namespace patchbay
