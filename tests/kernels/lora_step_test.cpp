#include "kernels/lora_step.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace patchbay {
namespace {

// Numbers with few bits, which every factor type holds exactly.
std::vector<float> short_numbers(size_t n, std::mt19937 &random) {
  std::vector<float> values(n);
  for (float &value : values) {
    const int sixteenths = static_cast<int>(random() % 255U) - 127;
    value = std::ldexp(static_cast<float>(sixteenths), -4 - static_cast<int>(random() % 4U));
  }
  return values;
}

uint16_t to_half(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (value == 0) return 0;
  return static_cast<uint16_t>(((bits >> 16U) & 0x8000U) |
                               ((((bits >> 23U) & 255U) - 112U) << 10U) |
                               ((bits & 0x7FFFFFU) >> 13U));
}

/// A factor in its own type, one byte off any alignment.
std::vector<char> stored(FactorType type, const std::vector<float> &values) {
  const size_t size = type == FactorType::f32 ? 4 : 2;
  std::vector<char> bytes(1 + values.size() * size);
  for (size_t i = 0; i < values.size(); ++i) {
    char *to = bytes.data() + 1 + i * size;
    const auto bf16 = static_cast<uint16_t>(std::bit_cast<uint32_t>(values[i]) >> 16U);
    const uint16_t half = type == FactorType::f16 ? to_half(values[i]) : bf16;
    if (type == FactorType::f32) {
      std::memcpy(to, &values[i], size);
    } else {
      std::memcpy(to, &half, size);
    }
  }
  return bytes;
}

const void *data(const std::vector<char> &bytes) { return bytes.data() + 1; }

struct Case {
  Isa isa;
  FactorType type;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Isa isa : available_isas()) {
    for (const FactorType type : {FactorType::f32, FactorType::f16, FactorType::bf16})
      all.push_back({isa, type});
  }
  return all;
}

std::string name_of(const testing::TestParamInfo<Case> &info) {
  constexpr std::array k_names{"f32", "f16", "bf16"};
  return std::string(to_string(info.param.isa)) + "_" +
         k_names[static_cast<size_t>(info.param.type)];
}

class LoraStepOf : public testing::TestWithParam<Case> {
 protected:
  std::mt19937 random_{static_cast<uint32_t>(GetParam().type)};
};

constexpr float k_untouched = 12345;

struct Shrink {
  int64_t n_in, n_rank, n_tokens;
  std::vector<float> a, x;
  std::vector<char> bytes;

  Shrink(FactorType type, int64_t in, int64_t rank, int64_t tokens, std::mt19937 &random)
      : n_in(in),
        n_rank(rank),
        n_tokens(tokens),
        a(short_numbers(static_cast<size_t>(in * rank), random)),
        x(short_numbers(static_cast<size_t>((in + 3) * tokens), random)),
        bytes(stored(type, a)) {}

  [[nodiscard]] std::vector<float> run(const Case &param, int64_t first_rank, int64_t last_rank,
                                       int64_t first_token, int64_t last_token) const {
    std::vector<float> low(static_cast<size_t>((n_rank + 1) * n_tokens), k_untouched);
    const int64_t size = param.type == FactorType::f32 ? 4 : 2;
    lora_shrink(param.isa, {.type = param.type,
                            .a = static_cast<const char *>(data(bytes)) + first_rank * n_in * size,
                            .n_in = n_in,
                            .n_rank = last_rank - first_rank,
                            .x = x.data() + first_token * (n_in + 3),
                            .x_stride = n_in + 3,
                            .n_tokens = last_token - first_token,
                            .scale = -0.75F,
                            .low = low.data() + first_token * (n_rank + 1) + first_rank,
                            .low_stride = n_rank + 1});
    return low;
  }
};

TEST_P(LoraStepOf, ShrinkIsAPlainDoubleLoop) {
  for (const int64_t n_in : {1, 7, 16, 33, 576}) {
    for (const int64_t n_rank : {1, 2, 3, 4, 5, 8, 13, 16, 37, 64, 70}) {
      for (const int64_t n_tokens : {1, 2, 3, 4, 5, 9}) {
        const Shrink job(GetParam().type, n_in, n_rank, n_tokens, random_);
        const auto low = job.run(GetParam(), 0, n_rank, 0, n_tokens);
        for (int64_t t = 0; t < n_tokens; ++t) {
          for (int64_t r = 0; r < n_rank; ++r) {
            double want = 0;
            double size = 0;
            for (int64_t i = 0; i < n_in; ++i) {
              const double part = static_cast<double>(job.a[static_cast<size_t>(r * n_in + i)]) *
                                  job.x[static_cast<size_t>(t * (n_in + 3) + i)];
              want += part;
              size += std::abs(part);
            }
            ASSERT_NEAR(low[static_cast<size_t>(t * (n_rank + 1) + r)], -0.75 * want,
                        1e-6 * size + 1e-9)
                << n_in << " x " << n_rank << ", token " << t << ", rank " << r;
          }
          ASSERT_EQ(low[static_cast<size_t>(t * (n_rank + 1) + n_rank)], k_untouched);
        }
      }
    }
  }
}

TEST_P(LoraStepOf, ShrinkHasTheSameBitsHoweverItIsCut) {
  for (const int64_t n_in : {33, 200}) {
    Shrink job(GetParam().type, n_in, 13, 9, random_);
    std::normal_distribution<float> normal;
    for (float &value : job.x) value = normal(random_);
    const auto whole = job.run(GetParam(), 0, 13, 0, 9);
    for (int64_t r = 0; r < 13; ++r) {
      for (int64_t t = 0; t < 9; ++t) {
        const auto i = static_cast<size_t>(t * 14 + r);
        ASSERT_EQ(job.run(GetParam(), r, r + 1, t, t + 1)[i], whole[i]) << r << ", " << t;
      }
    }
    EXPECT_EQ(job.run(GetParam(), 2, 11, 1, 8)[3 * 14 + 5], whole[3 * 14 + 5]);
  }
}

struct Expand {
  int64_t n_rank, n_out, n_tokens;
  std::vector<float> b, low, y;  // b [n_tiles][n_rank][32]
  std::vector<char> bytes;

  Expand(FactorType type, int64_t rank, int64_t out, int64_t tokens, std::mt19937 &random)
      : n_rank(rank),
        n_out(out),
        n_tokens(tokens),
        b(short_numbers(static_cast<size_t>((out + 31) / 32 * 32 * rank), random)),
        low(short_numbers(static_cast<size_t>((rank + 2) * tokens), random)),
        y(short_numbers(static_cast<size_t>((out + 1) * tokens), random)),
        bytes(stored(type, b)) {}

  [[nodiscard]] std::vector<float> run(const Case &param, int64_t first_tile, int64_t n_here,
                                       int64_t first_token, int64_t last_token) const {
    std::vector<float> out = y;
    const int64_t size = param.type == FactorType::f32 ? 4 : 2;
    lora_expand(param.isa,
                {.type = param.type,
                 .b = static_cast<const char *>(data(bytes)) + first_tile * 32 * n_rank * size,
                 .n_rank = n_rank,
                 .n_out = n_here,
                 .low = low.data() + first_token * (n_rank + 2),
                 .low_stride = n_rank + 2,
                 .n_tokens = last_token - first_token,
                 .y = out.data() + first_token * (n_out + 1) + first_tile * 32,
                 .y_stride = n_out + 1});
    return out;
  }
};

TEST_P(LoraStepOf, ExpandIsAPlainDoubleLoopAndWritesNothingElse) {
  for (const int64_t n_out : {1, 31, 32, 33, 64, 100}) {
    for (const int64_t n_rank : {1, 2, 3, 4, 7, 16, 40, 64, 70}) {
      for (const int64_t n_tokens : {1, 2, 3, 4, 7, 8, 9, 13}) {
        const Expand job(GetParam().type, n_rank, n_out, n_tokens, random_);
        const auto y = job.run(GetParam(), 0, n_out, 0, n_tokens);
        for (int64_t t = 0; t < n_tokens; ++t) {
          for (int64_t o = 0; o < n_out; ++o) {
            double want = job.y[static_cast<size_t>(t * (n_out + 1) + o)];
            double size = std::abs(want);
            for (int64_t r = 0; r < n_rank; ++r) {
              const double part =
                  static_cast<double>(
                      job.b[static_cast<size_t>((o / 32 * n_rank + r) * 32 + o % 32)]) *
                  job.low[static_cast<size_t>(t * (n_rank + 2) + r)];
              want += part;
              size += std::abs(part);
            }
            ASSERT_NEAR(y[static_cast<size_t>(t * (n_out + 1) + o)], want, 1e-6 * size)
                << n_rank << " x " << n_out << ", token " << t << ", output " << o;
          }
          const auto beyond = static_cast<size_t>(t * (n_out + 1) + n_out);
          ASSERT_EQ(y[beyond], job.y[beyond]);
        }
      }
    }
  }
}

TEST_P(LoraStepOf, ExpandHasTheSameBitsHoweverItIsCut) {
  Expand job(GetParam().type, 13, 100, 11, random_);
  std::normal_distribution<float> normal;
  for (float &value : job.low) value = normal(random_);
  const auto whole = job.run(GetParam(), 0, 100, 0, 11);
  for (int64_t tile = 0; tile < 4; ++tile) {
    for (int64_t t = 0; t < 11; ++t) {
      const int64_t n_here = std::min<int64_t>(32, 100 - tile * 32);
      const auto part = job.run(GetParam(), tile, n_here, t, t + 1);
      for (int64_t o = 0; o < n_here; ++o) {
        const auto i = static_cast<size_t>(t * 101 + tile * 32 + o);
        ASSERT_EQ(part[i], whole[i]) << tile << ", " << t << ", " << o;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllIsas, LoraStepOf, testing::ValuesIn(cases()), name_of);

TEST(LoraStep, ReadsSubnormalHalves) {
  const std::vector<uint16_t> a{0x0001, 0x83FF, 0x0400};
  const std::vector<float> x{0x1p24F, 0x1p24F, 0x1p24F};
  for (const Isa isa : available_isas()) {
    float low = 0;
    lora_shrink(isa, {.type = FactorType::f16,
                      .a = a.data(),
                      .n_in = 3,
                      .n_rank = 1,
                      .x = x.data(),
                      .x_stride = 3,
                      .n_tokens = 1,
                      .low = &low,
                      .low_stride = 1});
    EXPECT_EQ(low, 1 - 1023 + 1024) << to_string(isa);
  }
}

}  // namespace
}  // namespace patchbay
