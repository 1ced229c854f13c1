#include "model/weight_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "kernels/product.h"
#include "model/repack.h"

namespace patchbay {
namespace {

constexpr std::array k_quantised{GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1,
                                 GGML_TYPE_Q8_0, GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K};
constexpr std::array k_all{GGML_TYPE_F32,  GGML_TYPE_F16,    GGML_TYPE_BF16,  GGML_TYPE_Q4_0,
                           GGML_TYPE_Q4_1, GGML_TYPE_Q5_0,   GGML_TYPE_Q5_1,  GGML_TYPE_Q8_0,
                           GGML_TYPE_Q2_K, GGML_TYPE_Q3_K,   GGML_TYPE_Q4_K,  GGML_TYPE_Q5_K,
                           GGML_TYPE_Q6_K, GGML_TYPE_IQ4_NL, GGML_TYPE_IQ4_XS};
constexpr std::array k_products{TensorRole::linear, TensorRole::experts};

ggml_tensor shape(ggml_type type, int64_t n_out = 64) {
  ggml_tensor tensor{};
  tensor.type = type;
  std::ranges::copy(std::array<int64_t, 4>{256, n_out, 1, 1}, tensor.ne);
  return tensor;
}

WeightLayout layout(TensorRole role, ggml_type type, const LayoutOptions &options) {
  return choose_layout(role, shape(type), options);
}

/// Packed on processors that have products at all.
WeightLayout packed_on(Isa isa) {
  return has_product(isa, WeightFormat::q8_0) ? WeightLayout::packed : WeightLayout::as_stored;
}

/// What ggml does on this processor.
WeightLayout interleaved_if_possible(TensorRole role, const ggml_tensor &tensor) {
  return can_interleave(role, tensor) ? WeightLayout::interleaved : WeightLayout::as_stored;
}

TEST(WeightLayout, QuantisedMatricesArePackedOnEveryInstructionSetWithProducts) {
  for (const Isa isa :
       {Isa::avx2, Isa::avx_vnni, Isa::avx512, Isa::avx512_vnni, Isa::avx512_bf16}) {
    for (const ggml_type type : k_quantised) {
      for (const TensorRole role : k_products) {
        EXPECT_EQ(layout(role, type, {.isa = isa}), packed_on(isa) == WeightLayout::packed
                                                        ? WeightLayout::packed
                                                        : layout(role, type, {.pack = false}))
            << to_string(isa) << " " << ggml_type_name(type);
      }
    }
  }
}

TEST(WeightLayout, TablesAndVectorsStayAsTheyAre) {
  for (const ggml_type type : k_all) {
    EXPECT_EQ(layout(TensorRole::table, type, {}), WeightLayout::as_stored) << ggml_type_name(type);
    EXPECT_EQ(layout(TensorRole::vector, type, {}), WeightLayout::as_stored)
        << ggml_type_name(type);
  }
}

TEST(WeightLayout, AFormatWithoutGainIsNotPacked) {
  EXPECT_EQ(layout(TensorRole::linear, GGML_TYPE_BF16, {.isa = Isa::avx2}),
            WeightLayout::as_stored);
  EXPECT_EQ(layout(TensorRole::linear, GGML_TYPE_BF16, {.isa = Isa::avx512_vnni}),
            WeightLayout::as_stored);
  EXPECT_EQ(layout(TensorRole::linear, GGML_TYPE_BF16, {.isa = Isa::avx512_bf16}),
            packed_on(Isa::avx512_bf16));
}

TEST(WeightLayout, TypesWithoutAProductOfOursAreInterleavedWhereThatPays) {
  for (const TensorRole role : k_products) {
    EXPECT_EQ(layout(role, GGML_TYPE_IQ4_NL, {}),
              interleaved_if_possible(role, shape(GGML_TYPE_IQ4_NL)));
    // ggml interleaves Q2_K, but gains nothing by it.
    for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_Q2_K, GGML_TYPE_Q3_K, GGML_TYPE_IQ4_XS})
      EXPECT_EQ(layout(role, type, {}), WeightLayout::as_stored) << ggml_type_name(type);
  }
}

TEST(WeightLayout, WithoutPackingMatricesAreInterleavedWhereGgmlCan) {
  const LayoutOptions options{.pack = false};
  for (const TensorRole role : k_products) {
    for (const ggml_type type : {GGML_TYPE_Q4_0, GGML_TYPE_Q4_K})
      EXPECT_EQ(layout(role, type, options), interleaved_if_possible(role, shape(type)));
    for (const ggml_type type : {GGML_TYPE_Q4_1, GGML_TYPE_Q8_0, GGML_TYPE_Q6_K})
      EXPECT_EQ(layout(role, type, options), WeightLayout::as_stored) << ggml_type_name(type);
  }
}

TEST(WeightLayout, RowsThatGgmlCannotInterleaveCanBePacked) {
  const ggml_tensor twelve_rows = shape(GGML_TYPE_Q4_0, 12);
  EXPECT_EQ(choose_layout(TensorRole::linear, twelve_rows, {.pack = false}),
            WeightLayout::as_stored);
  EXPECT_EQ(choose_layout(TensorRole::linear, twelve_rows, {.isa = Isa::avx2}),
            packed_on(Isa::avx2));
}

TEST(WeightLayout, WithNeitherAllowedEverythingStaysAsItIs) {
  for (const TensorRole role : k_products) {
    for (const ggml_type type : k_all) {
      EXPECT_EQ(layout(role, type, {.interleave = false, .pack = false}), WeightLayout::as_stored)
          << ggml_type_name(type);
    }
  }
}

TEST(WeightLayout, AProcessorWithoutProductsPacksNothing) {
  for (const TensorRole role : k_products) {
    for (const ggml_type type : k_all) {
      EXPECT_EQ(layout(role, type, {.interleave = false, .isa = Isa::plain}),
                WeightLayout::as_stored)
          << ggml_type_name(type);
      EXPECT_EQ(layout(role, type, {.isa = Isa::plain}), layout(role, type, {.pack = false}))
          << ggml_type_name(type);
    }
  }
}

}  // namespace
}  // namespace patchbay
