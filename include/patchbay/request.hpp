#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "patchbay/error.hpp"
#include "patchbay/sampling.hpp"

namespace patchbay {

struct Adapter;

/// An adapter and how strongly it acts: 1 as trained, 0 not at all; negative and above 1 are legal.
struct WornAdapter {
  std::shared_ptr<const Adapter> adapter{};
  float strength = 1;
};

/// Tokens from `first` on, up to the next span's first, wear these adapters; tokens that are
/// generated are the ones after the prompt's, and a span may begin among them.
struct RequestSpan {
  int32_t first = 0;
  std::vector<WornAdapter> adapters{};
};

/// What an embedding is made of: the hidden states of the prompt's tokens after the model's final
/// norm.
enum class Pooling {
  none,  ///< those of every token
  mean,  ///< their mean
  cls,   ///< that of the first token
  last,  ///< that of the last token
};

/// One request to the engine, all of it by value.
struct Request {
  std::vector<int32_t> prompt{};
  std::vector<RequestSpan> spans{};  ///< rising from 0 on; empty: the base alone; see plan_spans()
  SamplingParams sampling{};         ///< choice i draws with seed + i
  int32_t n_predict = 128;           ///< tokens at most, per choice; -1: until the context is full
  uint32_t n_choices = 1;            ///< answers; they share the prompt's computation and memory
  std::vector<std::string> stop{};   ///< an answer ends before the first; never part of it
  bool ignore_eos = false;           ///< end-of-generation tokens are never drawn
  /// Control tokens that the text shows as they are spelled. Others stand for no text.
  std::vector<int32_t> shown_tokens{};

  /// What an answer has to be of; the model must have a tokenizer. Every answer that ends with eos
  /// is of it to the last byte; one that is cut (length, stop) begins as it.
  /// docs/structured-output.md says what they may hold. With both the grammar uses a rule
  /// `json_schema`, which stands for the values of the schema. Where no token can be drawn though
  /// the text is not complete, the request ends with invalid_argument.
  std::string grammar{};      ///< GBNF, the notation of llama.cpp's grammars
  std::string json_schema{};  ///< JSON text of a schema; {"type": "object"} for any JSON object

  std::optional<uint32_t> n_logprobs{};  ///< with every token its log-probability and those of the
                                         ///< n best; none: not computed
  bool prompt_logits = false;            ///< LogitsEvents for all of the prompt
  std::optional<Pooling> embedding{};    ///< in place of answers: one EmbeddingEvent, nothing drawn

  /// Higher is admitted first, equal ones by their tenants' shares; waiting raises it, see
  /// EngineOptions::aging_ms.
  int32_t priority = 0;
  /// On whose behalf: shares are between tenants (EngineOptions::tenant_weights), and none finds
  /// what was computed for another (EngineOptions::prefix_cache).
  std::string tenant{};
  /// When it has to be done; looked at before each step, which it ends with deadline_exceeded. Of
  /// a tenant's requests that wear the same the earlier deadline goes first.
  std::optional<std::chrono::steady_clock::time_point> deadline{};

  /// Called after events have come into an empty queue, on a thread that the engine keeps for such
  /// calls: a slow one delays other requests' calls but no computation. Must not throw, nor
  /// destroy the engine. Never called once the request's handle has gone, which waits for a call
  /// that is running.
  std::function<void()> on_events{};
};

/// The spans of a request that wears `adapters`. Ordinary adapters rule all of it. An aLoRA (arXiv
/// 2504.12397) rules from the start of the last occurrence of its invocation tokens in the prompt,
/// those included, up to the start of the next aLoRA; one that is not invoked acts nowhere.
struct PlannedSpans {
  std::vector<RequestSpan> spans{};
  std::vector<int32_t> active_from{};  ///< per adapter: first token that wears it, -1: none does
};
[[nodiscard]] PlannedSpans plan_spans(const std::vector<int32_t> &prompt,
                                      const std::vector<WornAdapter> &adapters);

/// Why an answer ended. The full context counts as length.
enum class StopReason {
  eos,
  stop,
  length,
  cancelled,  ///< by a Session's callback; the engine itself says so with the error of a RequestEnd
};

[[nodiscard]] std::string_view to_string(StopReason reason);

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0;  ///< natural logarithm, of the model's own distribution: never above 0
};

/// One token of an answer.
struct TokenEvent {
  uint32_t i_choice = 0;
  int32_t token = 0;
  std::string text{};               ///< what is certain to be emitted so far, whole characters
  float logprob = 0;                ///< with Request::n_logprobs
  std::vector<TokenLogprob> top{};  ///< the best first
};

/// Logits of prompt tokens from `first` on: F32 [n_vocab, n_tokens] in ggml order.
struct LogitsEvent {
  int32_t first = 0;
  std::vector<float> logits{};
};

/// What Request::embedding asked for, not normalised: F32 [n_embd]; with Pooling::none F32 [n_embd,
/// n_tokens] in ggml order.
struct EmbeddingEvent {
  std::vector<float> values{};
};

/// The end of one answer. Answers that a RequestEnd with an error cuts short have none.
struct ChoiceEnd {
  uint32_t i_choice = 0;
  StopReason reason = StopReason::length;
  std::string text{};  ///< what was held back and turned out to belong to the answer
};

struct Usage {
  uint32_t n_tokens_prompt = 0;
  uint32_t n_tokens_cached = 0;  ///< prompt tokens that were not computed, since the prefix cache
                                 ///< held them
  uint32_t n_tokens_out = 0;     ///< of all choices, ending tokens included
  uint32_t n_preemptions = 0;    ///< times that memory had to be given up and was computed again
  double queue_ms = 0;           ///< until admission
  double prompt_ms = 0;          ///< from admission to the prompt's last logits
  double decode_ms = 0;          ///< from there to the end
};

/// The last event of every request.
struct RequestEnd {
  Usage usage{};
  std::optional<Error> error{};  ///< why there is no full answer
};

using Event = std::variant<TokenEvent, LogitsEvent, EmbeddingEvent, ChoiceEnd, RequestEnd>;

}  // namespace patchbay
