#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace patchbay {

/// How far a running sequence is.
struct SeqProgress {
  uint32_t n_tokens = 0;    ///< known: prompt and drawn
  uint32_t n_computed = 0;  ///< of these in the cache; less than n_tokens
};

struct StepLimits {
  uint32_t n_ubatch = 256;          ///< tokens of a step
  uint32_t n_prefill_beside = 128;  ///< of these, tokens of prompts while others decode
};

/// How many tokens of each sequence the next step computes. `sequences` in the order in which they
/// are served. One that lacks a single token decodes and goes first; what is left of the step goes
/// to prompts, one after the other.
[[nodiscard]] std::vector<uint32_t> schedule_step(std::span<const SeqProgress> sequences,
                                                  const StepLimits &limits);

}  // namespace patchbay
