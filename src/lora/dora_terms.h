#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <vector>

#include "lora/adapter.h"
#include "model/base_tensors.h"

namespace patchbay {

/// What brings a row of squared length `length2` to the length `magnitude`. A row that a change
/// takes away has no direction; whatever multiplies it, it stays zero.
[[nodiscard]] inline float dora_gain(float magnitude, float length2) {
  constexpr float k_least = 1e-30F;
  return magnitude / std::sqrt(std::max(length2, k_least));
}

/// What DoRA (arXiv 2402.09353) multiplies the rows of a changed weight W + t s B A by, at any
/// strength t, so that each gets the length that the adapter states. One number per row, of all
/// experts one after another; of a look-up table one per embedding dimension, over its rows.
struct DoraTerms {
  std::vector<float> magnitude;
  std::vector<float> base;   ///< |W_i|^2
  std::vector<float> cross;  ///< 2 s W_i . (B_i A)
  std::vector<float> delta;  ///< s^2 |B_i A|^2

  [[nodiscard]] float gain(size_t i, float strength) const {
    return dora_gain(magnitude[i], base[i] + strength * (cross[i] + strength * delta[i]));
  }
  [[nodiscard]] size_t size_bytes() const { return 4 * magnitude.size() * sizeof(float); }
};

/// The terms of a pair with a magnitude over the base weight `weight`, from its dequantised
/// numbers, on all cores. An expert whose magnitudes are all 0 has no pair in the adapter: it keeps
/// its lengths. The same bits every time.
[[nodiscard]] std::shared_ptr<const DoraTerms> make_dora_terms(const FactorPair &pair,
                                                               const BaseTensors &base,
                                                               const GgufTensor &weight);

}  // namespace patchbay
