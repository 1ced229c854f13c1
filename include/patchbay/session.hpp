#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "patchbay/engine.hpp"

namespace patchbay {

struct GenerateOptions {
  std::vector<WornAdapter> adapters{};
  int32_t n_predict = 128;  ///< tokens at most; -1: until the context is full
  SamplingParams sampling{};
  /// Generation ends before the first of these; they are never emitted.
  std::vector<std::string> stop{};
  bool ignore_eos = false;  ///< end-of-generation tokens are never drawn
  std::string grammar{};    ///< as in Request
  std::string json_schema{};
};

struct GenerateResult {
  std::string text;
  std::vector<int32_t> tokens;  ///< drawn, an ending end-of-generation token included
  StopReason reason = StopReason::length;
  uint32_t n_tokens_prompt = 0;
  uint32_t n_tokens_cached = 0;  ///< of the prompt, that were not computed
  double prompt_ms = 0;          ///< prompt to first logits
  double decode_ms = 0;          ///< all later steps
  /// For each adapter of the options: the first prompt token that wears it; -1 when it is an aLoRA
  /// whose invocation tokens are not in the prompt, or its strength is 0.
  std::vector<int32_t> active_from;
};

/// Receives text as it is generated, always whole UTF-8 characters; returning false ends the
/// generation.
using TextCallback = std::function<bool(std::string_view text)>;

/// An engine for those who want one answer after the other and wait for each. Any thread.
class Session {
 public:
  /// Throws as Engine's constructor does.
  explicit Session(std::shared_ptr<const Model> model, const EngineOptions &options = {});

  /// Generates from text (with the model's BOS rule) or from token ids. Throws
  /// std::invalid_argument for what a caller can get wrong: no tokenizer, ids outside the
  /// vocabulary, an empty or too long prompt, strengths or sampling parameters that are not finite,
  /// an adapter of another model, a grammar or schema that cannot be read or followed;
  /// std::runtime_error for anything else: the computation fails, or too many threads wait. The
  /// session goes on.
  GenerateResult generate(std::string_view prompt, const GenerateOptions &options = {},
                          const TextCallback &on_text = {});
  GenerateResult generate(const std::vector<int32_t> &prompt, const GenerateOptions &options = {},
                          const TextCallback &on_text = {});

  /// Logits of every token of `tokens`: F32 [n_vocab, n_tokens] in ggml order. Throws as generate()
  /// does.
  [[nodiscard]] std::vector<float> logits(const std::vector<int32_t> &tokens,
                                          const std::vector<WornAdapter> &adapters = {});

  /// For what a session has no function for; as long-lived as the session.
  [[nodiscard]] Engine &engine() { return *engine_; }

 private:
  std::shared_ptr<const Model> model_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace patchbay
