// Any interleaving of requests gives each of them the answer that it gets alone on a fresh engine.
// With F32 weights and cache every kernel computes a row's numbers in an order of its own, whatever
// else is in the step, so the comparison is exact: tokens, text and log-probabilities.

#include <gtest/gtest.h>

#include <list>

#include "engine/core_support.h"
#include "engine/random_program.h"
#include "lora/random_adapter.h"

namespace patchbay {
namespace {

std::shared_ptr<const Adapter> adapter_of(const LoadedModel &model, int64_t n_rank, uint64_t seed,
                                          std::vector<int32_t> invocation = {}) {
  auto made = std::make_shared<Adapter>(*make_random_adapter(model.info.uses, n_rank, 0.4F, seed));
  made->invocation_tokens = std::move(invocation);
  return made;
}

std::vector<std::shared_ptr<const Adapter>> some_adapters(const LoadedModel &model) {
  return {adapter_of(model, 1, 1), adapter_of(model, 4, 2), adapter_of(model, 6, 3),
          adapter_of(model, 3, 4, {5, 6}), adapter_of(model, 2, 5, {6})};
}

/// Counts what a program has met, so that a test can say that it met all of it.
struct Seen {
  uint64_t n_steps = 0;
  uint64_t n_compared = 0;
  uint64_t n_cancelled = 0;
  uint64_t n_preemptions = 0;
};

class Program {
 public:
  Program(std::shared_ptr<const LoadedModel> model, const CoreSetup &setup, uint64_t seed)
      : model_(std::move(model)),
        core_(make_core(model_, setup)),
        draw_(seed, {.n_vocab = static_cast<int32_t>(model_->hparams().n_vocab)},
              some_adapters(*model_)) {}

  void run(uint32_t n_requests) {
    for (uint32_t n_left = n_requests; n_left > 0 || !running_.empty();) {
      const int32_t what = draw_.below(10);
      if (what < 3 && n_left > 0) {
        submit();
        --n_left;
      } else if (what == 3 && draw_.below(3) == 0) {
        cancel();
      } else {
        step();
      }
    }
    seen.n_preemptions = core_->stats().n_preemptions;
    const EngineStats stats = core_->stats();
    EXPECT_EQ(stats.n_running + stats.n_queued, 0U);
    EXPECT_EQ(stats.n_kv_tokens_used, 0U) << "memory is left behind";
  }

  Seen seen;

 private:
  void submit() {
    Running &running = running_.emplace_back(draw_.next());
    running.job->arrival = n_submitted_++;
    core_->enqueue(running.job);
  }

  void cancel() {
    if (running_.empty()) return;
    auto victim = running_.begin();
    std::advance(victim, draw_.below(static_cast<int32_t>(running_.size())));
    victim->events->cancel();
  }

  void step() {
    core_->step();
    ++seen.n_steps;
    const std::string wrong = check_invariants(core_->snapshot());
    ASSERT_EQ(wrong, "");
    for (auto running = running_.begin(); running != running_.end();) {
      running->drain();
      if (running->end) compare(*running);
      running = running->end ? running_.erase(running) : std::next(running);
    }
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
  }

  std::shared_ptr<const LoadedModel> model_;
  std::unique_ptr<EngineCore> core_;
  RandomRequests draw_;
  std::list<Running> running_;
  uint64_t n_submitted_ = 0;
};

class ColdReference : public testing::TestWithParam<TinyModel> {};

TEST_P(ColdReference, AnyInterleavingEqualsEachRequestAlone) {
  TempDir dir;
  const auto model = load_tiny(GetParam(), dir);
  // Room for about three requests, so that most programs run out of it.
  Program program(model,
                  {.n_ctx = 72,
                   .block_size = 4,
                   .limits = {.n_ubatch = 24, .n_prefill_beside = 7, .n_seqs_max = 8}},
                  2026);
  program.run(400);
  EXPECT_GT(program.seen.n_steps, 1000U);
  EXPECT_GT(program.seen.n_compared, 300U);
  EXPECT_GT(program.seen.n_cancelled, 0U);
  EXPECT_GT(program.seen.n_preemptions, 10U);
  std::printf("%llu steps, %llu answers equal, %llu cancelled, %llu preemptions\n",
              static_cast<unsigned long long>(program.seen.n_steps),
              static_cast<unsigned long long>(program.seen.n_compared),
              static_cast<unsigned long long>(program.seen.n_cancelled),
              static_cast<unsigned long long>(program.seen.n_preemptions));
}

TinyModel repacked(TinyModel model) {
  model.name += "_q4_0";
  model.type = GGML_TYPE_Q4_0;
  return model;
}

INSTANTIATE_TEST_SUITE_P(Repacked, ColdReference,
                         testing::Values(repacked(tiny_llama()), repacked(tiny_mixtral())),
                         [](const auto &param) { return param.param.name; });
INSTANTIATE_TEST_SUITE_P(AllFamilies, ColdReference, testing::ValuesIn(all_tiny_models()),
                         [](const auto &param) { return param.param.name; });

}  // namespace
}  // namespace patchbay
