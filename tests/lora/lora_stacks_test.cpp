#include "lora/lora_stacks.h"

#include <gmock/gmock.h>

#include "lora/random_adapter.h"

namespace patchbay {
namespace {

const std::vector<AdaptableUse> k_uses{{"experts", UseKind::experts, {4, 6, 3}},
                                       {"linear", UseKind::linear, {4, 6, 1}},
                                       {"table", UseKind::embed, {4, 5, 1}}};

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

int32_t slot_of(const LoraStacks &stacks, std::string_view target, int32_t i_adapter) {
  return stacks.slot_maps()[stacks.find(target)->i_slots].slot(i_adapter);
}

TEST(LoraStacks, HoldsTrueRanksPaddedWithZerosAndTheScaleInB) {
  const auto narrow = adapter(k_uses, 2, 1, 0.5F);
  const auto wide = adapter(k_uses, 3, 2);
  const LoraStacks stacks({narrow, wide}, "base.gguf");
  const StackedTarget &target = *stacks.find("linear");
  EXPECT_EQ(target.n_rank, 3);
  const FactorPair &pair = *narrow->find("linear");
  const int64_t slot = slot_of(stacks, "linear", 0);
  EXPECT_EQ(row(target.a, slot * 3 + 0), row(pair.a, 0, 4));
  EXPECT_EQ(row(target.a, slot * 3 + 1), row(pair.a, 1, 4));
  EXPECT_EQ(row(target.a, slot * 3 + 2), std::vector<float>(4, 0));
  for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(row(target.b, slot * 6 + i), row(pair.b, i, 3, 0.5F));
}

TEST(LoraStacks, SlotZeroIsAllZeros) {
  const LoraStacks stacks({adapter(k_uses, 2, 1)}, "base.gguf");
  for (const char *name : {"linear", "experts"}) {
    const StackedTarget &target = *stacks.find(name);
    const int64_t n_expert = std::string_view(name) == "experts" ? 3 : 1;
    for (int64_t i = 0; i < 2 * n_expert; ++i)
      EXPECT_EQ(row(target.a, i), std::vector<float>(4, 0));
    for (int64_t i = 0; i < 6 * n_expert; ++i)
      EXPECT_EQ(row(target.b, i), std::vector<float>(2, 0));
  }
  const StackedTarget &table = *stacks.find("table");
  EXPECT_EQ(row(table.a, table.a->ne[1] - 1), std::vector<float>(2, 0));
}

TEST(LoraStacks, ExpertsFollowEachOtherWithinASlot) {
  const auto one = adapter(k_uses, 2, 1);
  const auto other = adapter(k_uses, 2, 2);
  const LoraStacks stacks({one, other}, "base.gguf");
  const StackedTarget &target = *stacks.find("experts");
  const FactorPair &pair = *other->find("experts");
  const int64_t slot = slot_of(stacks, "experts", 1);
  for (int64_t e = 0; e < 3; ++e) {
    for (int64_t r = 0; r < 2; ++r)
      EXPECT_EQ(row(target.a, (slot * 3 + e) * 2 + r), row(pair.a, e * 2 + r, 4));
    for (int64_t i = 0; i < 6; ++i)
      EXPECT_EQ(row(target.b, (slot * 3 + e) * 6 + i), row(pair.b, e * 6 + i, 2));
  }
}

TEST(LoraStacks, AnAdapterThatDoesNotTargetAWeightAndAFreeIndexHaveSlotZero) {
  const auto all = adapter(k_uses, 2, 1);
  const auto linear_only = adapter(std::span(k_uses).subspan(1, 1), 2, 2);
  const LoraStacks stacks({all, nullptr, linear_only}, "base.gguf");
  EXPECT_NE(slot_of(stacks, "linear", 2), 0);
  EXPECT_EQ(slot_of(stacks, "experts", 2), 0);
  EXPECT_EQ(slot_of(stacks, "linear", 1), 0);
  EXPECT_EQ(stacks.find("experts")->b->ne[2], 3 * 2);
  EXPECT_EQ(stacks.find("nothing"), nullptr);
}

TEST(LoraStacks, WithoutAdaptersHasNothing) {
  const LoraStacks stacks({}, "base.gguf");
  EXPECT_EQ(stacks.find("linear"), nullptr);
  EXPECT_EQ(stacks.size_bytes(), 0U);
}

}  // namespace
}  // namespace patchbay
