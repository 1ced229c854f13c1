#include "tokenizer/byte_level_bpe.h"

#include <fmt/format.h>

#include <limits>

#include "base/error.h"
#include "tokenizer/byte_alphabet.h"

namespace patchbay {

namespace {

constexpr const char *k_merges_key = "tokenizer.ggml.merges";

uint64_t pair_key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

std::array<int32_t, 256> find_byte_tokens(const Vocab &vocab) {
  std::array<int32_t, 256> tokens{};
  for (size_t byte = 0; byte < tokens.size(); ++byte) {
    tokens[byte] = vocab.find(byte_spelling(static_cast<uint8_t>(byte))).value_or(-1);
  }
  return tokens;
}

struct MergeTokens {
  int32_t left = -1;
  int32_t right = -1;
  int32_t merged = -1;
};

[[noreturn]] void refuse_merge(const GgufFile &file, std::string_view merge, size_t rank,
                               std::string problem) {
  throw LoadError({.path = file.path(),
                   .item = fmt::format("{}[{}]", k_merges_key, rank),
                   .problem = std::move(problem),
                   .found = fmt::format("\"{}\"", merge)});
}

MergeTokens parse_merge(const GgufFile &file, const Vocab &vocab, std::string_view merge,
                        size_t rank) {
  const size_t blank = merge.find(' ');
  if (blank == std::string_view::npos || merge.find(' ', blank + 1) != std::string_view::npos) {
    refuse_merge(file, merge, rank, "is not two parts with a blank between");
  }
  const std::string_view left = merge.substr(0, blank);
  const std::string_view right = merge.substr(blank + 1);
  const auto i_left = vocab.find(left);
  const auto i_right = vocab.find(right);
  if (left.empty() || right.empty() || !i_left || !i_right) {
    refuse_merge(file, merge, rank, "has a part that is not in the vocabulary");
  }
  const auto i_merged = vocab.find(std::string(left).append(right));
  if (!i_merged) refuse_merge(file, merge, rank, "makes a token that is not in the vocabulary");
  return {*i_left, *i_right, *i_merged};
}

}  // namespace

ByteLevelBpe::ByteLevelBpe(const GgufFile &file, const Vocab &vocab, const PretokenizerSpec &spec)
    : pretokenizer_(spec), byte_token_(find_byte_tokens(vocab)) {
  read_merges(file, vocab);
  if (spec.ignore_merges) index_whole_pieces(vocab);
}

void ByteLevelBpe::encode(std::string_view text, std::vector<int32_t> &tokens) const {
  SymbolMerger merger;
  for (const std::string_view piece : pretokenizer_.split(text)) {
    encode_piece(piece, merger, tokens);
  }
}

void ByteLevelBpe::read_merges(const GgufFile &file, const Vocab &vocab) {
  const auto merges = file.get_strings(k_merges_key);
  if (!merges) {
    throw LoadError({.path = file.path(), .item = k_merges_key, .problem = "is missing"});
  }
  if (merges->size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    throw LoadError({.path = file.path(), .item = k_merges_key, .problem = "has too many entries"});
  }
  merges_.reserve(merges->size());
  for (size_t rank = 0; rank < merges->size(); ++rank) {
    const MergeTokens merge = parse_merge(file, vocab, (*merges)[rank], rank);
    // Of equal merges the last counts, as in HF.
    merges_.insert_or_assign(pair_key(merge.left, merge.right),
                             RankedToken{static_cast<int32_t>(rank), merge.merged});
  }
}

void ByteLevelBpe::index_whole_pieces(const Vocab &vocab) {
  whole_pieces_.reserve(vocab.texts.size());
  for (int32_t token = 0; token < vocab.n_vocab(); ++token) {
    if (vocab.type(token) != TokenType::normal) continue;
    auto bytes = spelled_bytes(vocab.texts[static_cast<size_t>(token)]);
    if (bytes) whole_pieces_.insert_or_assign(std::move(*bytes), token);
  }
}

void ByteLevelBpe::encode_piece(std::string_view piece, SymbolMerger &merger,
                                std::vector<int32_t> &tokens) const {
  if (!whole_pieces_.empty()) {
    const auto whole = whole_pieces_.find(std::string(piece));
    if (whole != whole_pieces_.end()) {
      tokens.push_back(whole->second);
      return;
    }
  }
  merger.clear();
  for (size_t i = 0; i < piece.size(); ++i) {
    const int32_t token = byte_token_[static_cast<uint8_t>(piece[i])];
    if (token >= 0) merger.add(static_cast<uint32_t>(i), 1, 1, token);
  }
  merger.merge([&](const Symbol &left, const Symbol &right) -> std::optional<Merge> {
    const auto found = merges_.find(pair_key(left.token, right.token));
    if (found == merges_.end()) return std::nullopt;
    return Merge{.rank = found->second.rank, .tie = 0, .token = found->second.token};
  });
  merger.for_each([&](const Symbol &symbol) { tokens.push_back(symbol.token); });
}

}  // namespace patchbay
