#include "patchbay/session.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "engine/loaded_model.h"
#include "engine/spelled_model.h"
#include "engine/step_support.h"
#include "lora/random_adapter.h"
#include "patchbay/patchbay.hpp"

namespace patchbay {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

class SessionTest : public testing::Test {
 protected:
  SessionTest() : model_(Model::load(write_spelled_model(dir_, "model.gguf"))) {}

  [[nodiscard]] Session session(uint32_t n_ctx = 64, uint32_t n_ubatch = 256) const {
    return Session(
        model_,
        {.n_ctx = n_ctx, .n_ubatch = n_ubatch, .n_threads = 1, .cache_type = CacheType::f32});
  }

  [[nodiscard]] std::shared_ptr<const Adapter> adapter(uint64_t seed,
                                                       std::vector<int32_t> invocation = {}) const {
    auto made =
        std::make_shared<Adapter>(*make_random_adapter(model_->loaded()->info.uses, 4, 0.5F, seed));
    made->invocation_tokens = std::move(invocation);
    return made;
  }

  [[nodiscard]] static GenerateOptions greedy(int32_t n_predict) {
    return {.n_predict = n_predict, .sampling = {.temperature = 0}, .ignore_eos = true};
  }

  TempDir dir_;
  std::shared_ptr<const Model> model_;
  const std::vector<int32_t> prompt_{3, 9, 27, 1, 9};
};

TEST_F(SessionTest, GreedyTokensAreTheBestOfTheLogitsStepByStep) {
  auto tested = session();
  const auto result = tested.generate(prompt_, greedy(6));
  ASSERT_THAT(result.tokens, SizeIs(6));
  EXPECT_EQ(result.reason, StopReason::length);
  std::vector<int32_t> so_far = prompt_;
  for (const int32_t token : result.tokens) {
    const auto logits = session().logits(so_far);
    const auto last = std::span(logits).last(48).first(k_end);  // the end is forbidden
    EXPECT_EQ(token, std::ranges::max_element(last) - last.begin());
    so_far.push_back(token);
  }
}

TEST_F(SessionTest, StreamedTextIsTheResultsText) {
  auto tested = session();
  std::string streamed;
  const auto result = tested.generate(prompt_, greedy(10), [&](std::string_view text) {
    streamed += text;
    return true;
  });
  EXPECT_EQ(streamed, result.text);
  EXPECT_EQ(result.text, model_->detokenize(result.tokens));
}

TEST_F(SessionTest, AStopStringEndsTheTextBeforeIt) {
  auto tested = session();
  const auto whole = tested.generate(prompt_, greedy(10));
  auto options = greedy(10);
  options.stop = {whole.text.substr(4, 2)};
  const auto stopped = tested.generate(prompt_, options);
  EXPECT_EQ(stopped.reason, StopReason::stop);
  EXPECT_EQ(stopped.text, whole.text.substr(0, whole.text.find(options.stop[0])));
}

TEST_F(SessionTest, AnEndTokenEndsAndIsNoText) {
  auto tested = session();
  auto options = greedy(10);
  options.ignore_eos = false;
  options.sampling.logit_bias = {{k_end, 1000}};
  const auto result = tested.generate(prompt_, options);
  EXPECT_EQ(result.reason, StopReason::eos);
  EXPECT_THAT(result.tokens, ElementsAre(k_end));
  EXPECT_EQ(result.text, "");
  options.ignore_eos = true;
  EXPECT_EQ(tested.generate(prompt_, options).reason, StopReason::length);
}

TEST_F(SessionTest, TheContextLimitEndsTheTextAndEveryTokenBeforeItCounts) {
  for (const uint32_t n_ctx : {5U, 6U, 7U}) {
    auto tested = session(n_ctx);
    const auto result = tested.generate(prompt_, greedy(-1));
    EXPECT_EQ(result.reason, StopReason::length);
    // The last token drawn needs no cell of its own.
    EXPECT_THAT(result.tokens, SizeIs(n_ctx - prompt_.size() + 1));
  }
  EXPECT_THROW((void)session(4).generate(prompt_, greedy(1)), std::invalid_argument);
}

TEST_F(SessionTest, ACallbackThatHasEnoughEndsTheText) {
  auto tested = session();
  int n_calls = 0;
  const auto result =
      tested.generate(prompt_, greedy(10), [&](std::string_view) { return ++n_calls < 3; });
  EXPECT_EQ(result.reason, StopReason::cancelled);
  EXPECT_EQ(n_calls, 3);
}

TEST_F(SessionTest, ChunkedPromptsAndEarlierRequestsChangeNothing) {
  auto whole = session(64);
  auto chunked = session(64, 2);
  const auto options = greedy(8);
  const auto expected = whole.generate(prompt_, options);
  EXPECT_EQ(chunked.generate(prompt_, options).tokens, expected.tokens);
  (void)chunked.generate({1, 2, 3}, options);
  EXPECT_EQ(chunked.generate(prompt_, options).tokens, expected.tokens);
}

TEST_F(SessionTest, AdaptersComeAndGoBetweenRequests) {
  auto tested = session();
  const auto one = adapter(1);
  const auto two = adapter(2);
  const auto base = tested.logits(prompt_);
  const auto with_one = tested.logits(prompt_, {{one, 1}});
  const auto with_both = tested.logits(prompt_, {{two, 0.5F}, {one, 1}});
  EXPECT_GT(max_difference(base, with_one), 1e-3F);
  EXPECT_GT(max_difference(with_one, with_both), 1e-3F);
  EXPECT_EQ(tested.logits(prompt_, {{one, 0}, {two, 0}}), base);
  EXPECT_EQ(tested.logits(prompt_), base);
  EXPECT_EQ(tested.logits(prompt_, {{one, 1}, {two, 0.5F}}), with_both);
  // The other adapter is resident by now, and its rank may set the padding.
  EXPECT_LT(max_difference(tested.logits(prompt_, {{one, 1}}), with_one), 1e-4F);
}

TEST_F(SessionTest, AnInvokedAdapterLeavesTheTokensBeforeItToTheBase) {
  auto tested = session();
  const auto invoked = adapter(1, {27, 1});
  const auto base = tested.logits(prompt_);
  const auto adapted = tested.logits(prompt_, {{invoked, 1}});
  EXPECT_LT(max_difference(std::span(base).first(2 * 48), std::span(adapted).first(2 * 48)), 1e-5F);
  EXPECT_GT(
      max_difference(std::span(base).subspan(2 * 48, 48), std::span(adapted).subspan(2 * 48, 48)),
      1e-3F);
  auto options = greedy(1);
  options.adapters = {{invoked, 1}, {adapter(2, {5, 5}), 1}, {adapter(3), 1}};
  EXPECT_THAT(tested.generate(prompt_, options).active_from, ElementsAre(2, -1, 0));
}

TEST_F(SessionTest, WhatACallerCanGetWrongIsRefusedAndTheSessionGoesOn) {
  auto tested = session();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto before = tested.generate(prompt_, greedy(4));
  EXPECT_THROW((void)tested.generate(std::vector<int32_t>{}, greedy(1)), std::invalid_argument);
  EXPECT_THROW((void)tested.generate({48}, greedy(1)), std::invalid_argument);
  EXPECT_THROW((void)tested.generate({-1}, greedy(1)), std::invalid_argument);
  auto options = greedy(1);
  options.adapters = {{adapter(1), nan}};
  EXPECT_THROW((void)tested.generate(prompt_, options), std::invalid_argument);
  options.adapters = {{nullptr, 1}};
  EXPECT_THROW((void)tested.generate(prompt_, options), std::invalid_argument);
  options = greedy(1);
  options.sampling.top_p = 2;
  EXPECT_THROW((void)tested.generate(prompt_, options), std::invalid_argument);
  EXPECT_EQ(tested.generate(prompt_, greedy(4)).tokens, before.tokens);
}

TEST_F(SessionTest, WithoutATokenizerTextIsRefusedAndTokensWork) {
  const auto bare = Model::load(dir_.write("bare.gguf", build_tiny_model(tiny_llama()).bytes()));
  Session tested(bare, {.n_ctx = 16, .n_threads = 1});
  EXPECT_FALSE(bare->has_tokenizer());
  EXPECT_THROW((void)tested.generate("ABC", greedy(1)), std::invalid_argument);
  const auto result = tested.generate(prompt_, greedy(3));
  EXPECT_THAT(result.tokens, SizeIs(3));
  EXPECT_EQ(result.text, "");
}

}  // namespace
}  // namespace patchbay
