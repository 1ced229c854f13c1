#pragma once

#include <array>
#include <memory>
#include <random>
#include <vector>

#include "lora/adapter.h"
#include "patchbay/request.hpp"

namespace patchbay {

/// Draws requests of every kind from a seed: prompts with common beginnings, ordinary adapters,
/// mixes, spans, aLoRAs, strengths of every sign, several choices, greedy and random sampling.
class RandomRequests {
 public:
  struct Bounds {
    int32_t n_vocab = 48;
    int32_t n_prompt_most = 24;
    int32_t n_predict_most = 24;
    uint32_t n_choices_most = 3;
  };

  RandomRequests(uint64_t seed, const Bounds &bounds,
                 std::vector<std::shared_ptr<const Adapter>> adapters)
      : random_(seed), bounds_(bounds), adapters_(std::move(adapters)) {
    for (auto &beginning : beginnings_) beginning = tokens(1 + below(bounds_.n_prompt_most / 2));
  }

  [[nodiscard]] Request next() {
    Request request{.prompt = prompt()};
    request.spans = spans(request.prompt);
    request.sampling = sampling();
    request.n_predict = below(bounds_.n_predict_most + 1);
    request.n_choices =
        below(4) == 0
            ? 1 + static_cast<uint32_t>(below(static_cast<int32_t>(bounds_.n_choices_most)))
            : 1;
    request.ignore_eos = below(2) == 0;
    if (below(3) == 0) request.n_logprobs = static_cast<uint32_t>(below(4));
    request.prompt_logits = below(8) == 0;
    request.priority = below(5) == 0 ? below(3) - 1 : 0;
    return request;
  }

  /// A whole number from 0 up to and without `end`.
  [[nodiscard]] int32_t below(int32_t end) {
    return static_cast<int32_t>(random_() % static_cast<uint64_t>(end));
  }

 private:
  [[nodiscard]] std::vector<int32_t> tokens(int32_t n) {
    std::vector<int32_t> drawn;
    for (int32_t i = 0; i < n; ++i) drawn.push_back(below(bounds_.n_vocab));
    return drawn;
  }

  /// Mostly with a beginning that others have too; sometimes with an invocation inside.
  [[nodiscard]] std::vector<int32_t> prompt() {
    std::vector<int32_t> prompt;
    if (below(4) > 0) prompt = beginnings_.at(static_cast<size_t>(below(3)));
    const auto append = [&](const std::vector<int32_t> &more) {
      prompt.insert(prompt.end(), more.begin(), more.end());
    };
    append(tokens(1 + below(bounds_.n_prompt_most / 3)));
    const auto &adapter =
        adapters_[static_cast<size_t>(below(static_cast<int32_t>(adapters_.size())))];
    if (below(2) == 0) append(adapter->invocation_tokens);
    if (below(2) == 0) append(tokens(1 + below(3)));
    return prompt;
  }

  [[nodiscard]] WornAdapter worn() {
    constexpr std::array k_strengths{1.0F, 0.5F, 0.0F, -0.7F, 1.8F};
    return {adapters_[static_cast<size_t>(below(static_cast<int32_t>(adapters_.size())))],
            k_strengths.at(static_cast<size_t>(below(k_strengths.size())))};
  }

  [[nodiscard]] std::vector<WornAdapter> mix() {
    std::vector<WornAdapter> mixed;
    for (int32_t n = below(4); n > 0; --n) mixed.push_back(worn());
    return mixed;
  }

  [[nodiscard]] std::vector<RequestSpan> spans(const std::vector<int32_t> &prompt) {
    if (below(3) > 0) return plan_spans(prompt, mix()).spans;
    std::vector<RequestSpan> spans;
    for (int32_t first = 0; first < static_cast<int32_t>(prompt.size()) + 2;
         first += 1 + below(bounds_.n_prompt_most)) {
      spans.push_back({first, mix()});
    }
    return spans;
  }

  [[nodiscard]] SamplingParams sampling() {
    SamplingParams params{.temperature = 0};
    if (below(2) == 0) return params;
    params.temperature = 0.5F + 0.1F * static_cast<float>(below(10));
    params.top_k = below(2) * 10;
    params.repeat_penalty = 1 + 0.1F * static_cast<float>(below(3));
    params.seed = random_();
    return params;
  }

  std::mt19937_64 random_;
  Bounds bounds_;
  std::vector<std::shared_ptr<const Adapter>> adapters_;
  std::array<std::vector<int32_t>, 3> beginnings_;
};

}  // namespace patchbay
