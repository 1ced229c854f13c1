#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/sha256.h"

namespace patchbay {

/// From token `first` on, tokens wear the adapter set of this digest; all zeros: the base alone.
struct WornFrom {
  uint32_t first = 0;
  Sha256Digest digest{};

  bool operator==(const WornFrom &) const = default;
};

/// Tokens that somebody else keeps, and what they wear, rising from 0 on.
struct ContentView {
  std::span<const int32_t> tokens;
  std::span<const WornFrom> worn;  ///< none: the base alone
};

/// How many tokens at the beginning of both are the same and wear the same.
[[nodiscard]] uint32_t n_common(const ContentView &one, const ContentView &other);

/// What the keys and values of a run of tokens depend on, beside the tokens before them. A plain
/// value; equal contents compare equal.
class PrefixContent {
 public:
  [[nodiscard]] const std::vector<int32_t> &tokens() const { return tokens_; }
  /// Rising from 0 on, neighbours differ; empty when there are no tokens.
  [[nodiscard]] const std::vector<WornFrom> &worn() const { return worn_; }
  [[nodiscard]] uint32_t n_tokens() const { return static_cast<uint32_t>(tokens_.size()); }

  PrefixContent() = default;
  explicit PrefixContent(const ContentView &view);

  operator ContentView() const { return {tokens_, worn_}; }  // NOLINT(*-explicit-*)

  void push_back(int32_t token, const Sha256Digest &worn);
  void append(const PrefixContent &more);
  /// REQUIRES: it has tokens up to `first` + `n_tokens`.
  [[nodiscard]] PrefixContent slice(uint32_t first, uint32_t n_tokens) const;

  [[nodiscard]] uint64_t hash(uint64_t seed) const;

  bool operator==(const PrefixContent &) const = default;

 private:
  std::vector<int32_t> tokens_;
  std::vector<WornFrom> worn_;
};

}  // namespace patchbay
