#include "kernels/product_panels.h"

#include <ggml-cpu.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

namespace patchbay {
namespace {

float f16_at(const uint8_t *bytes) {
  ggml_fp16_t half = 0;
  std::memcpy(&half, bytes, sizeof half);
  return ggml_fp16_to_fp32(half);
}

/// Where the parts of a block of one token lie.
struct Place {
  uint8_t *codes;   // of 32 inputs
  uint8_t *beside;  // then one number of each token, n_tokens of them after each other

  Place(const PanelToken &token, int64_t block, int64_t block_bytes) {
    uint8_t *start = token.panel + block * block_bytes * token.n_tokens;
    codes = start + token.i_token * k_product_block;
    beside = start + token.n_tokens * k_product_block + token.i_token * 4;
  }
};

template <class Number>
void put(const PanelToken &token, const Place &place, int64_t i, Number value) {
  static_assert(sizeof value == 4);
  std::memcpy(place.beside + i * token.n_tokens * 4, &value, sizeof value);
}

int32_t sum_of(const uint8_t *codes, int64_t n) {
  const auto *first = reinterpret_cast<const int8_t *>(codes);
  return std::accumulate(first, first + n, 0);
}

/// ggml's blocks of 32 codes, with `n_head` bytes in front that begin with an F16 scale. `second`
/// makes of such a block the number that products need beside its scale.
template <ggml_type type, size_t n_head, class Second>
void fill_blocks(InputForm form, const PanelToken &token, const Second &second) {
  constexpr size_t k_block_bytes = n_head + 32;
  const auto quantise = ggml_get_type_traits_cpu(type)->from_float;
  for (int64_t first = 0; first < token.n_in; first += k_product_super) {
    const int64_t n = std::min(k_product_super, token.n_in - first);
    std::array<uint8_t, 8 * k_block_bytes> blocks{};
    quantise(token.x + first, blocks.data(), n);
    const uint8_t *block = blocks.data();
    for (int64_t j = 0; j < n / k_product_block; ++j, block += k_block_bytes) {
      const Place place(token, first / k_product_block + j, panel_block_bytes(form));
      std::memcpy(place.codes, block + n_head, 32);
      put(token, place, 0, f16_at(block));
      put(token, place, 1, second(block));
    }
  }
}

void fill_q8_0(InputForm form, const PanelToken &token, int32_t bias) {
  fill_blocks<GGML_TYPE_Q8_0, 2>(
      form, token, [bias](const uint8_t *block) { return -bias * sum_of(block + 2, 32); });
}

/// The second number is scale * (sum of codes), as ggml has it, rounded to F16.
void fill_q8_1(const PanelToken &token) {
  fill_blocks<GGML_TYPE_Q8_1, 4>(InputForm::q8_1, token,
                                 [](const uint8_t *block) { return f16_at(block + 2); });
}

/// Q8_K's codes of 256 numbers. ggml has only a loop over single numbers for them, which takes a
/// tenth of a product; this one gives the same bits in loops that compilers make vectors of. The
/// scale of numbers that are not all finite is NaN.
struct CodesOfSuper {
  float scale = 0;
  std::array<int8_t, k_product_super> codes{};

  explicit CodesOfSuper(const float *x) {
    constexpr size_t k_lanes = 16;
    std::array<float, k_lanes> most{};
    std::array<float, k_lanes> zeros{};  // unless a number is NaN or infinite
    for (size_t i = 0; i < codes.size(); i += k_lanes) {
      for (size_t lane = 0; lane < k_lanes; ++lane) {
        const float size = std::fabs(x[i + lane]);
        most[lane] = size > most[lane] ? size : most[lane];
        zeros[lane] += size - size;
      }
    }
    const float largest = *std::ranges::max_element(most);
    // To ggml such a token is as good as any, and what comes of it a number.
    scale = std::accumulate(zeros.begin(), zeros.end(), 0.0F);
    if (largest == 0 || scale != 0) return;
    const float *signed_largest =
        std::find_if(x, x + codes.size(), [&](float one) { return std::fabs(one) == largest; });
    const float inverse = -127.0F / *signed_largest;
    scale = 1 / inverse;
    // Added to a number of up to 2^22, 1.5 * 2^23 leaves its nearest integer in the last bits.
    constexpr float k_magic = 12582912;
    for (size_t i = 0; i < codes.size(); ++i) {
      const auto bits = std::bit_cast<int32_t>(inverse * x[i] + k_magic);
      const int32_t code = (bits & 0x007FFFFF) - 0x00400000;
      codes[i] = static_cast<int8_t>(code < 127 ? code : 127);
    }
  }
};

/// Q8_K: scale, codes and what sums of them products need.
void fill_q8_k(const PanelToken &token) {
  constexpr int32_t k_bias = 32;  // of Q6_K
  for (int64_t first = 0; first < token.n_in; first += k_product_super) {
    const CodesOfSuper super(token.x + first);
    const auto *codes = reinterpret_cast<const uint8_t *>(super.codes.data());
    for (int64_t j = 0; j < 8; ++j, codes += 32) {
      const Place place(token, first / k_product_block + j, panel_block_bytes(InputForm::q8_k));
      const int32_t left = sum_of(codes, 16);
      const int32_t right = sum_of(codes + 16, 16);
      std::memcpy(place.codes, codes, 32);
      put(token, place, 0, super.scale);
      put(token, place, 1, super.scale * static_cast<float>(left + right));
      put(token, place, 2, -k_bias * left);
      put(token, place, 3, -k_bias * right);
    }
  }
}

/// The numbers of a block, zeros behind the last one.
std::array<float, k_product_block> padded_block(const PanelToken &token, int64_t first) {
  std::array<float, k_product_block> numbers{};
  std::copy_n(token.x + first, std::min(k_product_block, token.n_in - first), numbers.data());
  return numbers;
}

void fill_f16(const PanelToken &token) {
  for (int64_t first = 0; first < token.n_in; first += k_product_block) {
    auto numbers = padded_block(token, first);
    std::array<ggml_fp16_t, k_product_block> halves{};
    ggml_cpu_fp32_to_fp16(numbers.data(), halves.data(), k_product_block);
    ggml_cpu_fp16_to_fp32(halves.data(), numbers.data(), k_product_block);
    std::memcpy(token.panel + (first * token.n_tokens + token.i_token * k_product_block) * 4,
                numbers.data(), sizeof numbers);
  }
}

void fill_bf16(const PanelToken &token) {
  for (int64_t first = 0; first < token.n_in; first += k_product_block) {
    const auto numbers = padded_block(token, first);
    std::array<ggml_bf16_t, k_product_block> brains{};
    ggml_cpu_fp32_to_bf16(numbers.data(), brains.data(), k_product_block);
    std::memcpy(token.panel + (first * token.n_tokens + token.i_token * k_product_block) * 2,
                brains.data(), sizeof brains);
  }
}

}  // namespace

void fill_panel(InputForm form, const PanelToken &token) {
  switch (form) {
    case InputForm::q8_0_bias8:
      return fill_q8_0(form, token, 8);
    case InputForm::q8_0_bias16:
      return fill_q8_0(form, token, 16);
    case InputForm::q8_0_bias128:
      return fill_q8_0(form, token, 128);
    case InputForm::q8_1:
      return fill_q8_1(token);
    case InputForm::q8_k:
      return fill_q8_k(token);
    case InputForm::f16:
      return fill_f16(token);
    case InputForm::bf16:
      return fill_bf16(token);
  }
}

}  // namespace patchbay
