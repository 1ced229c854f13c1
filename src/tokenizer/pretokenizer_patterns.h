#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace patchbay {

/// One step of a pre-tokenizer: every match of `pattern` becomes a piece of its own, and so does
/// what lies between.
struct PretokenizerStep {
  std::string_view pattern;  ///< PCRE2 syntax, with \s as \p{White_Space}
  bool on_bytes =
      false;  ///< works on bytes and may cut characters: a step that follows HF's ByteLevel
};

/// How a family of byte-level vocabularies splits text before merging, as its tokenizer.json on
/// Hugging Face says.
struct PretokenizerSpec {
  std::span<const PretokenizerStep> steps;  ///< each splits the pieces of the one before
  bool ignore_merges =
      false;  ///< a piece that is a token as a whole is that token, whatever the merges say
  bool add_bos = false;  ///< what an absent tokenizer.ggml.add_bos_token means
};

/// The splitting that `name` (tokenizer.ggml.pre) stands for; nullopt when it is not known.
[[nodiscard]] std::optional<PretokenizerSpec> find_pretokenizer(std::string_view name);

/// "bloom, chatglm-bpe, ...": all known names, for messages.
[[nodiscard]] std::string known_pretokenizers();

}  // namespace patchbay
