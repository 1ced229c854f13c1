#include "tokenizer/sentencepiece_bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/utf8.h"

namespace patchbay {

namespace {

constexpr const char *k_scores_key = "tokenizer.ggml.scores";

std::vector<float> read_scores(const GgufFile &file, const Vocab &vocab) {
  auto scores = file.get_floats(k_scores_key);
  if (!scores) {
    throw LoadError({.path = file.path(), .item = k_scores_key, .problem = "is missing"});
  }
  if (scores->size() != vocab.texts.size()) {
    throw LoadError({.path = file.path(),
                     .item = k_scores_key,
                     .problem = "has another length than tokenizer.ggml.tokens",
                     .wanted = fmt::format("{}", vocab.texts.size()),
                     .found = fmt::format("{}", scores->size())});
  }
  const auto nan =
      std::find_if(scores->begin(), scores->end(), [](float s) { return std::isnan(s); });
  if (nan != scores->end()) {
    throw LoadError({.path = file.path(),
                     .item = fmt::format("{}[{}]", k_scores_key, nan - scores->begin()),
                     .problem = "is not a number"});
  }
  return std::move(*scores);
}

void refuse_unsupported_normalisation(const GgufFile &file) {
  constexpr const char *k_charsmap_key = "tokenizer.ggml.precompiled_charsmap";
  constexpr const char *k_whitespace_key = "tokenizer.ggml.remove_extra_whitespaces";
  const GgufEntry *charsmap = file.find_entry(k_charsmap_key);
  if (charsmap != nullptr && !charsmap->bytes.empty()) {
    throw LoadError({.path = file.path(), .item = k_charsmap_key, .problem = "is not supported"});
  }
  if (file.get_bool(k_whitespace_key).value_or(false)) {
    throw LoadError({.path = file.path(),
                     .item = k_whitespace_key,
                     .problem = "is not supported",
                     .wanted = "false",
                     .found = "true"});
  }
}

bool is_mergeable(TokenType type) {
  return type == TokenType::normal || type == TokenType::user_defined ||
         type == TokenType::unused || type == TokenType::undefined;
}

// Up to the first blank mark after something else. `text` is not empty.
size_t first_word_size(std::string_view text) {
  size_t begin = 0;
  while (text.substr(begin).starts_with(k_blank_mark)) begin += k_blank_mark.size();
  return std::min(text.find(k_blank_mark, begin), text.size());
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::optional<uint8_t> parse_byte_token(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text.back() != '>') return std::nullopt;
  const int high = hex_digit(text[3]);
  const int low = hex_digit(text[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<uint8_t>(high * 16 + low);
}

std::string sentencepiece_spelling(std::string_view text, TokenType type) {
  const bool is_blanks = text.size() > 1 && text.find_first_not_of(' ') == std::string_view::npos;
  if (type != TokenType::user_defined || !is_blanks) return std::string(text);
  std::string marks;
  for (size_t i = 0; i < text.size(); ++i) marks += k_blank_mark;
  return marks;
}

SentencePieceBpe::SentencePieceBpe(const GgufFile &file, const Vocab &vocab,
                                   std::optional<int32_t> unk)
    : unk_(unk) {
  refuse_unsupported_normalisation(file);
  add_space_prefix_ = file.get_bool("tokenizer.ggml.add_space_prefix").value_or(true);
  const std::vector<float> scores = read_scores(file, vocab);
  index_pieces(file, vocab);
  rank_pieces(vocab, scores);
}

void SentencePieceBpe::encode(std::string_view text, std::vector<int32_t> &tokens) const {
  const std::string normal = normalize(text);
  SymbolMerger merger;
  bool is_unk_open = false;
  for (std::string_view rest = normal; !rest.empty();) {
    const size_t n_bytes = pieces_span_words_ ? rest.size() : first_word_size(rest);
    encode_word(rest.substr(0, n_bytes), merger, is_unk_open, tokens);
    rest.remove_prefix(n_bytes);
  }
}

void SentencePieceBpe::encode_word(std::string_view word, SymbolMerger &merger, bool &is_unk_open,
                                   std::vector<int32_t> &tokens) const {
  merger.clear();
  for (size_t pos = 0; pos < word.size();) {
    const std::string_view character = word.substr(pos, utf8_size_at(word, pos));
    merger.add(static_cast<uint32_t>(pos), static_cast<uint32_t>(character.size()), 1,
               find_piece(character));
    pos += character.size();
  }
  merger.merge([&](const Symbol &left, const Symbol &right) -> std::optional<Merge> {
    if (left.token < 0 || right.token < 0) return std::nullopt;
    const int32_t token = find_piece(word.substr(left.begin, left.size_bytes + right.size_bytes));
    if (token < 0) return std::nullopt;
    // HF sorts the merges of one piece by their left part, longest first.
    const uint64_t tie = ~(static_cast<uint64_t>(left.n_chars) << 32 | right.n_chars);
    return Merge{.rank = rank_[static_cast<size_t>(token)], .tie = tie, .token = token};
  });
  merger.for_each([&](const Symbol &symbol) {
    if (symbol.token < 0) {
      append_unspelled(word.substr(symbol.begin, symbol.size_bytes), is_unk_open, tokens);
    } else {
      tokens.push_back(symbol.token);
      is_unk_open = false;
    }
  });
}

void SentencePieceBpe::index_pieces(const GgufFile &file, const Vocab &vocab) {
  byte_token_.fill(-1);
  pieces_.reserve(vocab.texts.size());
  respelled_.reserve(vocab.texts.size());  // views into it must stay
  for (int32_t token = 0; token < vocab.n_vocab(); ++token) {
    const std::string &text = vocab.texts[static_cast<size_t>(token)];
    const TokenType type = vocab.type(token);
    if (type == TokenType::byte) {
      const std::optional<uint8_t> byte = parse_byte_token(text);
      if (!byte) {
        throw LoadError({.path = file.path(),
                         .item = fmt::format("tokenizer.ggml.tokens[{}]", token),
                         .problem = "is no byte token",
                         .wanted = "<0x00> to <0xFF>",
                         .found = fmt::format("\"{}\"", text)});
      }
      byte_token_[*byte] = token;
    } else if (is_mergeable(type)) {
      std::string spelling = sentencepiece_spelling(text, type);
      if (!text.empty() && first_word_size(spelling) < spelling.size()) pieces_span_words_ = true;
      if (spelling == text) {
        pieces_.insert_or_assign(text, token);
      } else {
        pieces_.insert_or_assign(respelled_.emplace_back(std::move(spelling)), token);
      }
    }
  }
}

// SentencePiece keeps user-defined pieces whole, so they come before all others; HF ranks them by
// their order in the vocabulary, whatever their scores.
void SentencePieceBpe::rank_pieces(const Vocab &vocab, const std::vector<float> &scores) {
  const auto key = [&](int32_t token) {
    const bool is_user_defined = vocab.type(token) == TokenType::user_defined;
    const double order =
        is_user_defined ? static_cast<double>(token) : -double{scores[static_cast<size_t>(token)]};
    return std::pair(!is_user_defined, order);
  };
  std::vector<int32_t> order(vocab.texts.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return key(a) < key(b); });
  rank_.resize(order.size());
  int32_t rank = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && key(order[i - 1]) < key(order[i])) ++rank;
    rank_[static_cast<size_t>(order[i])] = rank;
  }
}

std::string SentencePieceBpe::normalize(std::string_view text) const {
  std::string normal;
  normal.reserve(text.size() + k_blank_mark.size());
  if (add_space_prefix_ && !text.empty()) normal += k_blank_mark;
  for (const char c : text) {
    if (c == ' ') {
      normal += k_blank_mark;
    } else {
      normal.push_back(c);
    }
  }
  return normal;
}

int32_t SentencePieceBpe::find_piece(std::string_view text) const {
  const auto found = pieces_.find(text);
  return found == pieces_.end() ? -1 : found->second;
}

// Neighbouring characters without bytes are one unknown token (HF: fuse_unk).
void SentencePieceBpe::append_unspelled(std::string_view character, bool &is_unk_open,
                                        std::vector<int32_t> &tokens) const {
  const auto byte_token = [&](char c) { return byte_token_[static_cast<uint8_t>(c)]; };
  const bool has_bytes =
      std::all_of(character.begin(), character.end(), [&](char c) { return byte_token(c) >= 0; });
  if (has_bytes) {
    for (const char c : character) tokens.push_back(byte_token(c));
    is_unk_open = false;
  } else if (unk_ && !is_unk_open) {
    tokens.push_back(*unk_);
    is_unk_open = true;
  }
}

}  // namespace patchbay
