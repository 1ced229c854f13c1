#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "lora/adapter.h"
#include "patchbay/request.hpp"

namespace patchbay {

/// Draws requests of every kind from a seed: prompts with common beginnings of every length,
/// conversations that go on, earlier requests under other adapters, mixes, spans, aLoRAs invoked
/// anywhere, strengths of every sign, tenants, several choices, greedy and random sampling.
class RandomRequests {
 public:
  struct Bounds {
    int32_t n_vocab = 48;
    int32_t n_prompt_most = 24;  ///< of a first prompt, about
    int32_t n_predict_most = 24;
    int32_t n_total_most = 48;  ///< of a prompt and its answer, also after many turns
    int32_t block_size = 4;     ///< common beginnings end at its borders, or one token beside them
    uint32_t n_choices_most = 3;
  };

  RandomRequests(uint64_t seed, const Bounds &bounds,
                 std::vector<std::shared_ptr<const Adapter>> adapters)
      : random_(seed), bounds_(bounds), adapters_(std::move(adapters)) {
    for (auto &text : texts_) text = tokens(bounds_.n_prompt_most);
    for (auto &habit : habits_) habit = new_mix();
  }

  [[nodiscard]] Request next() {
    const int32_t what = earlier_.empty() ? 0 : below(8);
    if (what == 1) return wear_anew(any_earlier().request);  // A, then B, then A
    if (what == 2) return any_earlier().request;             // perhaps beside itself
    Request request{.prompt = what > 4 ? next_turn() : prompt()};
    request.spans = spans(request.prompt);
    request.sampling = sampling();
    request.n_predict =
        below(std::min(bounds_.n_predict_most,
                       bounds_.n_total_most - static_cast<int32_t>(request.prompt.size())) +
              1);
    request.n_choices =
        below(4) == 0
            ? 1 + static_cast<uint32_t>(below(static_cast<int32_t>(bounds_.n_choices_most)))
            : 1;
    request.ignore_eos = below(2) == 0;
    if (below(4) > 0) request.n_logprobs = static_cast<uint32_t>(below(4));
    request.prompt_logits = below(8) == 0;
    request.priority = below(5) == 0 ? below(3) - 1 : 0;
    request.tenant = below(4) == 0 ? "other" : "";
    return request;
  }

  /// A request's answer, on which later ones may go on.
  void answered(const Request &request, const std::vector<int32_t> &answer) {
    constexpr size_t k_most_earlier = 12;
    if (earlier_.size() == k_most_earlier) earlier_.erase(earlier_.begin());
    earlier_.push_back({request, answer});
  }

  /// From now on everybody wears another one in its place, also who goes on with a conversation.
  void replace(size_t i_adapter, std::shared_ptr<const Adapter> adapter) {
    const auto replace_in = [&](std::vector<WornAdapter> &mix) {
      for (auto &worn : mix) {
        if (worn.adapter == adapters_[i_adapter]) worn.adapter = adapter;
      }
    };
    for (auto &[request, answer] : earlier_) {
      for (auto &span : request.spans) replace_in(span.adapters);
    }
    for (auto &habit : habits_) replace_in(habit);
    adapters_[i_adapter] = std::move(adapter);
  }

  [[nodiscard]] const std::vector<std::shared_ptr<const Adapter>> &adapters() const {
    return adapters_;
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

  struct Earlier {
    Request request;
    std::vector<int32_t> answer;
  };

  static void append(std::vector<int32_t> &tokens, const std::vector<int32_t> &more) {
    tokens.insert(tokens.end(), more.begin(), more.end());
  }

  [[nodiscard]] const Earlier &any_earlier() {
    return earlier_[static_cast<size_t>(below(static_cast<int32_t>(earlier_.size())))];
  }
  [[nodiscard]] const std::shared_ptr<const Adapter> &any_adapter() {
    return adapters_[static_cast<size_t>(below(static_cast<int32_t>(adapters_.size())))];
  }

  /// A beginning of a text that others begin with as well: up to a border of blocks, or near one.
  [[nodiscard]] std::vector<int32_t> beginning() {
    const auto &text = texts_.at(static_cast<size_t>(below(3)));
    const int32_t n_blocks = bounds_.n_prompt_most / 2 / bounds_.block_size;
    const int32_t n_tokens = bounds_.block_size * below(n_blocks + 1) + below(3) - 1;
    return {text.begin(), text.begin() + std::clamp(n_tokens, 0, bounds_.n_prompt_most)};
  }

  /// Some tokens with an invocation among them, or two, or none: at the front, in the middle or at
  /// the end.
  [[nodiscard]] std::vector<int32_t> ask() {
    std::vector<int32_t> asked;
    if (below(4) > 0) asked = tokens(below(bounds_.n_prompt_most / 3));
    if (below(2) == 0) append(asked, any_adapter()->invocation_tokens);
    if (below(6) == 0) append(asked, any_adapter()->invocation_tokens);
    if (below(2) == 0 || asked.empty()) append(asked, tokens(1 + below(3)));
    return asked;
  }

  [[nodiscard]] std::vector<int32_t> prompt() {
    std::vector<int32_t> prompt = beginning();
    append(prompt, ask());
    return prompt;
  }

  /// What was said before and more, where that does not get too long.
  [[nodiscard]] std::vector<int32_t> next_turn() {
    const auto &[request, answer] = any_earlier();
    std::vector<int32_t> turn = request.prompt;
    append(turn, answer);
    append(turn, ask());
    const bool is_too_long = turn.size() > static_cast<size_t>(bounds_.n_total_most);
    return is_too_long ? prompt() : turn;
  }

  [[nodiscard]] Request wear_anew(Request request) {
    request.spans = spans(request.prompt);
    return request;
  }

  [[nodiscard]] WornAdapter worn() {
    constexpr std::array k_strengths{1.0F, 0.5F, 0.0F, -0.7F, 1.8F};
    return {any_adapter(), k_strengths.at(static_cast<size_t>(below(k_strengths.size())))};
  }

  /// Mostly what others wear as well.
  [[nodiscard]] std::vector<WornAdapter> mix() {
    return below(4) == 0 ? new_mix() : habits_.at(static_cast<size_t>(below(3)));
  }

  [[nodiscard]] std::vector<WornAdapter> new_mix() {
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
    // Answers that hold invocations: these change nothing until they are part of a prompt.
    if (below(6) == 0) {
      for (const int32_t token : any_adapter()->invocation_tokens)
        params.logit_bias.emplace_back(token, 4.0F);
    }
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
  std::array<std::vector<int32_t>, 3> texts_;
  std::array<std::vector<WornAdapter>, 3> habits_;
  std::vector<Earlier> earlier_;
};

}  // namespace patchbay
