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

const std::filesystem::path k_model_path = k_root / "models/SmolLM2-135M-Instruct.Q4_1.gguf";

std::vector<std::shared_ptr<const Adapter>> example_adapters(const LoadedModel &model) {
  std::vector<std::shared_ptr<const Adapter>> adapters;
  for (const char *name : {"pirate", "json", "sentiment", "rater"})
    adapters.push_back(load_adapter(k_root / "examples/adapters" / name, model.info));
  return adapters;
}

TEST(RealModel, AnyInterleavingEqualsEachRequestAlone) {
  if (!std::filesystem::exists(k_model_path))
    GTEST_SKIP() << k_model_path << " is not there: run scripts/setup";
  const auto model = load_model(k_model_path);
  const auto adapters = example_adapters(*model);
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
    for (Running &running : all) {
      const bool ended_before = running.end.has_value();
      running.drain();
      if (running.end && !ended_before)
        draw.answered(running.job->request, running.choices[0].tokens);
    }
  }
  while (core->step()) {
  }
  uint64_t n_cached = 0;
  for (Running &running : all) {
    running.drain();
    ASSERT_TRUE(running.end && !running.end->error);
    n_cached += running.end->usage.n_tokens_cached;
    const Running cold = run_cold(model, running.job->request, plenty());
    for (size_t i = 0; i < cold.choices.size(); ++i)
      expect_same(running.choices[i], cold.choices[i], tolerance);
  }
  // The few requests of a build with sanitizers need not run out of memory.
  EXPECT_GE(core->stats().n_preemptions, k_n_requests / 200);
  EXPECT_GT(n_cached, k_n_requests);
  std::printf("%u requests, %llu steps, %llu preemptions, %llu tokens cached\n", k_n_requests,
              static_cast<unsigned long long>(core->stats().n_steps),
              static_cast<unsigned long long>(core->stats().n_preemptions),
              static_cast<unsigned long long>(n_cached));
}

/// Conversations on one engine, each turn of which is also computed alone.
struct Conversations {
  explicit Conversations(std::shared_ptr<const LoadedModel> loaded)
      : model(std::move(loaded)), core(make_core(model, plenty())) {}

  /// Returns prompt and answer.
  std::vector<int32_t> say(const std::vector<int32_t> &prompt,
                           const std::vector<WornAdapter> &worn) {
    Running running({.prompt = prompt,
                     .spans = plan_spans(prompt, worn).spans,
                     .sampling = {.temperature = 0},
                     .n_predict = 6,
                     .ignore_eos = true,
                     .n_logprobs = 0});
    core->enqueue(running.job);
    while (core->step()) {
    }
    running.drain();
    // Bit for bit: what comes out of the cache is what went in, and no kernel cares how a prompt
    // was cut.
    EXPECT_EQ(running.choices, run_cold(model, running.job->request, plenty()).choices);
    n_cached = running.end ? running.end->usage.n_tokens_cached : 0;
    std::vector<int32_t> told = prompt;
    told.insert(told.end(), running.choices[0].tokens.begin(), running.choices[0].tokens.end());
    return told;
  }

  std::shared_ptr<const LoadedModel> model;
  std::unique_ptr<EngineCore> core;
  uint32_t n_cached = 0;  ///< of the last prompt
};

std::vector<int32_t> joined(std::vector<int32_t> one, const std::vector<int32_t> &more) {
  one.insert(one.end(), more.begin(), more.end());
  return one;
}

TEST(RealModel, TurnsOfAConversationGoOnFromTheCacheWithTheSameBits) {
  if (!std::filesystem::exists(k_model_path))
    GTEST_SKIP() << k_model_path << " is not there: run scripts/setup";
  Conversations talk(load_model(k_model_path));
  const auto adapters = example_adapters(*talk.model);
  std::vector<int32_t> beginning;
  for (int32_t i = 0; i < 45; ++i) beginning.push_back(1000 + 37 * i);

  const auto told = talk.say(beginning, {});
  EXPECT_EQ(talk.n_cached, 0U);
  const std::vector<int32_t> question{300, 301, 302};
  uint32_t n_invoked = 0;
  for (const auto &adapter : adapters) {
    const std::vector<WornAdapter> worn{{adapter, 1}};
    const auto &invocation = adapter->invocation_tokens;
    n_invoked += invocation.empty() ? 0 : 1;
    const auto prompt = joined(joined(told, question), invocation);
    const auto answered = talk.say(prompt, worn);
    // An aLoRA takes over what the base has said, but for the token drawn last the first time.
    if (invocation.empty()) {
      EXPECT_EQ(talk.n_cached, 0U);
    } else {
      EXPECT_GE(talk.n_cached, told.size() - 1);
      EXPECT_LE(talk.n_cached, told.size() + question.size());
    }
    talk.say(prompt, worn);
    EXPECT_EQ(talk.n_cached, prompt.size() - 1);
    talk.say(joined(answered, question), worn);
    EXPECT_EQ(talk.n_cached, answered.size() - 1);
  }
  EXPECT_GT(n_invoked, 0U);
  EXPECT_LT(n_invoked, adapters.size());
  talk.say(joined(told, question), {});
  EXPECT_GE(talk.n_cached, told.size() - 1) << "the base's own are still there";
}

}  // namespace
}  // namespace patchbay
