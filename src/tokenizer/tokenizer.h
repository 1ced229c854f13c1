#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "gguf/gguf_file.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/byte_level_bpe.h"
#include "tokenizer/sentencepiece_bpe.h"
#include "tokenizer/vocab.h"

namespace patchbay {

/// Longer texts are refused by encode: merging one long word takes about 60 bytes per byte of it.
inline constexpr size_t k_max_text_bytes = size_t{1} << 26;

struct EncodeOptions {
  bool add_special = true;    ///< put BOS before and EOS behind, where the model asks for them
  bool parse_special = true;  ///< control tokens written out in the text become those tokens
};

struct DecodeOptions {
  /// Write control and unknown tokens too, as they are spelled.
  bool show_control = false;
  std::vector<int32_t> shown{};  ///< the same for these alone
  /// Leave out the blank that encode put before the text; off for text that goes on.
  bool drop_space_prefix = true;
};

/// Tokens with a meaning of their own; nullopt where the file names none.
struct SpecialTokens {
  std::optional<int32_t> bos;
  std::optional<int32_t> eos;
  std::optional<int32_t> eot;  ///< end of a turn
  std::optional<int32_t> eom;  ///< end of a message, with a tool's answer to follow
  std::optional<int32_t> unk;
  std::optional<int32_t> pad;
  std::optional<int32_t> sep;
  std::optional<int32_t> mask;
};

/// Text to tokens and back, for the vocabulary of one model. Token ids equal those of Hugging
/// Face's tokenizers, apart from Unicode normalisation (NFC), which is left to the caller.
/// Immutable; any thread.
class Tokenizer {
 public:
  /// The tokenizer of a model file, or nullptr when the file has none (no tokenizer.ggml.model, or
  /// "none"): such a model takes and gives token ids only. Throws LoadError for a kind that is not
  /// supported and for damaged vocabularies.
  [[nodiscard]] static std::shared_ptr<const Tokenizer> load(const GgufFile &file);

  Tokenizer(const Tokenizer &) = delete;
  Tokenizer &operator=(const Tokenizer &) = delete;

  /// The tokens of `text`. Ill-formed UTF-8 counts as U+FFFD, see Utf8Repair. BOS is added once,
  /// whether or not the text spells one as well. Throws std::length_error above k_max_text_bytes.
  [[nodiscard]] std::vector<int32_t> encode(std::string_view text,
                                            const EncodeOptions &options = {}) const;

  /// The text of `tokens`, always valid UTF-8. Ids outside the vocabulary give nothing.
  [[nodiscard]] std::string decode(std::span<const int32_t> tokens,
                                   const DecodeOptions &options = {}) const;

  /// The bytes a token stands for, maybe a part of a character; a control token as it is spelled.
  /// Empty for an id outside the vocabulary. Valid as long as the tokenizer.
  [[nodiscard]] std::string_view piece(int32_t token) const;

  [[nodiscard]] int32_t n_vocab() const { return vocab_.n_vocab(); }
  [[nodiscard]] bool has(int32_t token) const { return token >= 0 && token < n_vocab(); }
  [[nodiscard]] const SpecialTokens &special() const { return special_; }
  [[nodiscard]] bool adds_bos() const { return add_bos_ && special_.bos.has_value(); }
  [[nodiscard]] bool adds_eos() const { return add_eos_ && special_.eos.has_value(); }
  /// Whether encode begins text with a blank of its own, which decode then drops.
  [[nodiscard]] bool adds_space_prefix() const;

  /// Whether generation ends with `token`: EOS, EOT, EOM, and what chat models use for them, such
  /// as <|im_end|>.
  [[nodiscard]] bool is_eog(int32_t token) const;
  [[nodiscard]] std::span<const int32_t> eog_tokens() const { return eog_; }
  /// Whether `token` stands for no text: type control or unknown.
  [[nodiscard]] bool is_control(int32_t token) const;
  /// REQUIRES: has(token).
  [[nodiscard]] TokenType type(int32_t token) const { return vocab_.type(token); }
  /// The token spelled exactly so in the file, e.g. "<|im_end|>".
  [[nodiscard]] std::optional<int32_t> find(std::string_view text) const {
    return vocab_.find(text);
  }

 private:
  explicit Tokenizer(const GgufFile &file);

  void read_byte_level(const GgufFile &file);
  void read_sentencepiece(const GgufFile &file);
  void add_added_tokens();

  Vocab vocab_;
  SpecialTokens special_;
  std::vector<int32_t> eog_;  // sorted
  bool add_bos_ = false;
  bool add_eos_ = false;
  std::variant<std::monostate, ByteLevelBpe, SentencePieceBpe> model_;
  AddedTokens added_;
  std::vector<std::string> pieces_;  // [n_vocab]
};

}  // namespace patchbay
