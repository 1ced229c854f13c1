#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "patchbay/model.hpp"
#include "patchbay/sampling.hpp"

namespace patchbay {

enum class CacheType {
  f16,
  f32,
  q8_0,  ///< about half of f16's memory; heads of a multiple of 32 only
};

struct SessionOptions {
  uint32_t n_ctx = 0;  ///< tokens that the KV cache holds; 0: the model's context, at most 4096
  uint32_t n_ubatch = 256;  ///< prompt tokens per step
  uint32_t n_threads = 0;   ///< 0: one per core
  CacheType cache_type = CacheType::f16;
};

/// An adapter and how strongly it acts: 1 as trained, 0 not at all; negative and above 1 are legal.
struct WornAdapter {
  std::shared_ptr<const Adapter> adapter{};
  float strength = 1;
};

struct GenerateOptions {
  std::vector<WornAdapter> adapters{};
  int32_t n_predict = 128;  ///< tokens at most; -1: until the context is full
  SamplingParams sampling{};
  std::vector<std::string>
      stop{};               ///< generation ends before the first of these; they are never emitted
  bool ignore_eos = false;  ///< end-of-generation tokens are never drawn
};

enum class StopReason { eos, stop, length, context, cancelled };

[[nodiscard]] std::string_view to_string(StopReason reason);

struct GenerateResult {
  std::string text;
  std::vector<int32_t> tokens;  ///< drawn, an ending end-of-generation token included
  StopReason reason = StopReason::length;
  uint32_t n_tokens_prompt = 0;
  double prompt_ms = 0;  ///< prompt to first logits
  double decode_ms = 0;  ///< all later steps
  /// For each adapter of the options: the first prompt token that wears it; -1 when it is an aLoRA
  /// whose invocation tokens are not in the prompt, or its strength is 0.
  std::vector<int32_t> active_from;
};

/// Receives text as it is generated, always whole UTF-8 characters; returning false ends the
/// generation.
using TextCallback = std::function<bool(std::string_view text)>;

/// One model, one KV cache, one request after the other. Not for use from two threads at once.
class Session {
 public:
  /// Throws LoadError when the memory cannot be had.
  explicit Session(std::shared_ptr<const Model> model, const SessionOptions &options = {});
  Session(Session &&) noexcept;
  Session &operator=(Session &&) noexcept;
  ~Session();

  /// Makes an adapter resident beforehand; generate() and logits() do it for those they do not
  /// know. Resident adapters stay until the session ends; the same content is held once. Throws
  /// LoadError: memory cannot be had, or the adapter was loaded for another model.
  void add_adapter(std::shared_ptr<const Adapter> adapter);

  /// Generates from text (with the model's BOS rule) or from token ids. Throws
  /// std::invalid_argument for what a caller can get wrong: no tokenizer, ids outside the
  /// vocabulary, an empty or too long prompt, strengths or sampling parameters that are not finite;
  /// LoadError as add_adapter() does; std::runtime_error when a step fails. The session goes on.
  GenerateResult generate(std::string_view prompt, const GenerateOptions &options = {},
                          const TextCallback &on_text = {});
  GenerateResult generate(const std::vector<int32_t> &prompt, const GenerateOptions &options = {},
                          const TextCallback &on_text = {});

  /// Logits of every token of `tokens`: F32 [n_vocab, n_tokens] in ggml order. Throws as generate()
  /// does.
  [[nodiscard]] std::vector<float> logits(const std::vector<int32_t> &tokens,
                                          const std::vector<WornAdapter> &adapters = {});

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace patchbay
