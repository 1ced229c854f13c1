#include "tokenizer/vocab.h"

#include <fmt/format.h>

#include <limits>

#include "base/error.h"

namespace patchbay {

namespace {

constexpr const char *k_tokens_key = "tokenizer.ggml.tokens";
constexpr const char *k_types_key = "tokenizer.ggml.token_type";

std::vector<std::string> read_texts(const GgufFile &file) {
  const auto views = file.get_strings(k_tokens_key);
  if (!views || views->empty()) {
    throw LoadError(
        {.path = file.path(), .item = k_tokens_key, .problem = views ? "is empty" : "is missing"});
  }
  if (views->size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    throw LoadError({.path = file.path(),
                     .item = k_tokens_key,
                     .problem = "has too many tokens",
                     .wanted = "at most 2147483647",
                     .found = fmt::format("{}", views->size())});
  }
  return {views->begin(), views->end()};
}

TokenType to_token_type(const GgufFile &file, int64_t value, size_t token) {
  if (value < 0 || value > static_cast<int64_t>(TokenType::byte)) {
    throw LoadError({.path = file.path(),
                     .item = k_types_key,
                     .problem = fmt::format("has an unknown type for token {}", token),
                     .wanted = "0 to 6",
                     .found = fmt::format("{}", value)});
  }
  return static_cast<TokenType>(value);
}

std::vector<TokenType> read_types(const GgufFile &file, size_t n_vocab) {
  const auto values = file.get_ints(k_types_key);
  if (!values) return std::vector<TokenType>(n_vocab, TokenType::normal);
  if (values->size() != n_vocab) {
    throw LoadError({.path = file.path(),
                     .item = k_types_key,
                     .problem = "has another length than tokenizer.ggml.tokens",
                     .wanted = fmt::format("{}", n_vocab),
                     .found = fmt::format("{}", values->size())});
  }
  std::vector<TokenType> types;
  types.reserve(n_vocab);
  for (const int64_t value : *values) types.push_back(to_token_type(file, value, types.size()));
  return types;
}

}  // namespace

std::optional<int32_t> Vocab::find(std::string_view text) const {
  const auto found = i_token.find(text);
  if (found == i_token.end()) return std::nullopt;
  return found->second;
}

Vocab read_vocab(const GgufFile &file) {
  Vocab vocab;
  vocab.texts = read_texts(file);
  vocab.types = read_types(file, vocab.texts.size());
  vocab.i_token.reserve(vocab.texts.size());
  for (size_t token = 0; token < vocab.texts.size(); ++token) {
    vocab.i_token.insert_or_assign(vocab.texts[token], static_cast<int32_t>(token));
  }
  return vocab;
}

std::optional<int32_t> read_token_id(const GgufFile &file, std::string_view key, int32_t n_vocab) {
  const std::optional<int64_t> value = file.get_i64(key);
  if (!value) return std::nullopt;
  if (*value < 0 || *value >= n_vocab) {
    throw LoadError({.path = file.path(),
                     .item = std::string(key),
                     .problem = "is outside the vocabulary",
                     .wanted = fmt::format("0 to {}", n_vocab - 1),
                     .found = fmt::format("{}", *value)});
  }
  return static_cast<int32_t>(*value);
}

}  // namespace patchbay
