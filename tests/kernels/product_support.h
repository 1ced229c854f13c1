#pragma once

#include <ggml.h>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/product_panels.h"

namespace patchbay {

inline ggml_type ggml_type_of(WeightFormat format) {
  switch (format) {
    case WeightFormat::q4_0:
      return GGML_TYPE_Q4_0;
    case WeightFormat::q4_1:
      return GGML_TYPE_Q4_1;
    case WeightFormat::q5_0:
      return GGML_TYPE_Q5_0;
    case WeightFormat::q5_1:
      return GGML_TYPE_Q5_1;
    case WeightFormat::q8_0:
      return GGML_TYPE_Q8_0;
    case WeightFormat::q4_k:
      return GGML_TYPE_Q4_K;
    case WeightFormat::q5_k:
      return GGML_TYPE_Q5_K;
    case WeightFormat::q6_k:
      return GGML_TYPE_Q6_K;
    case WeightFormat::f16:
      return GGML_TYPE_F16;
    case WeightFormat::bf16:
      return GGML_TYPE_BF16;
  }
  return GGML_TYPE_COUNT;
}

template <std::integral Count>
std::vector<float> normal_numbers(Count n, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(static_cast<size_t>(n));
  for (auto &number : numbers) number = normal(random);
  return numbers;
}

/// The tokens of x [n_in, n_tokens] in panels.
inline std::vector<uint8_t> panels_of(InputForm form, const std::vector<float> &x, int64_t n_in) {
  const int64_t n_tokens = static_cast<int64_t>(x.size()) / n_in;
  const int64_t n_bytes = panel_token_bytes(form, n_in);
  std::vector<uint8_t> panels(static_cast<size_t>(n_tokens * n_bytes), 0xAA);
  for (int64_t t = 0; t < n_tokens; ++t) {
    const int64_t first = t / k_product_panel * k_product_panel;
    fill_panel(form, {.x = x.data() + t * n_in,
                      .n_in = n_in,
                      .panel = panels.data() + first * n_bytes,
                      .n_tokens = std::min(k_product_panel, n_tokens - first),
                      .i_token = t - first});
  }
  return panels;
}

}  // namespace patchbay
