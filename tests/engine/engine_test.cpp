#include "patchbay/engine.hpp"

#include <gmock/gmock.h>

#include <atomic>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "engine/loaded_model.h"
#include "engine/step_support.h"
#include "lora/random_adapter.h"

namespace patchbay {
namespace {

using testing::SizeIs;

class EngineTest : public testing::Test {
 protected:
  EngineTest() : model_(Model::load(write_tiny(dir_))) {}

  static std::filesystem::path write_tiny(const TempDir &dir) {
    return dir.write("model.gguf", build_tiny_model(tiny_llama()).bytes());
  }

  [[nodiscard]] std::unique_ptr<Engine> engine(EngineOptions options = {}) const {
    options.n_ctx = options.n_ctx == 0 ? 128 : options.n_ctx;
    options.n_threads = 1;
    options.cache_type = CacheType::f32;
    return std::make_unique<Engine>(model_, options);
  }

  static Request greedy(std::vector<int32_t> prompt, int32_t n_predict) {
    return {.prompt = std::move(prompt), .sampling = {.temperature = 0}, .n_predict = n_predict};
  }

  static RequestHandle accepted(Engine &engine, Request request) {
    return std::get<RequestHandle>(engine.submit(std::move(request)));
  }

  /// All tokens up to the end.
  static std::vector<int32_t> tokens_of(RequestHandle &handle) {
    std::vector<int32_t> tokens;
    while (const auto event = handle.next()) {
      if (const auto *token = std::get_if<TokenEvent>(&*event)) tokens.push_back(token->token);
    }
    return tokens;
  }

  static ErrorCode refusal(Engine &engine, Request request) {
    return std::get<Error>(engine.submit(std::move(request))).code;
  }

  TempDir dir_;
  std::shared_ptr<const Model> model_;
  const std::vector<int32_t> prompt_{3, 9, 27, 1, 9};
};

TEST_F(EngineTest, ManyThreadsGetTheAnswersOfOne) {
  const auto one_by_one = engine();
  const auto shared = engine({.n_ctx = 256, .n_seqs_max = 4});
  const auto request = [&](int32_t i) {
    Request made = greedy({i % 40, 3, 9, (i * 7) % 40}, 8);
    const auto &uses = model_->loaded()->info.uses;
    made.spans = {{0, {{make_random_adapter(uses, 1 + i % 4, 0.3F, static_cast<uint64_t>(i)), 1}}}};
    return made;
  };
  constexpr int k_n_threads = 4;
  constexpr int k_n_each = 6;
  std::array<std::vector<int32_t>, k_n_threads * k_n_each> answers;
  std::vector<std::thread> threads;
  for (int i_thread = 0; i_thread < k_n_threads; ++i_thread) {
    threads.emplace_back([&, i_thread] {
      for (int i = i_thread; i < k_n_threads * k_n_each; i += k_n_threads) {
        auto handle = accepted(*shared, request(i));
        answers.at(static_cast<size_t>(i)) = tokens_of(handle);
      }
    });
  }
  for (auto &thread : threads) thread.join();
  for (int i = 0; i < k_n_threads * k_n_each; ++i) {
    auto handle = accepted(*one_by_one, request(i));
    EXPECT_EQ(answers.at(static_cast<size_t>(i)), tokens_of(handle)) << i;
  }
  EXPECT_EQ(shared->stats().n_requests_failed, 0U);
}

TEST_F(EngineTest, EventsEndWithARequestEndAndThenThereAreNone) {
  const auto tested = engine();
  auto handle = accepted(*tested, greedy(prompt_, 2));
  std::vector<Event> events;
  while (auto event = handle.next()) events.push_back(std::move(*event));
  ASSERT_THAT(events, SizeIs(4));
  EXPECT_TRUE(std::holds_alternative<ChoiceEnd>(events[2]));
  EXPECT_TRUE(std::holds_alternative<RequestEnd>(events[3]));
  EXPECT_FALSE(handle.next());
  EXPECT_FALSE(handle.try_next());
}

TEST_F(EngineTest, AFullQueueRefusesWithoutLosingWhatWaits) {
  const auto tested = engine({.n_seqs_max = 1, .n_queue_max = 2});
  auto running = accepted(*tested, greedy(prompt_, -1));
  (void)running.next();  // it has left the queue
  auto one = accepted(*tested, greedy(prompt_, 2));
  auto two = accepted(*tested, greedy(prompt_, 2));
  EXPECT_EQ(refusal(*tested, greedy(prompt_, 2)), ErrorCode::queue_full);
  running.cancel();
  EXPECT_THAT(tokens_of(one), SizeIs(2));
  EXPECT_THAT(tokens_of(two), SizeIs(2));
  auto later = accepted(*tested, greedy(prompt_, 2));
  EXPECT_THAT(tokens_of(later), SizeIs(2));
}

TEST_F(EngineTest, AFullQueueTakesATenantThatHasLessOfIt) {
  const auto tested = engine({.n_seqs_max = 1, .n_queue_max = 2});
  auto running = accepted(*tested, greedy(prompt_, -1));
  (void)running.next();
  const auto of_tenant = [&](const char *tenant) {
    Request request = greedy(prompt_, 2);
    request.tenant = tenant;
    return request;
  };
  auto first = accepted(*tested, of_tenant("greedy"));
  auto second = accepted(*tested, of_tenant("greedy"));
  EXPECT_EQ(refusal(*tested, of_tenant("greedy")), ErrorCode::queue_full);
  auto small = accepted(*tested, of_tenant("small"));
  const auto event = second.next();
  ASSERT_TRUE(event && std::holds_alternative<RequestEnd>(*event));
  EXPECT_EQ(std::get<RequestEnd>(*event).error->code, ErrorCode::queue_full);
  running.cancel();
  EXPECT_THAT(tokens_of(first), SizeIs(2));
  EXPECT_THAT(tokens_of(small), SizeIs(2));
}

TEST_F(EngineTest, AHandleThatGoesTakesItsRequestWithIt) {
  const auto tested = engine();
  {
    // So long that it cannot have ended before this thread takes its next step.
    Request endless = greedy(prompt_, -1);
    endless.n_choices = 32;
    auto gone = accepted(*tested, endless);
  }
  auto other = accepted(*tested, greedy(prompt_, 3));
  EXPECT_THAT(tokens_of(other), SizeIs(3));
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  const auto n_ended = [&] {
    const EngineStats stats = tested->stats();
    return stats.n_requests_done + stats.n_requests_cancelled;
  };
  while (n_ended() < 2 && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
  EXPECT_EQ(tested->stats().n_requests_cancelled, 1U);
  EXPECT_EQ(tested->stats().n_running, 0U);
}

TEST_F(EngineTest, AnEngineThatGoesEndsWhatIsUnderWay) {
  // So many that they cannot all have been answered before this thread takes its next step.
  constexpr uint32_t n_requests = 200;
  auto tested = engine({.n_seqs_max = 1, .n_queue_max = n_requests});
  std::vector<RequestHandle> handles;
  for (uint32_t i = 0; i < n_requests; ++i)
    handles.push_back(accepted(*tested, greedy(prompt_, -1)));
  (void)handles.front().next();
  tested.reset();
  for (RequestHandle &handle : handles) {
    std::optional<Event> last;
    while (auto event = handle.next()) last = std::move(event);
    ASSERT_TRUE(last && std::holds_alternative<RequestEnd>(*last));
    const auto &error = std::get<RequestEnd>(*last).error;
    if (&handle == &handles.back()) {
      ASSERT_TRUE(error);
    }
    if (error) {
      EXPECT_EQ(error->code, ErrorCode::cancelled);
    }
  }
  handles.back().cancel();  // harmless
}

TEST_F(EngineTest, ASlowCallbackHoldsUpNoComputation) {
  std::mutex mutex;
  mutex.lock();
  const auto tested = engine();
  Request slow = greedy(prompt_, 4);
  slow.on_events = [&] { const std::lock_guard wait(mutex); };
  auto blocked = accepted(*tested, slow);
  auto other = accepted(*tested, greedy(prompt_, 6));
  EXPECT_THAT(tokens_of(other), SizeIs(6));
  EXPECT_THAT(tokens_of(blocked), SizeIs(4));
  mutex.unlock();
}

TEST_F(EngineTest, CallbacksComeWhenThereAreEvents) {
  std::mutex mutex;
  std::condition_variable called;
  int n_calls = 0;
  const auto tested = engine();
  Request request = greedy(prompt_, 3);
  request.on_events = [&] {
    const std::lock_guard lock(mutex);
    ++n_calls;
    called.notify_one();
  };
  auto handle = accepted(*tested, request);
  bool ended = false;
  for (int n_seen = 0; !ended;) {
    std::unique_lock lock(mutex);
    called.wait(lock, [&] { return n_calls > n_seen; });
    n_seen = n_calls;
    lock.unlock();
    while (const auto event = handle.try_next()) ended = std::holds_alternative<RequestEnd>(*event);
  }
}

TEST_F(EngineTest, NoCallbackComesOnceItsHandleHasGone) {
  std::atomic<int> n_calls = 0;
  std::atomic<bool> gone = false;
  std::atomic<bool> called_late = false;
  const auto tested = engine();
  for (int i = 0; i < 20; ++i) {
    gone = false;
    Request request = greedy(prompt_, -1);
    request.on_events = [&] {
      ++n_calls;
      if (gone) called_late = true;
    };
    {
      auto handle = accepted(*tested, request);
      const int n_before = n_calls;
      while (n_calls == n_before && handle.next()) {
      }
    }
    gone = true;
    auto other = accepted(*tested, greedy(prompt_, 2));
    (void)tokens_of(other);
  }
  EXPECT_GT(n_calls, 0);
  EXPECT_FALSE(called_late);
}

TEST_F(EngineTest, ACallbackMayGiveItsOwnHandleAway) {
  std::mutex mutex;
  std::condition_variable given;
  std::optional<RequestHandle> handle;
  bool done = false;
  const auto tested = engine();
  Request request = greedy(prompt_, -1);
  request.on_events = [&] {
    const std::lock_guard lock(mutex);
    if (!handle) return;
    handle.reset();
    done = true;
    given.notify_one();
  };
  std::unique_lock lock(mutex);
  handle.emplace(accepted(*tested, request));
  while (!done) {
    if (handle) (void)handle->try_next();
    given.wait_for(lock, std::chrono::milliseconds(1));
  }
}

TEST_F(EngineTest, WhatIsWrongWithARequestIsSaidAtOnce) {
  const auto tested = engine({.n_ctx = 16, .n_seqs_max = 4});
  EXPECT_EQ(refusal(*tested, greedy({}, 1)), ErrorCode::invalid_argument);
  EXPECT_EQ(refusal(*tested, greedy({48}, 1)), ErrorCode::invalid_argument);
  EXPECT_EQ(refusal(*tested, greedy({-1}, 1)), ErrorCode::invalid_argument);
  EXPECT_EQ(refusal(*tested, greedy(prompt_, -2)), ErrorCode::invalid_argument);
  EXPECT_EQ(refusal(*tested, greedy(std::vector<int32_t>(17, 1), 1)), ErrorCode::context_overflow);
  Request request = greedy(prompt_, 1);
  request.n_choices = 0;
  EXPECT_EQ(refusal(*tested, request), ErrorCode::invalid_argument);
  request.n_choices = 5;
  EXPECT_EQ(refusal(*tested, request), ErrorCode::invalid_argument);
  request.n_choices = 1;
  for (const auto &spans : std::vector<std::vector<RequestSpan>>{
           {{1, {}}}, {{0, {}}, {0, {}}}, {{0, {}}, {3, {}}, {2, {}}}, {{0, {{nullptr, 1}}}}}) {
    request.spans = spans;
    EXPECT_EQ(refusal(*tested, request), ErrorCode::invalid_argument);
  }
  request.spans = {
      {0, std::vector<WornAdapter>(
              257, {make_random_adapter(model_->loaded()->info.uses, 1, 0.1F, 1), 1})}};
  EXPECT_EQ(refusal(*tested, request), ErrorCode::invalid_argument);
  request.spans.clear();
  request.n_logprobs = 1001;
  EXPECT_EQ(refusal(*tested, request), ErrorCode::invalid_argument);
  request.n_logprobs.reset();
  request.sampling.top_p = 2;
  EXPECT_EQ(refusal(*tested, request), ErrorCode::invalid_argument);
  auto whole = accepted(*tested, greedy(std::vector<int32_t>(16, 1), 5));
  EXPECT_THAT(tokens_of(whole), SizeIs(1));
}

TEST_F(EngineTest, OptionsOutOfRangeAreRefused) {
  EXPECT_THROW((void)engine({.n_ubatch = 0}), std::invalid_argument);
  EXPECT_THROW((void)engine({.prefill_share = 0}), std::invalid_argument);
  EXPECT_THROW((void)engine({.prefill_share = 1.5F}), std::invalid_argument);
  EXPECT_THROW((void)engine({.n_seqs_max = 0}), std::invalid_argument);
  EXPECT_THROW((void)engine({.n_queue_max = 0}), std::invalid_argument);
  for (const double weight : {0.0, -1.0, 1e9, std::nan(""), double{INFINITY}})
    EXPECT_THROW((void)engine({.tenant_weights = {{"t", weight}}}), std::invalid_argument);
  constexpr uint32_t k_huge = std::numeric_limits<uint32_t>::max();
  EXPECT_THROW((void)engine({.n_ctx = k_huge}), std::invalid_argument);
  EXPECT_THROW((void)engine({.n_ubatch = k_huge}), std::invalid_argument);
  EXPECT_THROW((void)engine({.n_seqs_max = k_huge}), std::invalid_argument);
  EXPECT_THROW(Engine(nullptr), std::invalid_argument);
}

TEST_F(EngineTest, TheCacheIsAsLargeAsItsMemoryAllows) {
  const EngineOptions options{
      .kv_memory_bytes = 300'000, .n_threads = 1, .cache_type = CacheType::f32};
  const Engine tested(model_, options);
  const HParams &hp = model_->loaded()->hparams();
  const size_t bytes_per_token = size_t{2} * hp.n_layer * hp.n_embd_kv() * sizeof(float);
  const EngineStats stats = tested.stats();
  EXPECT_LE(stats.n_kv_tokens * bytes_per_token, options.kv_memory_bytes);
  EXPECT_GT((stats.n_kv_tokens + 32) * bytes_per_token, options.kv_memory_bytes);
  EXPECT_LE(tested.n_ctx(), hp.n_ctx_train);
  EXPECT_THROW(Engine(model_, {.kv_memory_bytes = 100}), LoadError);
  EXPECT_THROW(Engine(model_, {.n_ctx = 32, .kv_memory_bytes = 300'000}), std::invalid_argument);
}

TEST_F(EngineTest, OneSequenceNeverGrowsBeyondTheModelsContext) {
  const auto tested = engine({.n_ctx = 512});
  EXPECT_EQ(tested->n_ctx(), model_->n_ctx_train());
  auto handle = accepted(*tested, greedy(prompt_, -1));
  EXPECT_THAT(tokens_of(handle), SizeIs(model_->n_ctx_train() - prompt_.size() + 1));
}

TEST_F(EngineTest, LogprobsComeWithEveryToken) {
  const auto tested = engine();
  Request request = greedy(prompt_, 5);
  request.n_logprobs = 3;
  auto handle = accepted(*tested, request);
  int n_tokens = 0;
  while (const auto event = handle.next()) {
    const auto *token = std::get_if<TokenEvent>(&*event);
    if (token == nullptr) continue;
    ++n_tokens;
    EXPECT_LE(token->logprob, 0);
    ASSERT_THAT(token->top, SizeIs(3));
    EXPECT_EQ(token->top[0].token, token->token);
    EXPECT_EQ(token->top[0].logprob, token->logprob);
  }
  EXPECT_EQ(n_tokens, 5);
}

}  // namespace
}  // namespace patchbay
