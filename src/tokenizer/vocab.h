#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gguf/gguf_file.h"

namespace patchbay {

/// Values of tokenizer.ggml.token_type (GGUF specification).
enum class TokenType : uint8_t {
  undefined = 0,
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6,
};

/// The tokens of a model as its file spells them. The strings are owned, so the file may be closed.
struct Vocab {
  Vocab() = default;
  Vocab(Vocab &&) = default;
  Vocab &operator=(Vocab &&) = default;
  Vocab(const Vocab &) = delete;  // i_token views into texts
  Vocab &operator=(const Vocab &) = delete;

  [[nodiscard]] int32_t n_vocab() const { return static_cast<int32_t>(texts.size()); }
  [[nodiscard]] std::optional<int32_t> find(std::string_view text) const;
  [[nodiscard]] TokenType type(int32_t token) const { return types[static_cast<size_t>(token)]; }

  std::vector<std::string> texts;                         // [n_vocab]
  std::vector<TokenType> types;                           // [n_vocab]
  std::unordered_map<std::string_view, int32_t> i_token;  // of equal texts the last, as in HF
};

/// Reads tokenizer.ggml.tokens and .token_type (absent: all normal). Throws LoadError when there
/// are no tokens, when the types have another length, or when a type is not one of TokenType.
[[nodiscard]] Vocab read_vocab(const GgufFile &file);

/// The token id under `key`, e.g. "tokenizer.ggml.bos_token_id"; nullopt when absent. Throws
/// LoadError when it is not below n_vocab.
[[nodiscard]] std::optional<int32_t> read_token_id(const GgufFile &file, std::string_view key,
                                                   int32_t n_vocab);

}  // namespace patchbay
