#include "kernels/product_panels.h"

#include <ggml-cpu.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>

#include "kernels/product_support.h"

namespace patchbay {
namespace {

/// Tokens of 256 numbers of several kinds.
std::vector<float> tokens() {
  auto x = normal_numbers(256 * 6, 5);
  std::fill_n(x.begin() + 256, 256, 0.0F);
  for (size_t i = 512; i < 768; ++i) x[i] = static_cast<float>(i % 2 == 0 ? 1 : -1);
  for (size_t i = 768; i < 1024; ++i) x[i] = std::ldexp(x[i], static_cast<int>(i % 60) - 30);
  // Halves between two codes: which neighbour is taken shows the rounding.
  for (size_t i = 1024; i < 1280; ++i) x[i] = (static_cast<float>(i % 254) - 126.5F) / 127;
  x[1024] = -1;
  return x;
}

/// ggml's blocks of token t.
template <size_t n_bytes>
std::array<uint8_t, n_bytes> blocks_of(ggml_type type, const std::vector<float> &x, size_t t) {
  (void)ggml_cpu_init();
  std::array<uint8_t, n_bytes> blocks{};
  ggml_get_type_traits_cpu(type)->from_float(x.data() + 256 * t, blocks.data(), 256);
  return blocks;
}

template <class Number>
Number number_at(const uint8_t *bytes) {
  Number number{};
  std::memcpy(&number, bytes, sizeof number);
  return number;
}

int32_t sum_of(const uint8_t *codes, size_t n) {
  int32_t sum = 0;
  for (size_t i = 0; i < n; ++i) sum += static_cast<int8_t>(codes[i]);
  return sum;
}

TEST(ProductPanels, HaveTheCodesOfGgmlForQ8KWithSumsOfThem) {
  const auto x = tokens();
  const auto panel = panels_of(InputForm::q8_k, x, 256);
  for (size_t t = 0; t < 6; ++t) {
    const auto block = blocks_of<4 + 256 + 32>(GGML_TYPE_Q8_K, x, t);
    const auto scale = number_at<float>(block.data());
    for (size_t j = 0; j < 8; ++j) {
      const uint8_t *of_block = panel.data() + j * 6 * 48;
      const uint8_t *codes = block.data() + 4 + 32 * j;
      const uint8_t *beside = of_block + 6 * 32 + 4 * t;
      EXPECT_EQ(std::memcmp(of_block + 32 * t, codes, 32), 0) << t << " " << j;
      EXPECT_EQ(number_at<float>(beside), scale);
      EXPECT_EQ(number_at<float>(beside + 6 * 4), scale * static_cast<float>(sum_of(codes, 32)));
      EXPECT_EQ(number_at<int32_t>(beside + 6 * 8), -32 * sum_of(codes, 16));
      EXPECT_EQ(number_at<int32_t>(beside + 6 * 12), -32 * sum_of(codes + 16, 16));
    }
  }
}

TEST(ProductPanels, HaveTheBlocksOfGgmlForQ80WithTheBiasOfTheirSum) {
  const auto x = tokens();
  for (const auto &[form, bias] :
       {std::pair{InputForm::q8_0_bias8, 8}, std::pair{InputForm::q8_0_bias16, 16},
        std::pair{InputForm::q8_0_bias128, 128}}) {
    const auto panel = panels_of(form, x, 256);
    for (size_t t = 0; t < 6; ++t) {
      const auto blocks = blocks_of<8 * 34>(GGML_TYPE_Q8_0, x, t);
      for (size_t j = 0; j < 8; ++j) {
        const uint8_t *of_block = panel.data() + j * 6 * 40;
        const uint8_t *block = blocks.data() + 34 * j;
        const uint8_t *beside = of_block + 6 * 32 + 4 * t;
        EXPECT_EQ(std::memcmp(of_block + 32 * t, block + 2, 32), 0) << t << " " << j;
        EXPECT_EQ(number_at<float>(beside), ggml_fp16_to_fp32(number_at<ggml_fp16_t>(block)));
        EXPECT_EQ(number_at<int32_t>(beside + 6 * 4), -bias * sum_of(block + 2, 32));
      }
    }
  }
}

TEST(ProductPanels, HaveTheBlocksAndSumsOfGgmlForQ81) {
  const auto x = tokens();
  const auto panel = panels_of(InputForm::q8_1, x, 256);
  for (size_t t = 0; t < 6; ++t) {
    const auto blocks = blocks_of<8 * 36>(GGML_TYPE_Q8_1, x, t);
    for (size_t j = 0; j < 8; ++j) {
      const uint8_t *of_block = panel.data() + j * 6 * 40;
      const uint8_t *block = blocks.data() + 36 * j;
      const uint8_t *beside = of_block + 6 * 32 + 4 * t;
      EXPECT_EQ(std::memcmp(of_block + 32 * t, block + 4, 32), 0) << t << " " << j;
      for (size_t i = 0; i < 2; ++i) {
        EXPECT_EQ(number_at<float>(beside + 6 * 4 * i),
                  ggml_fp16_to_fp32(number_at<ggml_fp16_t>(block + 2 * i)));
      }
    }
  }
}

TEST(ProductPanels, PadTheLastBlockOfFloatsWithZeros) {
  const auto x = normal_numbers(40, 1);
  const auto f16 = panels_of(InputForm::f16, x, 40);
  const auto bf16 = panels_of(InputForm::bf16, x, 40);
  for (size_t i = 0; i < 64; ++i) {
    const float number = i < 40 ? x[i] : 0;
    EXPECT_EQ(number_at<float>(f16.data() + 4 * i), ggml_fp16_to_fp32(ggml_fp32_to_fp16(number)));
    EXPECT_EQ(ggml_bf16_to_fp32(number_at<ggml_bf16_t>(bf16.data() + 2 * i)),
              ggml_bf16_to_fp32(ggml_fp32_to_bf16(number)));
  }
}

}  // namespace
}  // namespace patchbay
