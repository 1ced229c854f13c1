// What the prefix cache spares, counted in tokens: stats().n_tokens_computed counts every row of
// every step.

#include <gmock/gmock.h>

#include <list>

#include "engine/core_support.h"
#include "lora/random_adapter.h"

namespace patchbay {
namespace {

using testing::SizeIs;

std::vector<int32_t> tokens(int32_t n_tokens, int32_t first = 7) {
  std::vector<int32_t> made;
  // Neighbours differ, and so do texts with other beginnings.
  for (int32_t i = 0; i < n_tokens; ++i) made.push_back((first + 5 * i) % 40);
  return made;
}

std::vector<int32_t> joined(std::vector<int32_t> one, const std::vector<int32_t> &more) {
  one.insert(one.end(), more.begin(), more.end());
  return one;
}

Request greedy(std::vector<int32_t> prompt, int32_t n_predict = 1) {
  return {.prompt = std::move(prompt),
          .sampling = {.temperature = 0},
          .n_predict = n_predict,
          .ignore_eos = true,
          .n_logprobs = 0};
}

Request wearing(std::vector<int32_t> prompt, const std::vector<WornAdapter> &worn,
                int32_t n_predict = 1) {
  Request request = greedy(std::move(prompt), n_predict);
  request.spans = plan_spans(request.prompt, worn).spans;
  return request;
}

class PrefixTest : public testing::Test {
 protected:
  PrefixTest() : model_(load_tiny(tiny_llama(), dir_)) {}

  void make(const CoreSetup &setup = {}) {
    setup_ = setup;
    core_ = make_core(model_, setup_);
  }

  Running &submit(Request request) {
    Running &running = running_.emplace_back(std::move(request));
    running.job->arrival = running_.size();
    core_->enqueue(running.job);
    return running;
  }

  void run() {
    while (core_->step()) {
    }
    for (Running &running : running_) running.drain();
  }

  /// A request from its arrival to its end, alone; returns how many tokens were computed.
  uint64_t serve(const Request &request) {
    const uint64_t n_before = n_computed();
    submit(request);
    run();
    return n_computed() - n_before;
  }

  [[nodiscard]] uint64_t n_computed() const { return core_->stats().n_tokens_computed; }
  [[nodiscard]] static uint32_t n_cached(const Running &running) {
    return running.end->usage.n_tokens_cached;
  }

  void expect_answers_as_cold() {
    for (const Running &running : running_) {
      if (running.events->cancelled()) continue;
      ASSERT_TRUE(running.end);
      EXPECT_FALSE(running.end->error);
      const Running cold = run_cold(model_, running.job->request);
      EXPECT_EQ(running.choices, cold.choices);
      EXPECT_EQ(running.logits, cold.logits);
    }
  }

  [[nodiscard]] std::shared_ptr<const Adapter> adapter(
      uint64_t seed, std::vector<int32_t> invocation_tokens = {}) const {
    auto made = std::make_shared<Adapter>(*make_random_adapter(model_->info.uses, 2, 0.4F, seed));
    made->invocation_tokens = std::move(invocation_tokens);
    return made;
  }

  TempDir dir_;
  std::shared_ptr<const LoadedModel> model_;
  CoreSetup setup_;
  std::unique_ptr<EngineCore> core_;
  std::list<Running> running_;
};

TEST_F(PrefixTest, OfAPromptThatWasComputedOnlyTheLastTokenIsComputedAgain) {
  make();
  for (int32_t n_tokens = 1; n_tokens <= 14; ++n_tokens) {
    const auto prompt = tokens(n_tokens, n_tokens);
    EXPECT_EQ(serve(greedy(prompt)), prompt.size());
    EXPECT_EQ(n_cached(running_.back()), 0U);
    EXPECT_EQ(serve(greedy(prompt)), 1U);
    EXPECT_EQ(n_cached(running_.back()), prompt.size() - 1);
    EXPECT_EQ(running_.back().end->usage.n_tokens_prompt, prompt.size());
  }
  expect_answers_as_cold();
}

TEST_F(PrefixTest, APromptGoesOnWhereAnEarlierOneEndsInsideABlock) {
  make();
  EXPECT_EQ(serve(greedy(tokens(10))), 10U);
  EXPECT_EQ(serve(greedy(tokens(12))), 2U);
  EXPECT_EQ(serve(greedy(tokens(11))), 1U);
  EXPECT_EQ(serve(greedy(joined(tokens(5), {41, 42, 43}))), 3U);
  EXPECT_EQ(n_cached(running_.back()), 5U);
  expect_answers_as_cold();
}

TEST_F(PrefixTest, TheNextTurnGoesOnBehindTheAnswer) {
  make();
  EXPECT_EQ(serve(greedy(tokens(10), 6)), 10U + 5);
  const auto answer = running_.back().choices[0].tokens;
  ASSERT_THAT(answer, SizeIs(6));
  // The last token of an answer was drawn and not computed.
  EXPECT_EQ(serve(greedy(joined(joined(tokens(10), answer), {41, 42}))), 3U);
  EXPECT_EQ(n_cached(running_.back()), 15U);
  expect_answers_as_cold();
}

TEST_F(PrefixTest, EachAdapterFindsItsOwnBlocksAfterAnother) {
  make();
  const auto prompt = tokens(11);
  const std::vector<std::vector<WornAdapter>> mixes{{{adapter(1), 1}},
                                                    {{adapter(2), 1}},
                                                    {},
                                                    {{adapter(1), 0.5F}},
                                                    {{adapter(1), 1}, {adapter(2), 1}}};
  for (const auto &mix : mixes) EXPECT_EQ(serve(wearing(prompt, mix)), 11U);
  for (const auto &mix : mixes) EXPECT_EQ(serve(wearing(prompt, mix)), 1U);
  EXPECT_EQ(serve(wearing(prompt, {{adapter(2), 1}, {adapter(1), 1}})), 1U) << "in any order";
  EXPECT_EQ(serve(wearing(prompt, {{adapter(1), 0}})), 1U) << "at strength 0: the base";
  expect_answers_as_cold();
}

TEST_F(PrefixTest, OtherWeightsUnderTheSameNameFindNothing) {
  make();
  auto first = std::make_shared<Adapter>(*adapter(1));
  auto second = std::make_shared<Adapter>(*adapter(2));
  auto first_again = std::make_shared<Adapter>(*adapter(1));
  first->name = second->name = "name";
  first_again->name = "another name";
  EXPECT_EQ(serve(wearing(tokens(11), {{first, 1}})), 11U);
  EXPECT_EQ(serve(wearing(tokens(11), {{second, 1}})), 11U);
  EXPECT_EQ(serve(wearing(tokens(11), {{first_again, 1}})), 1U);
  expect_answers_as_cold();
}

TEST_F(PrefixTest, AnAdapterThatCannotChangeKeysAndValuesSharesTheBases) {
  make();
  const auto head_only =
      make_random_adapter(std::span(model_->info.find_use("output.weight"), 1), 2, 0.4F, 3);
  EXPECT_EQ(serve(greedy(tokens(11))), 11U);
  EXPECT_EQ(serve(wearing(tokens(11), {{head_only, 1}})), 1U);
  EXPECT_NE(running_.front().choices[0].logprobs, running_.back().choices[0].logprobs);
  expect_answers_as_cold();
}

TEST_F(PrefixTest, AnALoraComputesFromItsInvocationOnWhatTheBaseHasBegun) {
  make();
  const auto conversation = tokens(11);
  EXPECT_EQ(serve(greedy(conversation)), 11U);
  const auto prompt = joined(conversation, {45, 46, 1, 2});
  const auto ask = [&](const std::shared_ptr<const Adapter> &alora) {
    return serve(wearing(prompt, {{alora, 1}}, 3));
  };
  EXPECT_EQ(ask(adapter(1, {45, 46})), 4U + 2);
  EXPECT_EQ(n_cached(running_.back()), 11U);
  EXPECT_EQ(ask(adapter(2, {46})), 4U + 2) << "46 is where it begins, and 45 is the base's";
  EXPECT_EQ(ask(adapter(3, {45})), 4U + 2);
  EXPECT_EQ(ask(adapter(1, {45, 46})), 1U + 2) << "its own blocks are still there";
  EXPECT_EQ(ask(adapter(4, {47})), 3U + 2) << "not invoked: the base, which has computed 45 by now";
  expect_answers_as_cold();
}

TEST_F(PrefixTest, AnALoraGoesOnWithItsConversationUntilItIsInvokedAnew) {
  make();
  const auto alora = adapter(1, {45, 46});
  const auto first_prompt = joined(tokens(9), {45, 46, 1});
  EXPECT_EQ(serve(wearing(first_prompt, {{alora, 1}}, 4)), 12U + 3);
  const auto told = joined(first_prompt, running_.back().choices[0].tokens);
  ASSERT_EQ(plan_spans(told, {{alora, 1}}).active_from[0], 9);
  EXPECT_EQ(serve(wearing(joined(told, {3, 4}), {{alora, 1}})), 3U);
  EXPECT_EQ(n_cached(running_.back()), 15U);
  // Now what it said before is told to it by the base, up to the new invocation.
  const auto anew = joined(told, {3, 45, 46, 4});
  EXPECT_EQ(serve(wearing(anew, {{alora, 1}})), anew.size() - 9);
  EXPECT_EQ(n_cached(running_.back()), 9U);
  expect_answers_as_cold();
}

TEST_F(PrefixTest, TenantsComputeTheSamePromptEachForThemselves) {
  make();
  for (const char *tenant : {"a", "b", "a", "b"}) {
    Request request = greedy(tokens(9));
    request.tenant = tenant;
    const bool first_time = running_.size() < 2;
    EXPECT_EQ(serve(request), first_time ? 9U : 1U);
  }
}

TEST_F(PrefixTest, NobodyWaitsForAnotherTenant) {
  make();
  for (const char *tenant : {"a", "b"}) {
    Request request = greedy(tokens(9));
    request.tenant = tenant;
    submit(request);
  }
  core_->step();
  EXPECT_EQ(n_computed(), 18U);
}

TEST_F(PrefixTest, WhoAsksForLogitsOfThePromptComputesAllOfItForOthers) {
  make();
  Request asking = greedy(tokens(9));
  asking.prompt_logits = true;
  EXPECT_EQ(serve(greedy(tokens(9))), 9U);
  EXPECT_EQ(serve(asking), 9U);
  EXPECT_EQ(n_cached(running_.back()), 0U);
  asking.prompt = tokens(13);
  EXPECT_EQ(serve(asking), 13U);
  EXPECT_EQ(serve(greedy(tokens(13))), 1U);
  expect_answers_as_cold();
}

TEST_F(PrefixTest, ChoicesShareWhatWasFound) {
  make();
  Request request = greedy(tokens(10), 4);
  request.n_choices = 3;
  request.sampling = {.temperature = 1.5F, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 7};
  EXPECT_EQ(serve(greedy(tokens(10))), 10U);
  EXPECT_EQ(serve(request), 1U + 3 * 3);
  EXPECT_EQ(n_cached(running_.back()), 9U) << "of the prompt, once";
  expect_answers_as_cold();
}

TEST_F(PrefixTest, SwitchedOffEverythingIsComputed) {
  make({.limits = {.keep_prefixes = false}});
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(serve(greedy(tokens(10))), 10U);
    EXPECT_EQ(n_cached(running_.back()), 0U);
  }
  submit(greedy(tokens(10)));
  submit(greedy(tokens(10)));
  const uint64_t n_before = n_computed();
  run();
  EXPECT_EQ(n_computed() - n_before, 20U);
}

TEST_F(PrefixTest, TheOtherFormOfAttentionSparesTheSame) {
  make({.attention = AttentionForm::portable});
  EXPECT_EQ(serve(greedy(tokens(10), 4)), 10U + 3);
  EXPECT_EQ(serve(greedy(tokens(10), 4)), 1U + 3);
  EXPECT_EQ(running_.front().choices[0].tokens, running_.back().choices[0].tokens);
  EXPECT_NEAR(running_.front().choices[0].logprobs[3], running_.back().choices[0].logprobs[3],
              1e-5F);
  EXPECT_EQ(serve(wearing(tokens(10), {{adapter(1), 1}})), 10U);
  EXPECT_EQ(serve(wearing(tokens(10), {{adapter(1), 1}})), 1U);
}

TEST_F(PrefixTest, ManyThatComeAtOnceComputeAndHoldTheirCommonBeginningOnce) {
  make({.n_ctx = 2048, .limits = {.n_ubatch = 256, .n_prefill_beside = 256, .n_seqs_max = 64}});
  for (int32_t i = 0; i < 64; ++i) submit(greedy(joined(tokens(24), {i % 8, i / 8, 41}), 2));
  core_->step();
  EXPECT_EQ(core_->stats().n_running, 64U);
  EXPECT_EQ(n_computed(), 27U) << "the first one does it for all";
  core_->step();
  EXPECT_EQ(n_computed(), 24U + 64 * 3 + 1);
  // Behind the six common blocks one for each but the first, which has ended.
  EXPECT_EQ(core_->stats().n_running, 63U);
  EXPECT_EQ(core_->stats().n_kv_tokens_used, 24U + 63 * 4);
  run();
  EXPECT_EQ(n_computed(), 24U + 64 * 4);
  for (const Running &running : running_)
    EXPECT_EQ(n_cached(running), &running == &running_.front() ? 0U : 24U);
  expect_answers_as_cold();
}

TEST_F(PrefixTest, EachWaitsForTheOneWithWhomItSharesMost) {
  make({.limits = {.n_ubatch = 8, .n_prefill_beside = 8, .n_seqs_max = 4}});
  const auto one = joined(tokens(8), tokens(9, 1));
  const auto two = joined(tokens(8), tokens(9, 2));
  const auto three = joined(joined(tokens(8), tokens(8, 2)), tokens(5, 3));
  for (const auto &prompt : {one, two, three}) submit(greedy(prompt));
  run();
  EXPECT_EQ(n_computed(), 17U + 9 + 5);
  EXPECT_EQ(n_cached(running_.back()), 16U);
  expect_answers_as_cold();
}

TEST_F(PrefixTest, WhoeverWaitedGoesOnFromWhereACancelledOneStopped) {
  make({.limits = {.n_ubatch = 10, .n_prefill_beside = 8, .n_seqs_max = 4}});
  Running &leader = submit(greedy(tokens(40)));
  submit(greedy(tokens(41)));
  submit(greedy(tokens(42)));
  core_->step();
  EXPECT_EQ(n_computed(), 10U);
  leader.events->cancel();
  core_->step();
  EXPECT_EQ(n_computed(), 20U) << "the second one leads";
  run();
  // The ten tokens that were there, and two inside a block of somebody who was still at it.
  EXPECT_EQ(n_computed(), 41U + 2);
  expect_answers_as_cold();
}

TEST_F(PrefixTest, WhoeverWaitedIsNotLostWhenMemoryRunsOut) {
  make({.n_ctx = 64,
        .block_size = 4,
        .limits = {.n_ubatch = 4, .n_prefill_beside = 2, .n_seqs_max = 4}});
  Request growing = greedy({1, 2, 3, 4}, 56);
  growing.priority = 1;
  submit(greedy(tokens(24), 20));
  submit(greedy(tokens(24), 20));
  core_->step();
  submit(growing);
  run();
  const auto preempted = [](const Running &running) {
    return running.end->usage.n_preemptions > 0;
  };
  EXPECT_EQ(std::ranges::count_if(running_, preempted), 2);
  expect_answers_as_cold();
}

TEST_F(PrefixTest, NobodyWaitsForOneThatIsServedLater) {
  make({.limits = {.n_ubatch = 8, .n_prefill_beside = 8, .n_seqs_max = 4}});
  Running &low = submit(greedy(tokens(40)));
  core_->step();
  Request urgent = greedy(tokens(40));
  urgent.priority = 1;
  Running &high = submit(urgent);
  // It takes over what is there, and all of each step.
  for (int n_steps = 0; n_steps < 4; ++n_steps) core_->step();
  high.drain();
  low.drain();
  ASSERT_TRUE(high.end);
  EXPECT_EQ(n_cached(high), 8U);
  EXPECT_FALSE(low.end);
  run();
  expect_answers_as_cold();
}

TEST_F(PrefixTest, AContextThatIsFullServesThePromptThatFilledItAgain) {
  make({.n_ctx = 16, .block_size = 4});
  EXPECT_EQ(serve(greedy(tokens(14))), 14U);
  EXPECT_EQ(serve(greedy(tokens(15), 2)), 1U + 1);
  EXPECT_EQ(n_cached(running_.back()), 14U);
  expect_answers_as_cold();
}

}  // namespace
}  // namespace patchbay
