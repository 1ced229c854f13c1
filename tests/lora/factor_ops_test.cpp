#include "lora/factor_ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "peft_builder.h"

namespace patchbay {
namespace {

using testing::ElementsAre;

Factor counting(std::array<int64_t, 3> ne) {
  std::vector<float> values;
  for (int64_t i = 0; i < ne[0] * ne[1] * ne[2]; ++i) values.push_back(static_cast<float>(i));
  return make_factor(ne, values);
}

Factor from_bits(ggml_type type, std::vector<uint16_t> bits) {
  std::vector<std::byte> bytes(bits.size() * sizeof(uint16_t));
  std::memcpy(bytes.data(), bits.data(), bytes.size());
  return make_factor(type, {static_cast<int64_t>(bits.size()), 1, 1}, bytes);
}

TEST(FactorOps, RotaryRowsOfAHeadInterleaveItsHalves) {
  // Two heads of four rows: 0 1 | 2 3 becomes 0 2 1 3.
  EXPECT_THAT(numbers(reorder_rotary_rows(counting({1, 8, 1}), 2)),
              ElementsAre(0, 2, 1, 3, 4, 6, 5, 7));
  // One head of eight rows.
  EXPECT_THAT(numbers(reorder_rotary_rows(counting({1, 8, 1}), 1)),
              ElementsAre(0, 4, 1, 5, 2, 6, 3, 7));
  // Rows move whole.
  EXPECT_THAT(numbers(reorder_rotary_rows(counting({2, 4, 1}), 1)),
              ElementsAre(0, 1, 4, 5, 2, 3, 6, 7));
}

TEST(FactorOps, ReorderingKeepsTheType) {
  const auto b = from_bits(GGML_TYPE_BF16, {0x3f80, 0x4000, 0x4040, 0x4080});  // 1 2 3 4
  auto rows = b;
  rows.ne = {1, 4, 1};
  const auto moved = reorder_rotary_rows(rows, 1);
  EXPECT_EQ(moved.type, GGML_TYPE_BF16);
  EXPECT_THAT(numbers(moved), ElementsAre(1, 3, 2, 4));
}

TEST(FactorOps, GatherFollowsItsStrides) {
  EXPECT_THAT(numbers(gather(counting({3, 2, 1}), {2, 3, 1}, {3, 1, 0})),
              ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(numbers(gather(counting({4, 1, 1}), {1, 1, 2}, {0, 0, 2}, 1)), ElementsAre(1, 3));
}

TEST(FactorOps, NumbersConvertFromUnalignedData) {
  std::vector<std::byte> bytes(1 + 3 * sizeof(uint16_t));
  const std::array<uint16_t, 3> halves{0x3c00, 0xc000, 0x3800};  // 1, -2, 0.5
  std::memcpy(bytes.data() + 1, halves.data(), sizeof(halves));
  const Factor factor{
      .type = GGML_TYPE_F16, .ne = {3, 1, 1}, .data = std::span(bytes).subspan(1), .owner = {}};
  EXPECT_THAT(numbers(factor), ElementsAre(1, -2, 0.5F));
  std::vector<float> last(2);
  to_f32(factor, 1, last);
  EXPECT_THAT(last, ElementsAre(-2, 0.5F));
}

TEST(FactorOps, ConversionCrossesItsChunks) {
  std::vector<uint16_t> halves(10'000, 0x3c00);
  halves[4096] = 0x4000;
  halves.back() = 0x4200;
  const auto values = numbers(from_bits(GGML_TYPE_F16, halves));
  EXPECT_EQ(values[4095], 1);
  EXPECT_EQ(values[4096], 2);
  EXPECT_EQ(values.back(), 3);
}

TEST(FactorOps, NotFiniteIsFoundInEveryTypeAtEveryPlace) {
  constexpr float k_inf = std::numeric_limits<float>::infinity();
  constexpr float k_nan = std::numeric_limits<float>::quiet_NaN();
  for (const size_t at : {size_t{0}, size_t{4095}, size_t{4096}, size_t{4999}}) {
    for (const float value : {k_inf, -k_inf, k_nan}) {
      std::vector<float> values(5000, 1);
      EXPECT_TRUE(all_finite(make_factor({5000, 1, 1}, values)));
      values[at] = value;
      EXPECT_FALSE(all_finite(make_factor({5000, 1, 1}, values))) << at;
    }
    std::vector<uint16_t> bits(5000, 0x3c00);
    EXPECT_TRUE(all_finite(from_bits(GGML_TYPE_F16, bits)));
    EXPECT_TRUE(all_finite(from_bits(GGML_TYPE_BF16, bits)));
    bits[at] = 0xfc00;
    EXPECT_FALSE(all_finite(from_bits(GGML_TYPE_F16, bits))) << at;
    bits[at] = 0x7fc0;
    EXPECT_FALSE(all_finite(from_bits(GGML_TYPE_BF16, bits))) << at;
  }
}

TEST(FactorOps, NegativeZeroIsZero) {
  EXPECT_TRUE(all_zero(make_factor({2, 1, 1}, {0.0F, -0.0F})));
  EXPECT_TRUE(all_zero(from_bits(GGML_TYPE_F16, {0, 0x8000})));
  EXPECT_FALSE(all_zero(from_bits(GGML_TYPE_F16, {0, 1})));
  EXPECT_FALSE(all_zero(make_factor({2, 1, 1}, {0.0F, 1e-45F})));
}

TEST(FactorOps, DoublesMustFit) {
  const auto bytes_of = [](const std::vector<double> &values) {
    const auto bytes = std::as_bytes(std::span(values));
    return std::vector(bytes.begin(), bytes.end());
  };
  EXPECT_THAT(*f64_to_f32(bytes_of({0.5, -3})), ElementsAre(0.5F, -3));
  EXPECT_FALSE(f64_to_f32(bytes_of({1, 1e39})).has_value());
  EXPECT_FALSE(f64_to_f32(bytes_of({-1e300})).has_value());
}

}  // namespace
}  // namespace patchbay
