#pragma once

#include <string_view>
#include <vector>

#include "tokenizer/pretokenizer_patterns.h"

namespace patchbay {

/// Splits text into the pieces that BPE merges within, by the compiled patterns of a spec.
/// Immutable; any thread.
class Pretokenizer {
 public:
  /// REQUIRES: patterns that compile; they are data of this program, so a bad one is a
  /// std::logic_error.
  explicit Pretokenizer(const PretokenizerSpec &spec);
  Pretokenizer(Pretokenizer &&) noexcept;
  Pretokenizer &operator=(Pretokenizer &&) noexcept;
  ~Pretokenizer();

  /// The pieces of `text`, none empty, views into it that joined are `text`. REQUIRES: valid UTF-8.
  [[nodiscard]] std::vector<std::string_view> split(std::string_view text) const;

 private:
  class Regex;
  std::vector<Regex> steps_;
};

}  // namespace patchbay
