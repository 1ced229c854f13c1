#include "kernels/product.h"

#include <ggml-cpu.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/product_pack.h"
#include "kernels/product_support.h"

namespace patchbay {
namespace {

/// A weight as a file has it and as products read it.
struct Weight {
  WeightFormat format;
  int64_t n_in;
  int64_t n_out;
  size_t row_bytes = ggml_row_size(ggml_type_of(format), n_in);
  std::vector<std::byte> rows = std::vector<std::byte>(row_bytes * static_cast<size_t>(n_out));
  std::vector<uint8_t> tiles = std::vector<uint8_t>(
      static_cast<size_t>(n_product_tiles(n_out) * tile_bytes(format, n_in)), 0xAA);

  Weight(WeightFormat format_, int64_t n_in_, int64_t n_out_)
      : format(format_), n_in(n_in_), n_out(n_out_) {
    const auto numbers = normal_numbers(static_cast<size_t>(n_in * n_out), 1);
    ggml_quantize_chunk(ggml_type_of(format), numbers.data(), rows.data(), 0, n_out, n_in, nullptr);
    pack_tiles({format, rows.data(), row_bytes, n_in, n_out}, 0, n_product_tiles(n_out),
               tiles.data());
  }
};

/// y [n_out, n_tokens]
std::vector<float> product(Isa isa, const Weight &weight, const std::vector<float> &x) {
  const int64_t n_tokens = static_cast<int64_t>(x.size()) / weight.n_in;
  const auto panels = panels_of(layout_of(weight.format).input, x, weight.n_in);
  std::vector<float> y(static_cast<size_t>(n_tokens * weight.n_out));
  run_product(isa, {.format = weight.format,
                    .tiles = weight.tiles.data(),
                    .n_in = weight.n_in,
                    .n_out = weight.n_out,
                    .panels = panels.data(),
                    .n_tokens = n_tokens,
                    .y = y.data(),
                    .y_stride = weight.n_out});
  return y;
}

/// The same by ggml's dot product of a row and a token.
std::vector<float> ggml_product(const Weight &weight, const std::vector<float> &x) {
  ggml_cpu_init();  // fills the tables that its products read
  const auto *traits = ggml_get_type_traits_cpu(ggml_type_of(weight.format));
  const auto *input_traits = ggml_get_type_traits_cpu(traits->vec_dot_type);
  const auto n_tokens = x.size() / static_cast<size_t>(weight.n_in);
  std::vector<std::byte> input(ggml_row_size(traits->vec_dot_type, weight.n_in));
  std::vector<float> y;
  for (size_t t = 0; t < n_tokens; ++t) {
    input_traits->from_float(x.data() + t * static_cast<size_t>(weight.n_in), input.data(),
                             weight.n_in);
    for (int64_t row = 0; row < weight.n_out; ++row) {
      traits->vec_dot(static_cast<int>(weight.n_in), &y.emplace_back(), 0,
                      weight.rows.data() + static_cast<size_t>(row) * weight.row_bytes, 0,
                      input.data(), 0, 1);
    }
  }
  return y;
}

/// Root mean square of the differences, relative to that of `wanted` or, where that is less because
/// the products happen to cancel, to what products of n_in normal numbers have.
double relative_difference(const std::vector<float> &got, const std::vector<float> &wanted,
                           int64_t n_in) {
  double difference = 0;
  double size = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double d = static_cast<double>(got[i]) - wanted[i];
    difference += d * d;
    size += static_cast<double>(wanted[i]) * wanted[i];
  }
  const auto n = static_cast<double>(got.size());
  return std::sqrt(difference / std::max(size, n * static_cast<double>(n_in)));
}

std::vector<Isa> isas_with(WeightFormat format) {
  std::vector<Isa> isas;
  for (const Isa isa : available_isas()) {
    if (has_product(isa, format)) isas.push_back(isa);
  }
  return isas;
}

class ProductOf : public testing::TestWithParam<WeightFormat> {
 protected:
  /// Numbers of inputs: odd numbers of blocks and groups, and for float formats part of one.
  static std::vector<int64_t> widths() {
    switch (layout_of(GetParam()).input) {
      case InputForm::q8_k:
        return {256, 768};
      case InputForm::f16:
      case InputForm::bf16:
        return {1, 47, 576};
      default:
        return {32, 96, 576};
    }
  }
};

TEST_P(ProductOf, EqualsThatOfGgmlForTailsOfRowsAndTokens) {
  for (const Isa isa : isas_with(GetParam())) {
    for (const int64_t n_in : widths()) {
      for (const int64_t n_out : {1, 7, 16, 37, 100}) {
        const Weight weight(GetParam(), n_in, n_out);
        for (const int64_t n_tokens : {1, 2, 3, 4, 5, 13, 16, 17, 33}) {
          const auto x = normal_numbers(static_cast<size_t>(n_in * n_tokens), 2);
          EXPECT_LT(relative_difference(product(isa, weight, x), ggml_product(weight, x), n_in),
                    1e-6)
              << to_string(isa) << " " << n_in << " x " << n_out << ", " << n_tokens << " tokens";
        }
      }
    }
  }
}

TEST_P(ProductOf, EqualsThatOfGgmlForMoreThanOneChunkOfTiles) {
  const Weight weight(GetParam(), 2048, 1040);
  const auto x = normal_numbers(2048 * 40, 2);
  const auto wanted = ggml_product(weight, x);
  for (const Isa isa : isas_with(GetParam()))
    EXPECT_LT(relative_difference(product(isa, weight, x), wanted, weight.n_in), 1e-6)
        << to_string(isa);
}

TEST_P(ProductOf, HasTheSameBitsForATokenAloneAndAmongOthers) {
  const int64_t n_in = 768;
  const Weight weight(GetParam(), n_in, 50);
  const auto x = normal_numbers(static_cast<size_t>(n_in * 40), 3);
  for (const Isa isa : isas_with(GetParam())) {
    const auto together = product(isa, weight, x);
    for (int64_t t = 0; t < 40; ++t) {
      const std::vector<float> one(x.begin() + t * n_in, x.begin() + (t + 1) * n_in);
      const std::vector<float> wanted(together.begin() + t * 50, together.begin() + (t + 1) * 50);
      EXPECT_EQ(product(isa, weight, one), wanted) << to_string(isa) << ", token " << t;
    }
  }
}

/// A block of ggml's with scales of 1 and codes that are as large as they can be.
std::vector<uint8_t> block_of_largest_codes(WeightFormat format) {
  constexpr uint16_t k_one = 0x3C00;
  std::vector<uint8_t> block(ggml_type_size(ggml_type_of(format)), 0xFF);
  const auto put_one = [&](size_t offset) {
    std::memcpy(block.data() + offset, &k_one, sizeof k_one);
  };
  switch (format) {
    case WeightFormat::q4_0:
    case WeightFormat::q5_0:
      put_one(0);
      break;
    case WeightFormat::q8_0:
      std::ranges::fill(block, 127);
      put_one(0);
      break;
    case WeightFormat::q6_k:
      std::fill_n(block.begin() + 192, 16, 127);  // factors of the scale
      put_one(208);
      break;
    default:  // scale and minimum
      put_one(0);
      put_one(2);
  }
  return block;
}

TEST_P(ProductOf, HoldsTheLargestCodes) {
  const ggml_type type = ggml_type_of(GetParam());
  if (!ggml_is_quantized(type)) return;
  const int64_t n_in = 512;
  Weight weight(GetParam(), n_in, 16);
  const auto block = block_of_largest_codes(GetParam());
  for (size_t i = 0; i < weight.rows.size(); i += block.size())
    std::memcpy(weight.rows.data() + i, block.data(), block.size());
  pack_tiles({GetParam(), weight.rows.data(), weight.row_bytes, n_in, 16}, 0, 1,
             weight.tiles.data());
  for (const float sign : {1.F, -1.F}) {
    const std::vector<float> x(static_cast<size_t>(n_in) * 3, sign);
    const auto wanted = ggml_product(weight, x);
    EXPECT_GT(std::abs(wanted.front()), 7 * 512 * 0.99);
    for (const Isa isa : isas_with(GetParam()))
      EXPECT_LT(relative_difference(product(isa, weight, x), wanted, n_in), 1e-6) << to_string(isa);
  }
}

TEST_P(ProductOf, GivesNoNumbersForATokenOfNoneAndTheSameForOthers) {
  const int64_t n_in = 512;
  const Weight weight(GetParam(), n_in, 20);
  auto x = normal_numbers(static_cast<size_t>(n_in * 3), 4);
  const auto before = x;
  std::fill_n(x.begin() + n_in, n_in, std::numeric_limits<float>::quiet_NaN());
  for (const Isa isa : isas_with(GetParam())) {
    const auto clean = product(isa, weight, before);
    const auto got = product(isa, weight, x);
    EXPECT_TRUE(std::none_of(got.begin() + 20, got.begin() + 40, [](float one) {
      return std::isfinite(one);
    })) << to_string(isa);
    EXPECT_TRUE(std::equal(got.begin(), got.begin() + 20, clean.begin())) << to_string(isa);
    EXPECT_TRUE(std::equal(got.begin() + 40, got.end(), clean.begin() + 40)) << to_string(isa);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryFormat, ProductOf, testing::ValuesIn(k_weight_formats),
                         [](const auto &each) {
                           return std::string(ggml_type_name(ggml_type_of(each.param)));
                         });

TEST(ProductTest,
     RunsOnTheBestInstructionSetThatIsWrittenForAFormatAndNeedsNoMoreThanTheProcessorHas) {
  for (const WeightFormat format : k_weight_formats) {
    EXPECT_EQ(product_isa(Isa::plain, format), std::nullopt);
    for (const Isa isa : available_isas()) {
      const auto found = product_isa(isa, format);
      EXPECT_EQ(found.has_value(), has_product(isa, format));
      if (!found) continue;
      EXPECT_LE(*found, isa) << to_string(isa);
      EXPECT_EQ(product_isa(*found, format), found) << to_string(isa);
    }
  }
}

TEST(ProductTest, PackedRowsTakeHardlyMoreThanThoseOfTheFile) {
  for (const WeightFormat format : k_weight_formats) {
    const auto file_bytes = static_cast<double>(16 * ggml_row_size(ggml_type_of(format), 1024));
    const auto bytes = static_cast<double>(tile_bytes(format, 1024));
    EXPECT_GE(bytes, file_bytes) << ggml_type_name(ggml_type_of(format));
    EXPECT_LE(bytes, 1.03 * file_bytes) << ggml_type_name(ggml_type_of(format));
  }
}

}  // namespace
}  // namespace patchbay
