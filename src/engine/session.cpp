#include "patchbay/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <thread>

#include "engine/executor.h"
#include "engine/sampler.h"
#include "engine/spans.h"
#include "engine/text_stream.h"

namespace patchbay {
namespace {

constexpr uint32_t k_default_ctx = 4096;
constexpr int32_t k_seq_id = 0;  // a session computes one sequence at a time

uint32_t context_size(const SessionOptions &options, const HParams &hparams) {
  return options.n_ctx > 0 ? options.n_ctx : std::min(hparams.n_ctx_train, k_default_ctx);
}

Executor::Options executor_options(const SessionOptions &options, const HParams &hparams) {
  const uint32_t n_cores = std::max(1U, std::thread::hardware_concurrency());
  return {.n_cells = context_size(options, hparams),
          .cache_type = options.cache_type == CacheType::f32 ? GGML_TYPE_F32 : GGML_TYPE_F16,
          .n_threads = options.n_threads > 0 ? options.n_threads : n_cores};
}

template <class T>
T value_or_throw(Expected<T> expected) {
  if (expected) return *std::move(expected);
  if (expected.error().code == ErrorCode::internal)
    throw std::runtime_error(expected.error().message);
  throw std::invalid_argument(expected.error().message);
}

double ms_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

}  // namespace

std::string_view to_string(StopReason reason) {
  switch (reason) {
    case StopReason::eos:
      return "eos";
    case StopReason::stop:
      return "stop";
    case StopReason::length:
      return "length";
    case StopReason::context:
      return "context";
    case StopReason::cancelled:
      return "cancelled";
  }
  return "length";
}

class Session::Impl {
 public:
  Impl(std::shared_ptr<const Model> model, const SessionOptions &options)
      : model_(std::move(model)),
        n_ubatch_(std::max(1U, options.n_ubatch)),
        executor_(model_->loaded(), executor_options(options, model_->loaded()->hparams())) {}

  void add_adapters(const std::vector<std::shared_ptr<const Adapter>> &adapters);
  GenerateResult generate(const std::vector<int32_t> &prompt, const GenerateOptions &options,
                          const TextCallback &on_text);
  std::vector<float> logits(const std::vector<int32_t> &tokens,
                            const std::vector<WornAdapter> &adapters);
  [[nodiscard]] std::vector<int32_t> tokenize(std::string_view text) const;

 private:
  [[nodiscard]] SpanPlan spans(std::span<const int32_t> prompt,
                               const std::vector<WornAdapter> &adapters);
  void check_prompt(std::span<const int32_t> prompt) const;
  /// Steps for tokens[first, first + n); logits are wanted of all of them or of the prompt's last
  /// one.
  [[nodiscard]] StepPlan plan_chunk(std::span<const int32_t> tokens, size_t first, size_t n,
                                    const std::vector<AdapterSpan> &spans, bool all_logits) const;
  std::span<const float> prefill(std::span<const int32_t> prompt,
                                 const std::vector<AdapterSpan> &spans);
  std::span<const float> decode(int32_t token, int32_t pos, const AdapterSet &set);
  void generate_tokens(const SpanPlan &plan, const std::vector<int32_t> &prompt,
                       const GenerateOptions &options, const TextCallback &on_text,
                       GenerateResult &result);

  [[nodiscard]] const LoadedModel &loaded() const { return *model_->loaded(); }

  std::shared_ptr<const Model> model_;
  uint32_t n_ubatch_;
  Executor executor_;
};

void Session::Impl::add_adapters(const std::vector<std::shared_ptr<const Adapter>> &adapters) {
  auto resident = executor_.adapters();
  for (const auto &adapter : adapters) {
    if (adapter == nullptr) throw std::invalid_argument("an adapter is null");
    if (std::ranges::find(resident, adapter) == resident.end()) resident.push_back(adapter);
  }
  if (resident.size() != executor_.adapters().size()) executor_.set_adapters(std::move(resident));
}

SpanPlan Session::Impl::spans(std::span<const int32_t> prompt,
                              const std::vector<WornAdapter> &adapters) {
  std::vector<std::shared_ptr<const Adapter>> needed;
  for (const auto &[adapter, strength] : adapters) {
    if (!std::isfinite(strength))
      throw std::invalid_argument(fmt::format("an adapter's strength is {}", strength));
    needed.push_back(adapter);
  }
  add_adapters(needed);
  const auto &resident = executor_.adapters();
  std::vector<RequestedAdapter> requested;
  for (const auto &[adapter, strength] : adapters) {
    const auto i = static_cast<int32_t>(std::ranges::find(resident, adapter) - resident.begin());
    requested.push_back({{i, strength}, adapter->invocation_tokens});
  }
  return plan_spans(prompt, requested);
}

void Session::Impl::check_prompt(std::span<const int32_t> prompt) const {
  if (prompt.empty()) throw std::invalid_argument("the prompt is empty");
  const auto n_vocab = static_cast<int32_t>(loaded().hparams().n_vocab);
  for (const int32_t token : prompt) {
    if (token < 0 || token >= n_vocab) {
      throw std::invalid_argument(
          fmt::format("token {} is not in the vocabulary of {} tokens", token, n_vocab));
    }
  }
  const uint32_t n_ctx = executor_.cells().n_cells();
  if (prompt.size() > n_ctx) {
    throw std::invalid_argument(
        fmt::format("the prompt has {} tokens and the context holds {}", prompt.size(), n_ctx));
  }
}

StepPlan Session::Impl::plan_chunk(std::span<const int32_t> tokens, size_t first, size_t n,
                                   const std::vector<AdapterSpan> &spans, bool all_logits) const {
  StepPlan plan;
  uint32_t i_span = 0;
  for (const auto &span : spans) plan.sets.push_back(span.set);
  for (size_t i = first; i < first + n; ++i) {
    const auto pos = static_cast<int32_t>(i);
    while (i_span + 1 < spans.size() && spans[i_span + 1].first <= pos) ++i_span;
    plan.rows.push_back({.token = tokens[i],
                         .place = {k_seq_id, pos},
                         .i_set = i_span,
                         .wants_logits = all_logits || i + 1 == tokens.size()});
  }
  return plan;
}

std::span<const float> Session::Impl::prefill(std::span<const int32_t> prompt,
                                              const std::vector<AdapterSpan> &spans) {
  std::span<const float> logits;
  for (size_t first = 0; first < prompt.size(); first += n_ubatch_) {
    const size_t n = std::min<size_t>(n_ubatch_, prompt.size() - first);
    logits = value_or_throw(executor_.run(plan_chunk(prompt, first, n, spans, false)));
  }
  return logits;
}

std::span<const float> Session::Impl::decode(int32_t token, int32_t pos, const AdapterSet &set) {
  StepPlan plan;
  plan.sets.push_back(set);
  plan.rows.push_back({.token = token, .place = {k_seq_id, pos}, .i_set = 0, .wants_logits = true});
  return value_or_throw(executor_.run(plan));
}

void Session::Impl::generate_tokens(const SpanPlan &plan, const std::vector<int32_t> &prompt,
                                    const GenerateOptions &options, const TextCallback &on_text,
                                    GenerateResult &result) {
  const Tokenizer *tokenizer = loaded().tokenizer.get();
  SamplingParams params = options.sampling;
  if (options.ignore_eos && tokenizer != nullptr) {
    for (const int32_t token : tokenizer->eog_tokens()) {
      params.logit_bias.emplace_back(token, -std::numeric_limits<float>::infinity());
    }
  }
  Sampler sampler(std::move(params));
  for (const int32_t token : prompt) sampler.accept(token);
  TextStream stream(loaded().tokenizer, options.stop);
  const auto emit = [&](const std::string &text) {
    result.text += text;
    return text.empty() || !on_text || on_text(text);
  };

  auto start = std::chrono::steady_clock::now();
  std::span<const float> logits = prefill(prompt, plan.spans);
  result.prompt_ms = ms_since(start);
  start = std::chrono::steady_clock::now();
  const auto n_most = options.n_predict < 0 ? std::numeric_limits<size_t>::max()
                                            : static_cast<size_t>(options.n_predict);
  for (auto pos = static_cast<int32_t>(prompt.size()); result.tokens.size() < n_most; ++pos) {
    const int32_t token = sampler.sample(logits);
    sampler.accept(token);
    result.tokens.push_back(token);
    if (tokenizer != nullptr && tokenizer->is_eog(token)) {
      result.reason = StopReason::eos;
      break;
    }
    const bool go_on = emit(stream.push(token));
    if (stream.stopped() || !go_on) {
      result.reason = go_on ? StopReason::stop : StopReason::cancelled;
      break;
    }
    if (result.tokens.size() == n_most) break;
    if (executor_.cells().n_free() == 0) {
      result.reason = StopReason::context;
      break;
    }
    logits = decode(token, pos, plan.spans.back().set);
  }
  if (result.reason != StopReason::cancelled) emit(stream.finish());
  result.decode_ms = ms_since(start);
}

GenerateResult Session::Impl::generate(const std::vector<int32_t> &prompt,
                                       const GenerateOptions &options,
                                       const TextCallback &on_text) {
  check_prompt(prompt);
  if (auto checked =
          check_sampling(options.sampling, static_cast<int32_t>(loaded().hparams().n_vocab));
      !checked) {
    throw std::invalid_argument(checked.error().message);
  }
  const SpanPlan plan = spans(prompt, options.adapters);
  executor_.release(k_seq_id);
  GenerateResult result;
  result.n_tokens_prompt = static_cast<uint32_t>(prompt.size());
  result.active_from = plan.active_from;
  generate_tokens(plan, prompt, options, on_text, result);
  return result;
}

std::vector<float> Session::Impl::logits(const std::vector<int32_t> &tokens,
                                         const std::vector<WornAdapter> &adapters) {
  check_prompt(tokens);
  const SpanPlan plan = spans(tokens, adapters);
  executor_.release(k_seq_id);
  std::vector<float> all;
  all.reserve(tokens.size() * loaded().hparams().n_vocab);
  for (size_t first = 0; first < tokens.size(); first += n_ubatch_) {
    const size_t n = std::min<size_t>(n_ubatch_, tokens.size() - first);
    const auto chunk =
        value_or_throw(executor_.run(plan_chunk(tokens, first, n, plan.spans, true)));
    all.insert(all.end(), chunk.begin(), chunk.end());
  }
  return all;
}

std::vector<int32_t> Session::Impl::tokenize(std::string_view text) const {
  if (!model_->has_tokenizer())
    throw std::invalid_argument("the model has no tokenizer: give token ids");
  return model_->tokenize(text);
}

Session::Session(std::shared_ptr<const Model> model, const SessionOptions &options)
    : impl_(std::make_unique<Impl>(std::move(model), options)) {}
Session::Session(Session &&) noexcept = default;
Session &Session::operator=(Session &&) noexcept = default;
Session::~Session() = default;

void Session::add_adapter(std::shared_ptr<const Adapter> adapter) {
  impl_->add_adapters({std::move(adapter)});
}

GenerateResult Session::generate(std::string_view prompt, const GenerateOptions &options,
                                 const TextCallback &on_text) {
  return impl_->generate(impl_->tokenize(prompt), options, on_text);
}

GenerateResult Session::generate(const std::vector<int32_t> &prompt, const GenerateOptions &options,
                                 const TextCallback &on_text) {
  return impl_->generate(prompt, options, on_text);
}

std::vector<float> Session::logits(const std::vector<int32_t> &tokens,
                                   const std::vector<WornAdapter> &adapters) {
  return impl_->logits(tokens, adapters);
}

}  // namespace patchbay
