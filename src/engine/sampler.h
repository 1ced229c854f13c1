#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "base/error.h"
#include "grammar/token_mask.h"
#include "patchbay/sampling.hpp"

namespace patchbay {

/// invalid_argument, naming the parameter, when one is not finite or out of its range.
[[nodiscard]] Expected<void> check_sampling(const SamplingParams &params, int32_t n_vocab);

/// Draws the tokens of one sequence. The same seed and logits give the same tokens on every
/// machine. One thread at a time.
class Sampler {
 public:
  /// REQUIRES: check_sampling(params, ...) has passed.
  explicit Sampler(SamplingParams params);

  /// Tells the sampler of a token of the sequence: the prompt's, then each one drawn.
  void accept(int32_t token);

  /// One token from F32 [n_vocab]. Entries that are not finite are never drawn unless nothing else
  /// is left.
  [[nodiscard]] int32_t sample(std::span<const float> logits);
  /// One that is allowed, as if the others had no logits; none when no entry that is left is
  /// finite.
  [[nodiscard]] std::optional<int32_t> sample(std::span<const float> logits,
                                              const TokenMask &allowed);

 private:
  struct Candidate {
    int32_t token = 0;
    float logit = 0;
  };

  [[nodiscard]] bool changes_logits() const;
  void apply_bias_and_penalties(std::span<float> logits) const;
  /// From adjusted_, before bias and penalties.
  [[nodiscard]] std::optional<int32_t> sample_adjusted();
  /// `most` is the largest logit of the candidates.
  [[nodiscard]] int32_t draw(std::vector<Candidate> candidates, float most);
  /// Applies top_k, top_p and min_p. What stays is sorted when something was cut.
  void cut_tail(std::vector<Candidate> &candidates, float most) const;

  SamplingParams params_;
  std::mt19937_64 random_;
  std::vector<int32_t> history_;
  std::vector<float> adjusted_;  // scratch
};

}  // namespace patchbay
