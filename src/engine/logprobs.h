#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "patchbay/request.hpp"

namespace patchbay {

/// Log-probabilities at temperature 1 under logits F32 [n_vocab], in nats; never above 0.
struct Logprobs {
  float chosen = 0;
  std::vector<TokenLogprob> top;  ///< the n best, ties by token id
};

[[nodiscard]] Logprobs logprobs_of(std::span<const float> logits, int32_t chosen, size_t n_top);

}  // namespace patchbay
