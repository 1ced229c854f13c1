#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/core_support.h"
#include "engine/prefix_oracle.h"
#include "engine/random_program.h"
#include "engine/rich_adapter.h"
#include "lora/digest.h"

namespace patchbay {

/// What makes up one of the adapters of a program. Another version is one of the same name and
/// other numbers.
struct AdapterPlan {
  int64_t n_rank = 1;
  std::vector<int32_t> invocation{};
  bool head_only = false;
  RichParts parts{};

  [[nodiscard]] std::shared_ptr<const Adapter> make(const LoadedModel &model, size_t i,
                                                    uint64_t version) const {
    const auto &uses = model.info.uses;
    const std::span all(uses);
    const auto worn = head_only ? std::span(model.info.find_use("output.weight"), 1) : all;
    const uint64_t seed = 100 * version + i;
    const bool is_plain = !parts.dora && !parts.norms;
    auto made = is_plain ? std::make_shared<Adapter>(*make_random_adapter(worn, n_rank, 0.4F, seed))
                         : make_rich_adapter(model.info, n_rank, seed, parts);
    made->name = "adapter " + std::to_string(i);
    made->invocation_tokens = invocation;
    made->digest = digest_of(*made);
    return made;
  }
};

/// Ordinary ones, of all that adapters may change, and aLoRAs whose invocations are parts of each
/// other.
inline const std::vector<AdapterPlan> k_adapters{
    {1},
    {4, {}, false, {.lora_bias = true, .norms = true, .rows = true}},
    {6, {}, false, {.dora = true, .biases = true, .norms = true}},
    {2, {}, true},
    {3, {5, 6}},
    {2, {6}},
    {2, {6, 5, 6}}};

inline std::vector<std::shared_ptr<const Adapter>> some_adapters(const LoadedModel &model) {
  std::vector<std::shared_ptr<const Adapter>> made;
  for (size_t i = 0; i < k_adapters.size(); ++i) made.push_back(k_adapters[i].make(model, i, 0));
  return made;
}

inline size_t size_of_adapters(const LoadedModel &model) {
  size_t n_bytes = 0;
  for (const auto &adapter : some_adapters(model)) n_bytes += adapter->size_bytes;
  return n_bytes;
}

/// Counts what a program has met, so that a test can say that it met all of it.
struct Seen {
  uint64_t n_steps = 0;
  uint64_t n_compared = 0;
  uint64_t n_cancelled = 0;
  uint64_t n_preemptions = 0;
  uint64_t n_tokens_cached = 0;
  uint64_t n_tokens_possible = 0;  ///< that an ideal cache would have had
  uint64_t n_reloaded = 0;
  uint64_t n_invoked_by_answers = 0;  ///< answers with an invocation among their tokens
  uint64_t n_restored = 0;            ///< blocks, from the host tier
  uint64_t n_sessions = 0;            ///< restored, with any tokens
};

/// Tokens of a prompt and its answer.
inline constexpr int32_t k_n_total_most = 104;

/// A run of random requests over one engine; each is checked against itself alone on a fresh one,
/// and its cached tokens against an ideal cache.
class Program {
 public:
  Program(std::shared_ptr<const LoadedModel> model, const CoreSetup &setup, uint64_t seed)
      : model_(std::move(model)),
        core_(make_core(model_, setup)),
        draw_(seed,
              {.n_vocab = static_cast<int32_t>(model_->hparams().n_vocab),
               .n_total_most = k_n_total_most},
              some_adapters(*model_)) {
    for (size_t i = 0; i < k_adapters.size(); ++i) {
      if (k_adapters[i].head_only) oracle_.leave_out(draw_.adapters()[i]->digest);
    }
  }

  /// From now on sessions are saved and restored between steps.
  void draw_sessions() { with_sessions_ = true; }

  /// Requests come while others are computed, and some are cancelled.
  void run(uint32_t n_requests) {
    // With a long queue, what a request goes on with would always be evicted by then.
    constexpr size_t k_most_at_once = 10;
    for (uint32_t n_left = n_requests; n_left > 0 || !running_.empty();) {
      const int32_t what = draw_.below(10);
      if (what < 3 && n_left > 0 && running_.size() < k_most_at_once) {
        submit();
        --n_left;
      } else if (what == 3 && draw_.below(3) == 0) {
        cancel();
      } else if (what == 4 && with_sessions_ && draw_.below(4) == 0) {
        save_or_restore();
      } else {
        step();
      }
    }
    check_end();
  }

  /// One request after the other, so that what each can find is known exactly.
  void run_one_by_one(uint32_t n_requests) {
    for (uint32_t i = 0; i < n_requests; ++i) {
      submit();
      const Request &request = running_.back().job->request;
      const uint32_t n_possible = longest(request);
      while (!running_.empty()) step();
      EXPECT_EQ(last_n_cached_, n_possible) << "request " << i;
    }
    check_end();
  }

  Seen seen;

 private:
  void submit() {
    if (draw_.below(30) == 0) reload();
    Running &running = running_.emplace_back(draw_.next());
    running.job->arrival = n_submitted_++;
    core_->enqueue(running.job);
  }

  void reload() {
    const auto i = static_cast<size_t>(draw_.below(static_cast<int32_t>(k_adapters.size())));
    auto made = k_adapters[i].make(*model_, i, ++n_versions_);
    if (k_adapters[i].head_only) oracle_.leave_out(made->digest);
    draw_.replace(i, std::move(made));
    ++seen.n_reloaded;
  }

  void cancel() {
    if (running_.empty()) return;
    auto victim = running_.begin();
    std::advance(victim, draw_.below(static_cast<int32_t>(running_.size())));
    victim->events->cancel();
  }

  [[nodiscard]] size_t index(size_t end) {
    return static_cast<size_t>(draw_.below(static_cast<int32_t>(end)));
  }

  /// What is computed of a request, or was once.
  void save_or_restore() {
    if (!sessions_.empty() && draw_.below(2) == 0) {
      const auto &[tenant, bytes] = sessions_[index(sessions_.size())];
      if (restore_session(*core_, bytes, tenant) > 0) ++seen.n_sessions;
    } else if (!running_.empty()) {
      const Running &running =
          *std::next(running_.begin(), static_cast<ptrdiff_t>(index(running_.size())));
      const Request &request = running.job->request;
      auto bytes = save_session(
          *core_, {computed(running, running.choices.front()), request.spans, request.tenant});
      if (!bytes.empty()) sessions_.emplace_back(request.tenant, std::move(bytes));
    }
  }

  void step() {
    core_->step();
    ++seen.n_steps;
    const std::string wrong = check_invariants(core_->snapshot());
    ASSERT_EQ(wrong, "");
    for (Running &running : running_) running.drain();
    for (auto running = running_.begin(); running != running_.end();) {
      if (running->end) finish(*running);
      running = running->end ? running_.erase(running) : std::next(running);
    }
  }

  void finish(const Running &running) {
    if (was_admitted(running)) {
      check_cached(running);
      for (const Choice &choice : running.choices)
        oracle_.add(running.job->request, computed(running, choice));
    }
    compare(running);
  }

  static bool was_admitted(const Running &running) {
    return running.job->admitted != Clock::time_point{};
  }

  /// The last token of an answer was drawn and not computed.
  static std::vector<int32_t> computed(const Running &running, const Choice &choice) {
    std::vector<int32_t> tokens = running.job->request.prompt;
    tokens.insert(tokens.end(), choice.tokens.begin(), choice.tokens.end());
    if (!choice.tokens.empty()) tokens.pop_back();
    return tokens;
  }

  /// The last token of a prompt is always computed, for its logits.
  static std::span<const int32_t> findable(const Request &request) {
    const std::span prompt(request.prompt);
    return prompt.first(request.prompt_logits ? 0 : prompt.size() - 1);
  }

  [[nodiscard]] uint32_t longest(const Request &request) {
    return oracle_.longest(request, findable(request));
  }

  /// Never more than somebody else has computed.
  void check_cached(const Running &running) {
    const Request &request = running.job->request;
    last_n_cached_ = running.end->usage.n_tokens_cached;
    uint32_t n_possible = longest(request);
    for (const Running &other : running_) {
      if (&other == &running || !was_admitted(other)) continue;
      for (const Choice &choice : other.choices) {
        n_possible =
            std::max(n_possible, oracle_.n_common(request, findable(request), other.job->request,
                                                  computed(other, choice)));
      }
    }
    EXPECT_LE(last_n_cached_, n_possible);
    seen.n_tokens_cached += last_n_cached_;
    seen.n_tokens_possible += n_possible;
  }

  void compare(const Running &running) {
    if (running.events->cancelled()) {
      ++seen.n_cancelled;
      return;
    }
    ASSERT_FALSE(running.end->error) << running.end->error->message;
    const Running cold = run_cold(model_, running.job->request);
    ASSERT_EQ(running.choices.size(), cold.choices.size());
    for (size_t i = 0; i < cold.choices.size(); ++i) {
      EXPECT_EQ(running.choices[i].tokens, cold.choices[i].tokens) << "choice " << i;
      EXPECT_EQ(running.choices[i].logprobs, cold.choices[i].logprobs) << "choice " << i;
      EXPECT_EQ(running.choices[i].text, cold.choices[i].text) << "choice " << i;
      EXPECT_EQ(running.choices[i].reason, cold.choices[i].reason) << "choice " << i;
    }
    EXPECT_EQ(running.logits, cold.logits);
    ++seen.n_compared;
    note_answer(running.job->request, running.choices.back().tokens);
  }

  void note_answer(const Request &request, const std::vector<int32_t> &answer) {
    const auto is_in_answer = [&](const auto &adapter) {
      return find_last(answer, adapter->invocation_tokens) >= 0;
    };
    if (std::ranges::any_of(draw_.adapters(), is_in_answer)) ++seen.n_invoked_by_answers;
    draw_.answered(request, answer);
  }

  void check_end() {
    const EngineStats stats = core_->stats();
    seen.n_preemptions = stats.n_preemptions;
    seen.n_restored = stats.host_tier.n_blocks_restored;
    EXPECT_EQ(stats.n_running + stats.n_queued, 0U);
    EXPECT_EQ(stats.n_kv_tokens_used, 0U) << "memory is left behind";
  }

  std::shared_ptr<const LoadedModel> model_;
  std::unique_ptr<EngineCore> core_;
  RandomRequests draw_;
  PrefixOracle oracle_;
  std::list<Running> running_;
  uint64_t n_submitted_ = 0;
  uint64_t n_versions_ = 0;
  uint32_t last_n_cached_ = 0;
  bool with_sessions_ = false;
  std::vector<std::pair<std::string, std::vector<std::byte>>> sessions_;  // with their tenants
};

}  // namespace patchbay
