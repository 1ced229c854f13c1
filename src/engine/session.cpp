#include "patchbay/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "engine/compute_options.h"
#include "engine/executor.h"
#include "engine/generation.h"
#include "engine/sampler.h"
#include "engine/spans.h"

namespace patchbay {
namespace {

constexpr uint32_t k_default_ctx = 4096;

Executor::Options executor_options(const SessionOptions &options, const HParams &hparams) {
  const uint32_t n_ctx =
      options.n_ctx > 0 ? options.n_ctx : std::min(hparams.n_ctx_train, k_default_ctx);
  return {.n_cells = n_ctx,
          .cache_type = to_ggml(options.cache_type),
          .n_threads = compute_threads(options.n_threads),
          .lora_form = options.lora_form};
}

void check_adapters(const std::vector<WornAdapter> &adapters) {
  for (const auto &[adapter, strength] : adapters) {
    if (adapter == nullptr) throw std::invalid_argument("an adapter is null");
    if (!std::isfinite(strength))
      throw std::invalid_argument(fmt::format("an adapter's strength is {}", strength));
  }
}

void check_prompt(std::span<const int32_t> prompt, const Executor &executor) {
  if (prompt.empty()) throw std::invalid_argument("the prompt is empty");
  const auto n_vocab = static_cast<int32_t>(executor.model().hparams().n_vocab);
  for (const int32_t token : prompt) {
    if (token < 0 || token >= n_vocab) {
      throw std::invalid_argument(
          fmt::format("token {} is not in the vocabulary of {} tokens", token, n_vocab));
    }
  }
  const uint32_t n_ctx = executor.cells().n_cells();
  if (prompt.size() > n_ctx) {
    throw std::invalid_argument(
        fmt::format("the prompt has {} tokens and the context holds {}", prompt.size(), n_ctx));
  }
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

  void add_adapters(const std::vector<WornAdapter> &adapters);
  GenerateResult generate(const std::vector<int32_t> &prompt, const GenerateOptions &options,
                          const TextCallback &on_text);
  std::vector<float> logits(const std::vector<int32_t> &tokens,
                            const std::vector<WornAdapter> &adapters);
  [[nodiscard]] std::vector<int32_t> tokenize(std::string_view text) const;

 private:
  [[nodiscard]] SpanPlan plan(std::span<const int32_t> prompt,
                              const std::vector<WornAdapter> &adapters) const;
  [[nodiscard]] GenerationRequest request(const std::vector<int32_t> &prompt,
                                          std::vector<AdapterSpan> spans) const {
    return {.prompt = prompt, .spans = std::move(spans), .n_ubatch = n_ubatch_};
  }

  std::shared_ptr<const Model> model_;
  uint32_t n_ubatch_;
  Executor executor_;
};

void Session::Impl::add_adapters(const std::vector<WornAdapter> &adapters) {
  check_adapters(adapters);
  for (const auto &[adapter, strength] : adapters) executor_.add_adapter(adapter);
}

SpanPlan Session::Impl::plan(std::span<const int32_t> prompt,
                             const std::vector<WornAdapter> &adapters) const {
  std::vector<RequestedAdapter> requested;
  for (const auto &[adapter, strength] : adapters) {
    requested.push_back(
        {{executor_.find_adapter(adapter->digest), strength}, adapter->invocation_tokens});
  }
  SpanPlan plan = plan_spans(prompt, requested);
  for (auto &span : plan.spans) span.set = executor_.canonical(span.set);
  return plan;
}

GenerateResult Session::Impl::generate(const std::vector<int32_t> &prompt,
                                       const GenerateOptions &options,
                                       const TextCallback &on_text) {
  check_prompt(prompt, executor_);
  if (auto checked = check_sampling(options.sampling, static_cast<int32_t>(model_->n_vocab()));
      !checked) {
    throw std::invalid_argument(checked.error().message);
  }
  add_adapters(options.adapters);
  SpanPlan spans = plan(prompt, options.adapters);
  executor_.release(0);
  GenerateResult result =
      patchbay::generate(executor_, request(prompt, std::move(spans.spans)), options, on_text);
  result.active_from = std::move(spans.active_from);
  return result;
}

std::vector<float> Session::Impl::logits(const std::vector<int32_t> &tokens,
                                         const std::vector<WornAdapter> &adapters) {
  check_prompt(tokens, executor_);
  add_adapters(adapters);
  executor_.release(0);
  return prefill(executor_, request(tokens, plan(tokens, adapters).spans), true);
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
  impl_->add_adapters({{std::move(adapter), 1}});
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
