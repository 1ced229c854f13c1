#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gguf/gguf_file.h"
#include "tokenizer/symbol_merger.h"
#include "tokenizer/vocab.h"

namespace patchbay {

/// U+2581, which SentencePiece vocabularies write for a blank.
inline constexpr std::string_view k_blank_mark = "\xE2\x96\x81";

/// The byte that a token of TokenType::byte such as "<0x0A>" stands for; nullopt when it is spelled
/// otherwise.
[[nodiscard]] std::optional<uint8_t> parse_byte_token(std::string_view text);

/// GGUF writes user-defined runs of blanks with real blanks: "  " for the piece "▁▁". The piece as
/// SentencePiece has it; any other text unchanged.
[[nodiscard]] std::string sentencepiece_spelling(std::string_view text, TokenType type);

/// tokenizer.ggml.model "llama": SentencePiece BPE (github.com/google/sentencepiece,
/// src/bpe_model.cc). Characters are merged by score over the whole text; what no token spells
/// becomes byte tokens. Ties and user-defined pieces go as in HF's conversion to merges. Immutable;
/// any thread.
class SentencePieceBpe {
 public:
  /// Reads scores and options. `vocab` must outlive this. Throws LoadError when scores are missing,
  /// of another length or NaN, when a byte token is misspelled, and for normalisation rules that
  /// are not supported.
  SentencePieceBpe(const GgufFile &file, const Vocab &vocab, std::optional<int32_t> unk);
  // Its index holds views of strings that it owns itself.
  SentencePieceBpe(const SentencePieceBpe &) = delete;
  SentencePieceBpe &operator=(const SentencePieceBpe &) = delete;

  /// Appends the tokens of `text`. REQUIRES: valid UTF-8 of at most k_max_text_bytes.
  void encode(std::string_view text, std::vector<int32_t> &tokens) const;

  /// Whether text begins with a blank of the tokenizer's own.
  [[nodiscard]] bool add_space_prefix() const { return add_space_prefix_; }

 private:
  void index_pieces(const GgufFile &file, const Vocab &vocab);
  void rank_pieces(const Vocab &vocab, const std::vector<float> &scores);
  [[nodiscard]] std::string normalize(std::string_view text) const;
  void encode_word(std::string_view word, SymbolMerger &merger, bool &is_unk_open,
                   std::vector<int32_t> &tokens) const;
  [[nodiscard]] int32_t find_piece(std::string_view text) const;
  void append_unspelled(std::string_view character, bool &is_unk_open,
                        std::vector<int32_t> &tokens) const;

  std::vector<std::string> respelled_;                    // owns the keys that are not vocab texts
  std::unordered_map<std::string_view, int32_t> pieces_;  // what merging may make
  std::vector<int32_t> rank_;                             // [n_vocab], lower is merged sooner
  std::array<int32_t, 256> byte_token_{};                 // -1: none
  // Whether some piece has a blank mark behind another character. If not, words are merged one by
  // one: the same tokens from a heap that stays small.
  bool pieces_span_words_ = false;
  bool add_space_prefix_ = true;
  std::optional<int32_t> unk_;
};

}  // namespace patchbay
