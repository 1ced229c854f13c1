#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "patchbay/request.hpp"

namespace patchbay {

/// Whether the embedding of `n_tokens` tokens is made of token `i`.
[[nodiscard]] bool pooling_reads(Pooling pooling, size_t i, size_t n_tokens);

/// Makes one embedding out of hidden states, which come in order of their tokens.
class Pooler {
 public:
  Pooler(Pooling pooling, size_t n_tokens) : pooling_(pooling), n_tokens_(n_tokens) {}

  /// The hidden state F32 [n_embd] of token `i`, which pooling_reads(). One that was there before
  /// is computed again, after a preemption, and not taken twice.
  void add(size_t i, std::span<const float> hidden);

  /// Nothing more is needed.
  [[nodiscard]] bool is_complete() const;
  /// REQUIRES: is_complete().
  [[nodiscard]] std::vector<float> take();

 private:
  Pooling pooling_;
  size_t n_tokens_;
  size_t next_ = 0;          // the first token that was not there
  std::vector<double> sum_;  // of a mean: hundreds of rows in float would lose digits
  std::vector<float> values_;
};

}  // namespace patchbay
