#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace patchbay {

/// Which tokens of a vocabulary may come next, one bit each.
class TokenMask {
 public:
  explicit TokenMask(uint32_t n_vocab = 0) : words_((n_vocab + 63) / 64), n_vocab_(n_vocab) {}

  [[nodiscard]] uint32_t n_vocab() const { return n_vocab_; }
  [[nodiscard]] bool allows(int32_t token) const {
    return (words_[word_of(token)] >> bit_of(token) & 1U) != 0;
  }
  void allow(int32_t token) { words_[word_of(token)] |= uint64_t{1} << bit_of(token); }
  void forbid(int32_t token) { words_[word_of(token)] &= ~(uint64_t{1} << bit_of(token)); }

  /// Makes the logits F32 [n_vocab] of all others -inf. What is not finite
  /// becomes or stays so.
  void leave_out(std::span<float> logits) const;
  [[nodiscard]] size_t size_bytes() const { return words_.size() * sizeof(uint64_t); }

 private:
  static size_t word_of(int32_t token) { return static_cast<size_t>(token) / 64; }
  static uint32_t bit_of(int32_t token) { return static_cast<uint32_t>(token) % 64; }

  std::vector<uint64_t> words_;
  uint32_t n_vocab_ = 0;
};

}  // namespace patchbay
