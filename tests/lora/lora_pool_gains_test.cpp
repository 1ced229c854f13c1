#include <gtest/gtest.h>

#include "gguf/load_failure.h"
#include "lora/adapter_summary.h"
#include "lora/factor_ops.h"
#include "lora/lora_pool.h"
#include "lora/numbered_base.h"
#include "lora/random_adapter.h"

namespace patchbay {
namespace {

/// Lengths on one of its pairs, of `length` each.
std::shared_ptr<const Adapter> with_dora(const BaseInfo &base, float length) {
  auto adapter = std::make_shared<Adapter>(*make_random_adapter(base.uses, 2, 0.5F, 3));
  FactorPair &pair = adapter->pairs.front();
  const int64_t n = pair.b.ne[1];
  pair.magnitude = make_factor({n, 1, 1}, std::vector<float>(static_cast<size_t>(n), length));
  finish_adapter(*adapter, base);
  return adapter;
}

class LoraPoolGains : public testing::Test {
 protected:
  /// That the pool holds what the terms say at this strength.
  void expect_gains(const LoraPool &pool, int32_t i_adapter, float strength) {
    const size_t i_use = pool.find_use(adapter_->pairs.front().target);
    const PackedChange &change = pool.changes(i_adapter, i_use).front();
    const float *gains = pool.gains({i_adapter, strength}, change);
    for (size_t i = 0; i < change.change->dora->magnitude.size(); ++i)
      EXPECT_EQ(gains[i], change.change->dora->gain(i, strength)) << strength;
  }

  BaseInfo base_ = numbered_base(dense_base());
  std::shared_ptr<const Adapter> adapter_ = with_dora(base_, 2);
};

TEST_F(LoraPoolGains, OfAllStrengthsOfAStepAreThere) {
  LoraPool pool(base_, LoraPool::Form::packed);
  const int32_t i = pool.add(adapter_);
  EXPECT_TRUE(pool.has_dora(i));
  for (int round = 0; round < 3; ++round) {
    std::vector<Segment> segments;
    for (int n = 1; n <= 9; ++n) {
      const auto strength = static_cast<float>(n + 5 * round) / 4;
      segments.push_back({.first_row = n, .n_rows = 1, .set = {{i, strength}}});
      segments.push_back({.first_row = n + 9, .n_rows = 1, .set = {{i, strength}}});
    }
    pool.hold_gains(segments);
    for (const auto &segment : segments) expect_gains(pool, i, segment.set[0].strength);
  }
}

TEST_F(LoraPoolGains, OfAnAdapterThatCameBackAreItsOwn) {
  LoraPool pool(base_, LoraPool::Form::packed);
  const int32_t i = pool.add(adapter_);
  const std::vector<Segment> segments{{.n_rows = 1, .set = {{i, 0.5F}}}};
  pool.hold_gains(segments);
  pool.remove(i);
  adapter_ = with_dora(base_, 3);
  ASSERT_EQ(pool.add(adapter_), i);
  pool.hold_gains(segments);
  expect_gains(pool, i, 0.5F);
}

TEST_F(LoraPoolGains, WithoutTheNumbersOfItsBaseAnAdapterWithLengthsIsNotResident) {
  BaseInfo bare = base_;
  bare.tensors = nullptr;
  for (const auto form : {LoraPool::Form::packed, LoraPool::Form::stacked}) {
    LoraPool pool(bare, form);
    const auto made = with_dora(bare, 2);
    EXPECT_EQ(made->changes, nullptr);
    EXPECT_NE(load_failure([&] { (void)pool.add(made); }).find("numbers of its base"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace patchbay
