#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gguf/gguf_file.h"
#include "tokenizer/pretokenizer.h"
#include "tokenizer/symbol_merger.h"
#include "tokenizer/vocab.h"

namespace patchbay {

/// tokenizer.ggml.model "gpt2": text is split by the family's patterns, and within each piece bytes
/// are merged by rank. A byte that no token spells gives nothing, as in HF. Immutable; any thread.
class ByteLevelBpe {
 public:
  /// Reads tokenizer.ggml.merges. Throws LoadError when they are missing, or when a merge is not
  /// two tokens that together spell a third.
  ByteLevelBpe(const GgufFile &file, const Vocab &vocab, const PretokenizerSpec &spec);

  /// Appends the tokens of `text`. REQUIRES: valid UTF-8 of at most k_max_text_bytes.
  void encode(std::string_view text, std::vector<int32_t> &tokens) const;

 private:
  struct RankedToken {
    int32_t rank = 0;
    int32_t token = -1;
  };

  void read_merges(const GgufFile &file, const Vocab &vocab);
  void index_whole_pieces(const Vocab &vocab);
  void encode_piece(std::string_view piece, SymbolMerger &merger,
                    std::vector<int32_t> &tokens) const;

  Pretokenizer pretokenizer_;
  std::array<int32_t, 256> byte_token_{};             // -1: none
  std::unordered_map<uint64_t, RankedToken> merges_;  // key: left token << 32 | right token
  std::unordered_map<std::string, int32_t>
      whole_pieces_;  // bytes -> token; empty unless ignore_merges
};

}  // namespace patchbay
