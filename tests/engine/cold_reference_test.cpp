// Any interleaving of requests gives each of them the answer that it gets alone on a fresh engine.
// Every kernel computes a row's numbers in an order of its own, whatever else is in the step: with
// plain weights, packed and interleaved ones alike, over a cache of F32. So the comparison is
// exact: tokens, text and log-probabilities.

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
  uint64_t n_restored = 0;  ///< blocks, from the host tier
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
    seen.n_restored = stats.host_tier.n_blocks_restored;
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

struct Case {
  TinyModel model;
  WeightLayout layout = WeightLayout::as_stored;  ///< of its matrices
  uint32_t n_threads = 1;                         ///< of the program; the reference has one
  size_t cache_memory_bytes = 0;                  ///< the same

  /// For GoogleTest, which would print the bytes.
  friend void PrintTo(const Case &c, std::ostream *out) { *out << c.model.name; }
};

bool has_layout(const WeightStore &store, WeightLayout layout) {
  const WeightPlan &plan = store.plan();
  return layout == WeightLayout::as_stored ? plan.count(layout) == plan.weights.size()
                                           : plan.count(layout) > 0;
}

class ColdReference : public testing::TestWithParam<Case> {};

TEST_P(ColdReference, AnyInterleavingEqualsEachRequestAlone) {
  TempDir dir;
  const auto &[tiny, layout, n_threads, cache_memory_bytes] = GetParam();
  const auto model = load_tiny(tiny, dir,
                               {.layout = {.interleave = layout == WeightLayout::interleaved,
                                           .pack = layout == WeightLayout::packed}});
  if (!has_layout(*model->store, layout))
    GTEST_SKIP() << "this processor has no such layout: " << to_string(layout);
  // Room for about three requests, so that most programs run out of it.
  Program program(model,
                  {.n_ctx = 72,
                   .block_size = 4,
                   .limits = {.n_ubatch = 24, .n_prefill_beside = 7, .n_seqs_max = 8},
                   .n_threads = n_threads,
                   .cache_memory_bytes = cache_memory_bytes},
                  2026);
  program.run(400);
  EXPECT_GT(program.seen.n_steps, 1000U);
  EXPECT_GT(program.seen.n_compared, 300U);
  EXPECT_GT(program.seen.n_cancelled, 0U);
  EXPECT_GT(program.seen.n_preemptions, 10U);
  EXPECT_EQ(program.seen.n_restored > 10, cache_memory_bytes > 0);
  std::printf("%llu steps, %llu answers equal, %llu cancelled, %llu preemptions\n",
              static_cast<unsigned long long>(program.seen.n_steps),
              static_cast<unsigned long long>(program.seen.n_compared),
              static_cast<unsigned long long>(program.seen.n_cancelled),
              static_cast<unsigned long long>(program.seen.n_preemptions));
}

std::vector<Case> plain_cases() {
  std::vector<Case> cases;
  for (TinyModel &model : all_tiny_models()) cases.push_back({std::move(model)});
  return cases;
}

/// A cache that is too small, beside memory for about as many blocks.
std::vector<Case> host_tier_cases() {
  constexpr size_t k_about_20_blocks = 20 << 10U;
  std::vector<Case> cases;
  for (TinyModel model : {tiny_llama(), tiny_gemma3()}) {
    model.name += "_host_tier";
    cases.push_back({.model = std::move(model), .cache_memory_bytes = k_about_20_blocks});
  }
  return cases;
}

TinyModel of_type(TinyModel model, ggml_type type) {
  model.name += "_";
  model.name += ggml_type_name(type);
  model.type = type;
  return model;
}

/// Rows of 256 numbers, which types with blocks of 256 need.
TinyModel wide(TinyModel model) {
  model.hparams.n_embd = 256;
  model.hparams.n_embd_head = 64;
  model.hparams.n_rot = 64;
  model.hparams.n_ff = 256;
  model.hparams.n_layer = 1;
  return model;
}

std::vector<Case> packed_cases() {
  constexpr auto k_packed = WeightLayout::packed;
  std::vector<Case> cases;
  for (const ggml_type type : {GGML_TYPE_Q8_0, GGML_TYPE_Q4_1, GGML_TYPE_Q4_0}) {
    for (const TinyModel &model : {tiny_llama(), tiny_mixtral(), tiny_gemma3()})
      cases.push_back({of_type(model, type), k_packed});
  }
  cases.push_back({of_type(wide(tiny_llama()), GGML_TYPE_Q4_K), k_packed});
  cases.push_back({of_type(wide(tiny_mixtral()), GGML_TYPE_Q6_K), k_packed});
  cases.push_back({of_type(tiny_mixtral(), GGML_TYPE_Q5_1), k_packed, 2});
  return cases;
}

std::vector<Case> interleaved_cases() {
  std::vector<Case> cases;
  for (const TinyModel &model : {tiny_llama(), tiny_mixtral()})
    cases.push_back({of_type(model, GGML_TYPE_Q4_0), WeightLayout::interleaved});
  return cases;
}

/// ggml's products of quantised weights.
std::vector<Case> stored_cases() {
  return {{of_type(tiny_llama(), GGML_TYPE_Q8_0)},
          {of_type(tiny_mixtral(), GGML_TYPE_Q4_1)},
          {of_type(tiny_gemma3(), GGML_TYPE_F16)},
          {of_type(wide(tiny_llama()), GGML_TYPE_Q6_K)},
          {of_type(wide(tiny_llama()), GGML_TYPE_Q3_K)}};
}

std::string name_of(const testing::TestParamInfo<Case> &info) { return info.param.model.name; }

INSTANTIATE_TEST_SUITE_P(AllFamilies, ColdReference, testing::ValuesIn(plain_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(HostTier, ColdReference, testing::ValuesIn(host_tier_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(AsStored, ColdReference, testing::ValuesIn(stored_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Packed, ColdReference, testing::ValuesIn(packed_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Interleaved, ColdReference, testing::ValuesIn(interleaved_cases()),
                         name_of);

}  // namespace
}  // namespace patchbay
