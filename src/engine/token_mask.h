#pragma once

#include <cstdint>
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

  /// Bit t % 64 of word t / 64 is token t's; those beyond the vocabulary are 0.
  [[nodiscard]] const std::vector<uint64_t> &words() const { return words_; }
  [[nodiscard]] size_t size_bytes() const { return words_.size() * sizeof(uint64_t); }

 private:
  static size_t word_of(int32_t token) { return static_cast<size_t>(token) / 64; }
  static uint32_t bit_of(int32_t token) { return static_cast<uint32_t>(token) % 64; }

  std::vector<uint64_t> words_;
  uint32_t n_vocab_ = 0;
};

}  // namespace patchbay
