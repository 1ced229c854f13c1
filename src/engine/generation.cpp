#include "engine/generation.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>

#include "engine/sampler.h"
#include "engine/step_plan.h"
#include "engine/text_stream.h"

namespace patchbay {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// What reaches this point has been checked: a step that is refused here has failed.
std::span<const float> run_or_throw(Executor &executor, const StepPlan &plan) {
  const auto logits = executor.run(plan);
  if (!logits) throw std::runtime_error(logits.error().message);
  if (!std::ranges::all_of(*logits, [](float logit) { return std::isfinite(logit); })) {
    throw std::runtime_error(
        "a step gave logits that are not finite: the weights, or an adapter at its strength, are "
        "too large");
  }
  return *logits;
}

std::span<const float> decode(Executor &executor, const GenerationRequest &request, int32_t token,
                              int32_t pos) {
  StepPlan plan;
  plan.sets.push_back(request.spans.back().set);
  plan.rows.push_back(
      {.token = token, .place = {request.seq_id, pos}, .i_set = 0, .wants_logits = true});
  return run_or_throw(executor, plan);
}

Sampler make_sampler(const GenerationRequest &request, const GenerateOptions &options,
                     const Tokenizer *tokenizer) {
  SamplingParams params = options.sampling;
  if (options.ignore_eos && tokenizer != nullptr) {
    for (const int32_t token : tokenizer->eog_tokens()) {
      params.logit_bias.emplace_back(token, -std::numeric_limits<float>::infinity());
    }
  }
  Sampler sampler(std::move(params));
  for (const int32_t token : request.prompt) sampler.accept(token);
  return sampler;
}

/// Collects what is drawn and says when it is enough.
class Output {
 public:
  Output(std::shared_ptr<const Tokenizer> tokenizer, const GenerateOptions &options,
         const TextCallback &on_text)
      : tokenizer_(tokenizer.get()),
        stream_(std::move(tokenizer), options.stop),
        on_text_(on_text),
        n_most_(options.n_predict < 0 ? std::numeric_limits<size_t>::max()
                                      : static_cast<size_t>(options.n_predict)) {}

  [[nodiscard]] bool wants_more() const { return result.tokens.size() < n_most_; }

  /// The reason to end after this token, if there is one.
  [[nodiscard]] std::optional<StopReason> push(int32_t token) {
    result.tokens.push_back(token);
    if (tokenizer_ != nullptr && tokenizer_->is_eog(token)) return StopReason::eos;
    if (!emit(stream_.push(token))) return StopReason::cancelled;
    if (stream_.stopped()) return StopReason::stop;
    if (!wants_more()) return StopReason::length;
    return std::nullopt;
  }

  void finish(StopReason reason) {
    result.reason = reason;
    if (reason == StopReason::cancelled) return;
    emit(stream_.finish());
    // The replacement of a character that stayed unfinished may complete a stop string.
    if (stream_.stopped()) result.reason = StopReason::stop;
  }

  GenerateResult result;

 private:
  bool emit(const std::string &text) {
    result.text += text;
    return text.empty() || !on_text_ || on_text_(text);
  }

  const Tokenizer *tokenizer_;
  TextStream stream_;
  const TextCallback &on_text_;
  size_t n_most_;
};

/// Draws and computes from the prompt's logits on; returns why it ended.
StopReason generate_tokens(Executor &executor, const GenerationRequest &request, Sampler &sampler,
                           std::span<const float> logits, Output &output) {
  for (auto pos = static_cast<int32_t>(request.prompt.size()); output.wants_more(); ++pos) {
    const int32_t token = sampler.sample(logits);
    sampler.accept(token);
    if (const auto reason = output.push(token)) return *reason;
    if (executor.n_tokens(request.seq_id) == executor.n_ctx()) return StopReason::context;
    logits = decode(executor, request, token, pos);
  }
  return StopReason::length;
}

}  // namespace

std::vector<float> prefill(Executor &executor, const GenerationRequest &request, bool all_logits) {
  std::vector<float> logits;
  for (size_t first = 0; first < request.prompt.size(); first += request.n_ubatch) {
    const Chunk chunk{.seq_id = request.seq_id,
                      .first = first,
                      .n_tokens = std::min<size_t>(request.n_ubatch, request.prompt.size() - first),
                      .all_logits = all_logits};
    const auto part = run_or_throw(executor, plan_chunk(request.prompt, chunk, request.spans));
    logits.insert(logits.end(), part.begin(), part.end());
  }
  return logits;
}

GenerateResult generate(Executor &executor, const GenerationRequest &request,
                        const GenerateOptions &options, const TextCallback &on_text) {
  const auto &tokenizer = executor.model().tokenizer;
  Sampler sampler = make_sampler(request, options, tokenizer.get());
  Output output(tokenizer, options, on_text);
  output.result.n_tokens_prompt = static_cast<uint32_t>(request.prompt.size());

  auto start = Clock::now();
  const std::vector<float> logits = prefill(executor, request, false);
  output.result.prompt_ms = ms_since(start);
  start = Clock::now();
  output.finish(generate_tokens(executor, request, sampler, logits, output));
  output.result.decode_ms = ms_since(start);
  return std::move(output.result);
}

}  // namespace patchbay
