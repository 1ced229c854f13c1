// The cold reference on the default model. Its quantised weights make ggml round activations, so
// what batching alone does to the base is measured first: answers may differ only where the two
// best tokens are closer than that.

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <list>

#include "engine/core_support.h"
#include "engine/random_program.h"

namespace patchbay {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint32_t k_n_requests = 24;
#else
constexpr uint32_t k_n_requests = 200;
#endif

const std::filesystem::path k_root = PATCHBAY_SOURCE_DIR;

CoreSetup small_memory() {
  return {.n_ctx = 56,
          .block_size = 4,
          .limits = {.n_ubatch = 48, .n_prefill_beside = 16, .n_seqs_max = 8},
          .cache_type = GGML_TYPE_F16};
}

CoreSetup plenty() { return {.n_ctx = 512, .block_size = 32, .cache_type = GGML_TYPE_F16}; }

/// The largest difference that company makes to a logit of the base.
float effect_of_batching(const std::shared_ptr<const LoadedModel> &model) {
  std::vector<Request> requests;
  for (int32_t i = 0; i < 8; ++i) {
    requests.push_back({.prompt = {1000 + i, 2000 + 7 * i, 300 + i, 40 + i},
                        .n_predict = 0,
                        .prompt_logits = true});
  }
  const auto core = make_core(model, plenty());
  std::list<Running> together;
  for (const auto &request : requests) core->enqueue(together.emplace_back(request).job);
  while (core->step()) {
  }
  float most = 0;
  for (Running &running : together) {
    running.drain();
    most = std::max(most, max_difference(running.logits,
                                         run_cold(model, running.job->request, plenty()).logits));
  }
  return most;
}

/// Whether two answers are the same as far as `tolerance` lets them be told apart.
void expect_same(const Choice &one, const Choice &other, float tolerance) {
  for (size_t i = 0; i < std::min(one.tokens.size(), other.tokens.size()); ++i) {
    EXPECT_NEAR(one.logprobs[i], other.logprobs[i], 2 * tolerance);
    if (one.tokens[i] == other.tokens[i]) continue;
    EXPECT_GT(tolerance, 0) << "token " << i << ": " << one.tokens[i] << ", " << other.tokens[i];
    return;
  }
  EXPECT_EQ(one.tokens.size(), other.tokens.size());
}

TEST(RealModel, AnyInterleavingEqualsEachRequestAlone) {
  const auto path = k_root / "models/SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there: run scripts/setup";
  const auto model = load_model(path);
  std::vector<std::shared_ptr<const Adapter>> adapters;
  for (const char *name : {"pirate", "json", "sentiment", "rater"})
    adapters.push_back(load_adapter(k_root / "examples/adapters" / name, model->info));
  const float tolerance = effect_of_batching(model);
  EXPECT_EQ(tolerance, 0) << "decision 0008 says so";
  std::printf("batching alone moves a logit of the base by %g at most\n",
              static_cast<double>(tolerance));

  RandomRequests draw(7, {.n_vocab = 49152, .n_prompt_most = 12, .n_predict_most = 14}, adapters);
  const auto core = make_core(model, small_memory());
  std::list<Running> all;
  for (uint32_t i = 0; i < k_n_requests;) {
    if (draw.below(3) == 0) {
      Request request = draw.next();
      // What is drawn at random goes its own way after the smallest difference.
      if (tolerance > 0) request.sampling.temperature = 0;
      request.n_logprobs = 1;
      request.prompt_logits = false;
      Running &running = all.emplace_back(std::move(request));
      running.job->arrival = i++;
      core->enqueue(running.job);
    }
    core->step();
    ASSERT_EQ(check_invariants(core->snapshot()), "");
  }
  while (core->step()) {
  }
  for (Running &running : all) {
    running.drain();
    ASSERT_TRUE(running.end && !running.end->error);
    const Running cold = run_cold(model, running.job->request, plenty());
    for (size_t i = 0; i < cold.choices.size(); ++i)
      expect_same(running.choices[i], cold.choices[i], tolerance);
  }
  // The few requests of a build with sanitizers need not run out of memory.
  EXPECT_GE(core->stats().n_preemptions, k_n_requests / 200);
  std::printf("%u requests, %llu steps, %llu preemptions\n", k_n_requests,
              static_cast<unsigned long long>(core->stats().n_steps),
              static_cast<unsigned long long>(core->stats().n_preemptions));
}

}  // namespace
}  // namespace patchbay
