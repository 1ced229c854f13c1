#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace patchbay {

/// How a token is drawn from the logits. Applied in this order: logit bias, penalties, then greedy
/// at temperature 0, else top-k, top-p, min-p on the distribution at temperature 1, and last the
/// temperature.
struct SamplingParams {
  float temperature = 0.8F;  ///< 0 is greedy: the smallest id among the best logits
  int32_t top_k = 40;        ///< 0: all
  float top_p = 0.95F;       ///< nucleus (arXiv 1904.09751); 1: all
  float min_p = 0.05F;       ///< relative to the best (arXiv 2407.01082); 0: all

  /// Over the last n_penalty_last tokens, prompt included (-1: all, 0: none): logits of tokens that
  /// occurred are divided (positive) or multiplied (negative) by repeat_penalty (arXiv 1909.05858),
  /// then lowered by presence_penalty once and by frequency_penalty for each occurrence.
  int32_t n_penalty_last = 64;
  float repeat_penalty = 1;
  float presence_penalty = 0;
  float frequency_penalty = 0;

  std::vector<std::pair<int32_t, float>>
      logit_bias{};  ///< token id and what is added; -inf forbids
  uint64_t seed = 0;
};

}  // namespace patchbay
