#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/utf8.h"
#include "tokenizer/tokenizer.h"

namespace patchbay {

/// Joins the pieces of tokens to valid UTF-8. One thread at a time; `tokenizer` must outlive it.
class PieceJoiner {
 public:
  PieceJoiner(const Tokenizer &tokenizer, const DecodeOptions &options)
      : tokenizer_(tokenizer), options_(options) {}

  /// Appends to `out` the text that `token` completes.
  void push(int32_t token, std::string &out);
  /// Appends U+FFFD for a character that was begun and not completed.
  void finish(std::string &out) { repair_.finish(out); }

 private:
  const Tokenizer &tokenizer_;
  DecodeOptions options_;
  Utf8Repair repair_;
  bool is_at_start_ = true;
};

/// Text from tokens as they are generated: what comes out is whole characters, and all outputs
/// joined equal Tokenizer::decode of all tokens with the same options. One thread at a time.
class Detokenizer {
 public:
  /// Generated text goes on where the prompt ended, so by default no blank is dropped at its start.
  explicit Detokenizer(std::shared_ptr<const Tokenizer> tokenizer,
                       const DecodeOptions &options = {.drop_space_prefix = false})
      : tokenizer_(std::move(tokenizer)), joiner_(*tokenizer_, options) {}

  /// The text that `token` completes; empty while a character is unfinished and for control tokens.
  [[nodiscard]] std::string push(int32_t token);
  /// What is left at the end: U+FFFD if the last character is unfinished. Push nothing afterwards.
  [[nodiscard]] std::string finish();

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  PieceJoiner joiner_;
};

}  // namespace patchbay
