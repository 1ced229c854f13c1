#include "tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "base/error.h"
#include "base/utf8.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/detokenizer.h"
#include "tokenizer/end_of_generation.h"

namespace patchbay {

namespace {

constexpr const char *k_model_key = "tokenizer.ggml.model";
constexpr const char *k_pre_key = "tokenizer.ggml.pre";

SpecialTokens read_special_tokens(const GgufFile &file, const Vocab &vocab) {
  const auto read = [&](const char *name) {
    return read_token_id(file, fmt::format("tokenizer.ggml.{}_token_id", name), vocab.n_vocab());
  };
  SpecialTokens special{.bos = read("bos"),
                        .eos = read("eos"),
                        .eot = read("eot"),
                        .eom = read("eom"),
                        .unk = read("unknown"),
                        .pad = read("padding"),
                        .sep = read("seperator"),  // the specification's spelling
                        .mask = read("mask")};
  const auto unknown = std::find(vocab.types.begin(), vocab.types.end(), TokenType::unknown);
  if (!special.unk && unknown != vocab.types.end()) {
    special.unk = static_cast<int32_t>(unknown - vocab.types.begin());
  }
  return special;
}

std::vector<int32_t> collect_end_of_generation(const Vocab &vocab, const SpecialTokens &special) {
  std::vector<int32_t> tokens = find_end_of_generation(vocab);
  for (const auto &token : {special.eos, special.eot, special.eom}) {
    if (token) tokens.push_back(*token);
  }
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  return tokens;
}

PretokenizerSpec require_pretokenizer(const GgufFile &file) {
  // Files older than the key were all split as GPT-2 does.
  const std::string name = file.get_string(k_pre_key).value_or("default");
  const auto spec = find_pretokenizer(name);
  if (!spec) {
    throw LoadError({.path = file.path(),
                     .item = k_pre_key,
                     .problem = "is not known",
                     .wanted = "one of " + known_pretokenizers(),
                     .found = fmt::format("\"{}\"", name)});
  }
  return *spec;
}

bool stands_for_itself(TokenType type) {
  return type == TokenType::control || type == TokenType::unknown ||
         type == TokenType::user_defined;
}

std::string byte_level_piece(const std::string &text, TokenType type) {
  if (stands_for_itself(type) || !is_valid_utf8(text)) return text;
  return spelled_bytes(text).value_or(text);
}

std::string sentencepiece_piece(const std::string &text, TokenType type) {
  if (type == TokenType::control || type == TokenType::unknown) return text;
  if (const auto byte = type == TokenType::byte ? parse_byte_token(text) : std::nullopt) {
    return {static_cast<char>(*byte)};
  }
  std::string piece;
  for (size_t pos = 0; pos < text.size();) {
    if (text.compare(pos, k_blank_mark.size(), k_blank_mark) == 0) {
      piece.push_back(' ');
      pos += k_blank_mark.size();
    } else {
      piece.push_back(text[pos++]);
    }
  }
  return piece;
}

template <class ToPiece>
std::vector<std::string> make_pieces(const Vocab &vocab, const ToPiece &to_piece) {
  std::vector<std::string> pieces;
  pieces.reserve(vocab.texts.size());
  for (size_t i = 0; i < vocab.texts.size(); ++i) {
    pieces.push_back(to_piece(vocab.texts[i], vocab.types[i]));
  }
  return pieces;
}

}  // namespace

std::shared_ptr<const Tokenizer> Tokenizer::load(const GgufFile &file) {
  const auto model = file.get_string(k_model_key);
  if (!model || *model == "none") return nullptr;
  return std::shared_ptr<const Tokenizer>(new Tokenizer(file));
}

Tokenizer::Tokenizer(const GgufFile &file)
    : vocab_(read_vocab(file)), special_(read_special_tokens(file, vocab_)) {
  eog_ = collect_end_of_generation(vocab_, special_);
  const std::string model = file.require_string(k_model_key);
  if (model == "gpt2") {
    read_byte_level(file);
  } else if (model == "llama") {
    read_sentencepiece(file);
  } else {
    throw LoadError({.path = file.path(),
                     .item = k_model_key,
                     .problem = "is not supported",
                     .wanted = "gpt2 or llama",
                     .found = fmt::format("\"{}\"", model)});
  }
  add_bos_ = file.get_bool("tokenizer.ggml.add_bos_token").value_or(add_bos_);
  add_eos_ = file.get_bool("tokenizer.ggml.add_eos_token").value_or(false);
  add_added_tokens();
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, const EncodeOptions &options) const {
  if (text.size() > k_max_text_bytes) throw std::length_error("text is too long to tokenise");
  const std::string valid = repair_utf8(text);
  std::vector<int32_t> tokens;
  if (options.add_special && add_bos_ && special_.bos) tokens.push_back(*special_.bos);
  for (const Fragment &fragment : added_.partition(valid, options.parse_special)) {
    if (fragment.token >= 0) {
      tokens.push_back(fragment.token);
    } else if (const auto *bpe = std::get_if<ByteLevelBpe>(&model_)) {
      bpe->encode(fragment.text, tokens);
    } else {
      std::get<SentencePieceBpe>(model_).encode(fragment.text, tokens);
    }
  }
  if (options.add_special && add_eos_ && special_.eos) tokens.push_back(*special_.eos);
  return tokens;
}

std::string Tokenizer::decode(std::span<const int32_t> tokens, const DecodeOptions &options) const {
  std::string text;
  PieceJoiner joiner(*this, options);
  for (const int32_t token : tokens) joiner.push(token, text);
  joiner.finish(text);
  return text;
}

std::string_view Tokenizer::piece(int32_t token) const {
  return has(token) ? std::string_view(pieces_[static_cast<size_t>(token)]) : std::string_view();
}

bool Tokenizer::adds_space_prefix() const {
  const auto *model = std::get_if<SentencePieceBpe>(&model_);
  return model != nullptr && model->add_space_prefix();
}

bool Tokenizer::is_eog(int32_t token) const {
  return std::binary_search(eog_.begin(), eog_.end(), token);
}

bool Tokenizer::is_control(int32_t token) const {
  return has(token) && (type(token) == TokenType::control || type(token) == TokenType::unknown);
}

// tokenizer.ggml.add_space_prefix is not read here: in files of this kind it repeats an option of
// tokenizer_config.json that has no part in HF's splitting.
void Tokenizer::read_byte_level(const GgufFile &file) {
  const PretokenizerSpec spec = require_pretokenizer(file);
  model_.emplace<ByteLevelBpe>(file, vocab_, spec);
  add_bos_ = spec.add_bos;
  pieces_ = make_pieces(vocab_, byte_level_piece);
}

void Tokenizer::read_sentencepiece(const GgufFile &file) {
  model_.emplace<SentencePieceBpe>(file, vocab_, special_.unk);
  add_bos_ = true;
  pieces_ = make_pieces(vocab_, sentencepiece_piece);
}

void Tokenizer::add_added_tokens() {
  const bool is_sentencepiece = std::holds_alternative<SentencePieceBpe>(model_);
  for (int32_t token = 0; token < n_vocab(); ++token) {
    if (!stands_for_itself(type(token))) continue;
    const std::string &text = vocab_.texts[static_cast<size_t>(token)];
    // Runs of blanks are made by merging, so that they join blank marks that were written out.
    if (is_sentencepiece && sentencepiece_spelling(text, type(token)) != text) continue;
    added_.add(text, token, is_control(token));
  }
}

}  // namespace patchbay
