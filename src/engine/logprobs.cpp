#include "engine/logprobs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace patchbay {

Logprobs logprobs_of(std::span<const float> logits, int32_t chosen, size_t n_top) {
  const double most = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - most);
  const double log_sum = most + std::log(sum);
  const auto logprob = [&](int32_t token) {
    return static_cast<float>(std::min(0.0, logits[static_cast<size_t>(token)] - log_sum));
  };

  Logprobs result{.chosen = logprob(chosen), .top = {}};
  std::vector<int32_t> tokens(n_top == 0 ? 0 : logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  n_top = std::min(n_top, tokens.size());
  std::ranges::partial_sort(tokens, tokens.begin() + static_cast<ptrdiff_t>(n_top),
                            [&](int32_t a, int32_t b) {
                              const float of_a = logits[static_cast<size_t>(a)];
                              const float of_b = logits[static_cast<size_t>(b)];
                              return of_a != of_b ? of_a > of_b : a < b;
                            });
  for (size_t i = 0; i < n_top; ++i) result.top.push_back({tokens[i], logprob(tokens[i])});
  return result;
}

}  // namespace patchbay
