#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "../base/temp_dir.h"
#include "../gguf/gguf_builder.h"
#include "golden_support.h"

namespace patchbay {

/// A small vocabulary and what a test changes in it.
struct TinyVocab {
  std::string model;
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::vector<float> scores;        ///< SentencePiece; none: the key is left out
  std::vector<std::string> merges;  ///< byte-level; none: the key is left out

  void add(const std::string &text, int32_t type = 1, float score = 0) {
    tokens.push_back(text);
    types.push_back(type);
    scores.push_back(score);
  }

  /// The metadata, to be extended by the test.
  [[nodiscard]] GgufBuilder builder() const {
    GgufBuilder builder;
    builder.set("general.architecture", "llama").set("tokenizer.ggml.model", model.c_str());
    if (!tokens.empty()) builder.set_array("tokenizer.ggml.tokens", tokens);
    if (!types.empty()) builder.set_array("tokenizer.ggml.token_type", types);
    if (!scores.empty()) builder.set_array("tokenizer.ggml.scores", scores);
    if (!merges.empty()) builder.set_array("tokenizer.ggml.merges", merges);
    return builder;
  }
};

inline std::shared_ptr<const Tokenizer> load_built(const GgufBuilder &builder) {
  const TempDir dir;
  builder.save(dir.path() / "model.gguf");
  return load_tokenizer(dir.path() / "model.gguf");
}

/// 0 <unk> 1 <s> 2 </s>, 3..258 the bytes, then a few pieces.
inline TinyVocab tiny_sentencepiece() {
  TinyVocab vocab{.model = "llama", .tokens = {}, .types = {}, .scores = {}, .merges = {}};
  vocab.add("<unk>", 2);
  vocab.add("<s>", 3);
  vocab.add("</s>", 3);
  for (int byte = 0; byte < 256; ++byte) vocab.add(fmt::format("<0x{:02X}>", byte), 6);
  vocab.add("▁", 1, -10);   // 259
  vocab.add("a", 1, -11);   // 260
  vocab.add("b", 1, -12);   // 261
  vocab.add("ab", 1, -3);   // 262
  vocab.add("▁a", 1, -2);   // 263
  vocab.add("aa", 1, -4);   // 264
  vocab.add("aaa", 1, -5);  // 265
  vocab.add("<x>", 4);      // 266
  vocab.add("  ", 4);       // 267
  return vocab;
}

/// 0 <|end|> control, 1 <tool> user-defined, then letters and merges.
inline TinyVocab tiny_byte_level() {
  TinyVocab vocab{.model = "gpt2", .tokens = {}, .types = {}, .scores = {}, .merges = {}};
  vocab.add("<|end|>", 3);
  vocab.add("<tool>", 4);
  for (const char *text : {"a", "b", "c", "Ġ", "Ã", "©"}) vocab.add(text);   // 2..7
  for (const char *text : {"ab", "bc", "abc", "Ġa", "Ã©"}) vocab.add(text);  // 8..12
  vocab.scores.clear();
  vocab.merges = {"b c", "a b", "Ġ a", "Ã ©"};
  return vocab;
}

}  // namespace patchbay
