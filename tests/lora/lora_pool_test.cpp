#include "lora/lora_pool.h"

#include <gmock/gmock.h>

#include "gguf/load_failure.h"
#include "lora/random_adapter.h"

namespace patchbay {
namespace {

const std::vector<AdaptableUse> k_uses{{"experts", UseKind::experts, {4, 6, 3}},
                                       {"linear", UseKind::linear, {4, 6, 1}},
                                       {"table", UseKind::embed, {4, 5, 1}}};

const BaseInfo k_base{.path = "base.gguf", .uses = k_uses};

std::shared_ptr<const Adapter> adapter(std::span<const AdaptableUse> uses, int64_t n_rank,
                                       uint64_t seed, float scale = 1) {
  auto made = std::make_shared<Adapter>(*make_random_adapter(uses, n_rank, 1, seed));
  for (auto &pair : made->pairs) pair.scale = scale;
  return made;
}

std::vector<float> row(const ggml_tensor *tensor, int64_t i) {
  const float *first = static_cast<const float *>(tensor->data) + i * tensor->ne[0];
  return {first, first + tensor->ne[0]};
}

std::vector<float> row(const Factor &factor, int64_t i, int64_t n_padded, float scale = 1) {
  std::vector<float> values(static_cast<size_t>(factor.ne[0]));
  to_f32(factor, i * factor.ne[0], values);
  for (float &value : values) value *= scale;
  values.resize(static_cast<size_t>(n_padded));
  return values;
}

int32_t slot_of(const LoraPool &pool, std::string_view target,
                const std::shared_ptr<const Adapter> &wanted) {
  const auto place = std::ranges::find(pool.adapters(), wanted) - pool.adapters().begin();
  return pool.slot_maps()[pool.find(target)->i_slots].slot(static_cast<int32_t>(place));
}

TEST(LoraPool, HoldsTrueRanksPaddedWithZerosAndTheScaleInB) {
  const auto narrow = adapter(k_uses, 2, 1, 0.5F);
  const auto wide = adapter(k_uses, 3, 2);
  const LoraPool pool({narrow, wide}, k_base);
  const PoolTarget &target = *pool.find("linear");
  EXPECT_EQ(target.n_rank, 3);
  const FactorPair &pair = *narrow->find("linear");
  const int64_t slot = slot_of(pool, "linear", narrow);
  EXPECT_EQ(row(target.a, slot * 3 + 0), row(pair.a, 0, 4));
  EXPECT_EQ(row(target.a, slot * 3 + 1), row(pair.a, 1, 4));
  EXPECT_EQ(row(target.a, slot * 3 + 2), std::vector<float>(4, 0));
  for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(row(target.b, slot * 6 + i), row(pair.b, i, 3, 0.5F));
}

TEST(LoraPool, SlotZeroIsAllZeros) {
  const LoraPool pool({adapter(k_uses, 2, 1)}, k_base);
  for (const char *name : {"linear", "experts"}) {
    const PoolTarget &target = *pool.find(name);
    const int64_t n_expert = std::string_view(name) == "experts" ? 3 : 1;
    for (int64_t i = 0; i < 2 * n_expert; ++i)
      EXPECT_EQ(row(target.a, i), std::vector<float>(4, 0));
    for (int64_t i = 0; i < 6 * n_expert; ++i)
      EXPECT_EQ(row(target.b, i), std::vector<float>(2, 0));
  }
  const PoolTarget &table = *pool.find("table");
  EXPECT_EQ(row(table.a, table.a->ne[1] - 1), std::vector<float>(2, 0));
}

TEST(LoraPool, ExpertsFollowEachOtherWithinASlot) {
  const auto one = adapter(k_uses, 2, 1);
  const auto other = adapter(k_uses, 2, 2);
  const LoraPool pool({one, other}, k_base);
  const PoolTarget &target = *pool.find("experts");
  const FactorPair &pair = *other->find("experts");
  const int64_t slot = slot_of(pool, "experts", other);
  for (int64_t e = 0; e < 3; ++e) {
    for (int64_t r = 0; r < 2; ++r)
      EXPECT_EQ(row(target.a, (slot * 3 + e) * 2 + r), row(pair.a, e * 2 + r, 4));
    for (int64_t i = 0; i < 6; ++i)
      EXPECT_EQ(row(target.b, (slot * 3 + e) * 6 + i), row(pair.b, e * 6 + i, 2));
  }
}

TEST(LoraPool, AnAdapterThatDoesNotTargetAWeightHasSlotZeroThere) {
  const auto all = adapter(k_uses, 2, 1);
  const auto linear_only = adapter(std::span(k_uses).subspan(1, 1), 2, 2);
  const LoraPool pool({all, linear_only}, k_base);
  EXPECT_NE(slot_of(pool, "linear", linear_only), 0);
  EXPECT_EQ(slot_of(pool, "experts", linear_only), 0);
  EXPECT_EQ(pool.find("experts")->b->ne[2], 3 * 2);
  EXPECT_EQ(pool.find("nothing"), nullptr);
}

TEST(LoraPool, TheOrderOfAdaptersIsThatOfTheirContent) {
  const auto one = adapter(k_uses, 2, 1);
  const auto other = adapter(k_uses, 2, 2);
  EXPECT_EQ(LoraPool({one, other}, k_base).adapters(), LoraPool({other, one}, k_base).adapters());
}

TEST(LoraPool, AnAdapterOfAnotherBaseIsRefused) {
  const auto foreign = adapter(k_uses, 2, 1);
  for (const AdaptableUse &other : {AdaptableUse{"linear", UseKind::linear, {8, 6, 1}},
                                    AdaptableUse{"linear", UseKind::linear, {4, 5, 1}},
                                    AdaptableUse{"linear", UseKind::experts, {4, 6, 1}},
                                    AdaptableUse{"elsewhere", UseKind::linear, {4, 6, 1}}}) {
    BaseInfo base = k_base;
    base.uses[1] = other;
    EXPECT_THAT(load_failure([&] { LoraPool({foreign}, base); }),
                testing::HasSubstr("linear was loaded for another base model"));
  }
}

TEST(LoraPool, WithoutAdaptersHasNothing) {
  const LoraPool pool({}, k_base);
  EXPECT_EQ(pool.find("linear"), nullptr);
  EXPECT_EQ(pool.size_bytes(), 0U);
}

}  // namespace
}  // namespace patchbay
