#include "engine/engine_core.h"

#include <gmock/gmock.h>

#include <list>

#include "engine/core_support.h"
#include "lora/packed_adapter.h"
#include "lora/random_adapter.h"

namespace patchbay {
namespace {

using testing::SizeIs;

class EngineCoreTest : public testing::Test {
 protected:
  EngineCoreTest() : model_(load_tiny(tiny_llama(), dir_)) {}

  /// Submits in order of calls.
  Running &submit(EngineCore &core, Request request) {
    Running &running = running_.emplace_back(std::move(request));
    running.job->arrival = running_.size();
    core.enqueue(running.job);
    return running;
  }

  static Request greedy(std::vector<int32_t> prompt, int32_t n_predict) {
    return {.prompt = std::move(prompt), .sampling = {.temperature = 0}, .n_predict = n_predict};
  }

  static void run(EngineCore &core) {
    while (core.step()) {
    }
  }

  TempDir dir_;
  std::shared_ptr<const LoadedModel> model_;
  std::list<Running> running_;
  const std::vector<int32_t> prompt_{3, 9, 27, 1, 9};
};

TEST_F(EngineCoreTest, ARequestEndsWithItsUsage) {
  const auto core = make_core(model_);
  Running &running = submit(*core, greedy(prompt_, 4));
  run(*core);
  running.drain();
  ASSERT_TRUE(running.end);
  EXPECT_FALSE(running.end->error);
  EXPECT_THAT(running.choices[0].tokens, SizeIs(4));
  EXPECT_EQ(running.choices[0].reason, StopReason::length);
  EXPECT_EQ(running.end->usage.n_tokens_prompt, 5U);
  EXPECT_EQ(running.end->usage.n_tokens_out, 4U);
  EXPECT_EQ(core->stats().n_requests_done, 1U);
  EXPECT_EQ(core->stats().n_kv_tokens_used, 0U);
}

TEST_F(EngineCoreTest, ALongPromptLetsOthersHaveTheirTokenInEveryStep) {
  const auto core =
      make_core(model_, {.limits = {.n_ubatch = 16, .n_prefill_beside = 4, .n_seqs_max = 4}});
  Running &short_one = submit(*core, greedy({1, 2}, 20));
  core->step();
  Running &long_one = submit(*core, greedy(std::vector<int32_t>(40, 7), 1));
  for (size_t n_tokens = 2; n_tokens <= 10; ++n_tokens) {
    core->step();
    short_one.drain();
    EXPECT_THAT(short_one.choices[0].tokens, SizeIs(n_tokens));
    long_one.drain();
    EXPECT_THAT(long_one.choices[0].tokens, SizeIs(0));
  }
  run(*core);
  long_one.drain();
  EXPECT_THAT(long_one.choices[0].tokens, SizeIs(1));
}

TEST_F(EngineCoreTest, ChoicesShareThePromptAndDrawForThemselves) {
  const auto core = make_core(model_);
  Request request = greedy(prompt_, 6);
  request.n_choices = 3;
  request.sampling = {.temperature = 1.5F, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 7};
  Running &running = submit(*core, request);
  core->step();
  EXPECT_EQ(core->stats().n_tokens_computed, prompt_.size());
  run(*core);
  running.drain();
  EXPECT_EQ(core->stats().n_tokens_computed, prompt_.size() + 3 * 5);
  EXPECT_NE(running.choices[0].tokens, running.choices[1].tokens);
  EXPECT_NE(running.choices[1].tokens, running.choices[2].tokens);
  for (uint32_t i = 0; i < 3; ++i) {
    Request alone = request;
    alone.n_choices = 1;
    alone.sampling.seed += i;
    EXPECT_EQ(run_cold(model_, alone).choices[0], running.choices[i]) << i;
  }
}

TEST_F(EngineCoreTest, WithoutRoomTheYoungestWaitsAndLosesNothing) {
  const auto core = make_core(model_, {.n_ctx = 24, .block_size = 4});
  Running &older = submit(*core, greedy(prompt_, 12));
  Running &younger = submit(*core, greedy({8, 8, 2}, 12));
  run(*core);
  for (Running *running : {&older, &younger}) {
    running->drain();
    EXPECT_FALSE(running->end->error);
    EXPECT_EQ(running->choices, run_cold(model_, running->job->request).choices);
  }
  EXPECT_EQ(older.end->usage.n_preemptions, 0U);
  EXPECT_GT(younger.end->usage.n_preemptions, 0U);
}

TEST_F(EngineCoreTest, WhoWaitsHoldsNoSeatsThatOthersWaitFor) {
  const auto core =
      make_core(model_, {.n_ctx = 48,
                         .block_size = 4,
                         .limits = {.n_ubatch = 4, .n_prefill_beside = 1, .n_seqs_max = 4}});
  Request choices = greedy(std::vector<int32_t>(24, 5), 4);
  choices.n_choices = 3;
  Request growing = greedy({1, 2, 3, 4}, 40);
  growing.priority = 1;
  growing.ignore_eos = true;
  Running &low = submit(*core, choices);
  core->step();
  Running &high = submit(*core, growing);
  while (core->stats().n_preemptions == 0 && core->step()) {
  }
  ASSERT_GT(core->stats().n_preemptions, 0U);
  Request wide = greedy({7, 8}, 2);
  wide.priority = 1;
  wide.n_choices = 4;
  Running &all_seats = submit(*core, wide);
  run(*core);
  for (Running *running : {&low, &high, &all_seats}) {
    running->drain();
    ASSERT_TRUE(running->end);
    EXPECT_FALSE(running->end->error);
    EXPECT_EQ(running->choices, run_cold(model_, running->job->request).choices);
  }
}

TEST_F(EngineCoreTest, LogitsOfAPromptThatIsComputedAgainComeOnce) {
  const auto core =
      make_core(model_, {.n_ctx = 48,
                         .block_size = 4,
                         .limits = {.n_ubatch = 4, .n_prefill_beside = 2, .n_seqs_max = 4}});
  Request growing = greedy({1, 2, 3, 4}, 40);
  growing.ignore_eos = true;
  growing.priority = 1;
  Request asking = greedy(std::vector<int32_t>(32, 5), 2);
  asking.prompt_logits = true;
  Running &low = submit(*core, asking);
  core->step();
  submit(*core, growing);
  run(*core);
  low.drain();
  EXPECT_GT(low.end->usage.n_preemptions, 0U);
  EXPECT_EQ(low.logits, run_cold(model_, asking).logits);
}

TEST_F(EngineCoreTest, TheContextLimitEndsOneRequestAndNoOther) {
  const auto core = make_core(model_, {.n_ctx = 16, .block_size = 4});
  Running &endless = submit(*core, greedy(prompt_, -1));
  Running &other = submit(*core, greedy({8, 8, 2}, 3));
  run(*core);
  endless.drain();
  other.drain();
  EXPECT_EQ(endless.choices[0].reason, StopReason::length);
  // The last token drawn needs no room of its own.
  EXPECT_THAT(endless.choices[0].tokens, SizeIs(16 - prompt_.size() + 1));
  EXPECT_EQ(other.choices, run_cold(model_, other.job->request).choices);
}

TEST_F(EngineCoreTest, ACancelledRequestIsGoneWithinOneStep) {
  const auto core = make_core(model_);
  Running &running = submit(*core, greedy(prompt_, -1));
  Running &queued = submit(*core, greedy(prompt_, -1));
  core->step();
  EXPECT_GT(core->stats().n_kv_tokens_used, 0U);
  running.events->cancel();
  queued.events->cancel();
  core->step();
  EXPECT_EQ(core->stats().n_kv_tokens_used, 0U);
  for (Running *one : {&running, &queued}) {
    one->drain();
    ASSERT_TRUE(one->end && one->end->error);
    EXPECT_EQ(one->end->error->code, ErrorCode::cancelled);
  }
  EXPECT_EQ(core->stats().n_requests_cancelled, 2U);
}

TEST_F(EngineCoreTest, ARequestPastItsDeadlineEndsAsThat) {
  const auto core = make_core(model_);
  Request request = greedy(prompt_, -1);
  request.deadline = Clock::now() - std::chrono::seconds(1);
  Running &late = submit(*core, request);
  run(*core);
  late.drain();
  ASSERT_TRUE(late.end && late.end->error);
  EXPECT_EQ(late.end->error->code, ErrorCode::deadline_exceeded);
}

TEST_F(EngineCoreTest, AHigherPriorityIsAdmittedFirst) {
  const auto core =
      make_core(model_, {.limits = {.n_ubatch = 16, .n_prefill_beside = 4, .n_seqs_max = 1}});
  Running &first = submit(*core, greedy(prompt_, 2));
  Request urgent = greedy(prompt_, 2);
  urgent.priority = 1;
  Running &second = submit(*core, urgent);
  core->step();
  second.drain();
  first.drain();
  EXPECT_THAT(second.choices[0].tokens, SizeIs(1));
  EXPECT_THAT(first.choices[0].tokens, SizeIs(0));
}

TEST_F(EngineCoreTest, NumbersThatOverflowEndTheirOwnRequestOnly) {
  const auto core = make_core(model_);
  const auto adapter = make_random_adapter(model_->info.uses, 2, 1, 1);
  Request broken = greedy(prompt_, 4);
  broken.spans = {{0, {{adapter, 3e38F}}}};
  Running &bad = submit(*core, broken);
  Running &good = submit(*core, greedy({8, 8, 2}, 4));
  run(*core);
  bad.drain();
  good.drain();
  ASSERT_TRUE(bad.end && bad.end->error);
  EXPECT_EQ(bad.end->error->code, ErrorCode::invalid_argument);
  EXPECT_EQ(good.choices, run_cold(model_, good.job->request).choices);
  EXPECT_EQ(core->stats().n_kv_tokens_used, 0U);
}

TEST_F(EngineCoreTest, AnAdapterOfAnotherModelEndsItsOwnRequestOnly) {
  TempDir dir;
  const auto other_model = load_tiny(tiny_gemma3(), dir);
  const auto core = make_core(model_);
  Request foreign = greedy(prompt_, 4);
  foreign.spans = {{0, {{make_random_adapter(other_model->info.uses, 2, 0.1F, 1), 1}}}};
  Running &bad = submit(*core, foreign);
  Running &good = submit(*core, greedy({8, 8, 2}, 4));
  run(*core);
  bad.drain();
  good.drain();
  ASSERT_TRUE(bad.end && bad.end->error);
  EXPECT_EQ(bad.end->error->code, ErrorCode::invalid_argument);
  EXPECT_FALSE(good.end->error);
}

TEST_F(EngineCoreTest, AdaptersBeyondTheirMemoryLeaveOnceNobodyWearsThem) {
  const auto one = make_random_adapter(model_->info.uses, 2, 0.1F, 1);
  const auto two = make_random_adapter(model_->info.uses, 2, 0.1F, 2);
  // Room for one of them and a part of the other.
  const size_t n_bytes = (one->size_bytes + PackedAdapter(*one).size_bytes()) * 3 / 2;
  const auto core = make_core(model_, {.limits = {.adapter_bytes = n_bytes}});
  const auto wearing = [&](const std::shared_ptr<const Adapter> &adapter) {
    Request request = greedy(prompt_, 3);
    request.spans = {{0, {{adapter, 1}}}};
    return request;
  };
  submit(*core, wearing(one));
  submit(*core, wearing(two));
  core->step();
  EXPECT_EQ(core->stats().n_adapters, 2U);
  EXPECT_THAT(core->stats().residency.resident, SizeIs(2));
  run(*core);
  EXPECT_EQ(core->stats().n_adapters, 1U);
  const ResidencyStats residency = core->stats().residency;
  EXPECT_THAT(residency.resident, testing::ElementsAre(stats_key_of(*two)));
  EXPECT_EQ(residency.n_loaded, 2U);
  EXPECT_EQ(residency.n_evicted, 1U);
  submit(*core, wearing(one));
  run(*core);
  for (Running &running : running_) {
    running.drain();
    EXPECT_EQ(running.choices, run_cold(model_, running.job->request).choices);
  }
}

TEST_F(EngineCoreTest, WhatIsDoneIsCountedForTenantAndAdapter) {
  const auto core = make_core(model_);
  const auto adapter = make_random_adapter(model_->info.uses, 16, 0.1F, 1);
  Request adapted = greedy(prompt_, 4);
  adapted.tenant = "t";
  adapted.spans = {{0, {{adapter, 1}}}};
  submit(*core, adapted);
  Request plain = greedy({8, 8, 2}, 2);
  plain.tenant = "t";
  submit(*core, plain);
  Running &cancelled = submit(*core, plain);
  cancelled.events->cancel();
  Request late = plain;
  late.deadline = Clock::now() - std::chrono::seconds(1);
  submit(*core, late);
  EXPECT_EQ(core->stats().tenants["t"].n_queued, 4U);
  core->step();
  EXPECT_EQ(core->stats().tenants["t"].n_running, 2U);
  run(*core);
  const EngineStats stats = core->stats();
  const TenantStats tenant = stats.tenants.at("t");
  EXPECT_EQ(tenant.n_running + tenant.n_queued, 0U);
  EXPECT_EQ(tenant.n_requests_done, 2U);
  EXPECT_EQ(tenant.n_requests_cancelled, 1U);
  EXPECT_EQ(tenant.n_requests_failed, 1U);
  EXPECT_EQ(tenant.n_requests_expired, 1U);
  EXPECT_EQ(tenant.n_tokens_prompt, 8U);
  EXPECT_EQ(tenant.n_tokens_computed, 8U + 3 + 1) << "the last token is not computed";
  EXPECT_EQ(tenant.n_tokens_out, 6U);
  EXPECT_EQ(tenant.cost, 1.25 * (5 + 2 * 4) + (3 + 2 * 2)) << "16 ranks cost a quarter more";
  EXPECT_GE(tenant.queue_ms, tenant.queue_worst_ms);
  EXPECT_GT(tenant.queue_worst_ms, 0);
  ASSERT_THAT(stats.adapters, SizeIs(2));
  EXPECT_EQ(stats.adapters.at("base").n_tokens_out, 2U);
  EXPECT_EQ(stats.adapters.begin()->second.name, adapter->name);
  EXPECT_EQ(stats.adapters.begin()->second.n_tokens_out, 4U);
}

TEST_F(EngineCoreTest, PublishingChangesWhatHasChanged) {
  const auto core = make_core(model_);
  EngineStats published;
  for (int i = 0; i < 30; ++i) {
    Request request = greedy(prompt_, i % 4);
    request.tenant = std::to_string(i % 7);
    submit(*core, request);
    core->step();
    if (i % 3 == 0) core->publish(published);
  }
  run(*core);
  core->publish(published);
  const EngineStats whole = core->stats();
  EXPECT_EQ(published.n_tokens_out, whole.n_tokens_out);
  EXPECT_EQ(published.n_requests_done, 30U);
  ASSERT_THAT(published.tenants, SizeIs(7));
  for (const auto &[name, tenant] : whole.tenants) {
    EXPECT_EQ(published.tenants[name].n_tokens_out, tenant.n_tokens_out) << name;
    EXPECT_EQ(published.tenants[name].n_running + published.tenants[name].n_queued, 0U) << name;
    EXPECT_EQ(published.tenants[name].cost, tenant.cost) << name;
  }
  EXPECT_EQ(published.adapters["base"].n_requests_done, 30U);
}

TEST_F(EngineCoreTest, WhatThePrefixCacheHoldsIsNotCharged) {
  const auto core = make_core(model_);
  const std::vector<int32_t> prompt(12, 5);
  for (const char *tenant : {"t", "t", "other"}) {
    Request request = greedy(prompt, 1);
    request.tenant = tenant;
    submit(*core, request);
    run(*core);
  }
  const EngineStats stats = core->stats();
  const TenantStats &tenant = stats.tenants.at("t");
  ASSERT_GT(tenant.n_tokens_cached, 0U);
  EXPECT_EQ(tenant.n_tokens_computed + tenant.n_tokens_cached, tenant.n_tokens_prompt);
  EXPECT_EQ(tenant.cost, static_cast<double>(tenant.n_tokens_computed) + 2 * 2);
  EXPECT_EQ(stats.tenants.at("other").cost, 12 + 2);
}

TEST_F(EngineCoreTest, WhatIsComputedAgainIsCountedAndNotCharged) {
  const auto core = make_core(model_, {.n_ctx = 24, .block_size = 4});
  Request request = greedy(prompt_, 12);
  submit(*core, request);
  request.tenant = "younger";
  Running &younger = submit(*core, request);
  run(*core);
  younger.drain();
  ASSERT_GT(younger.end->usage.n_preemptions, 0U);
  const TenantStats tenant = core->stats().tenants["younger"];
  EXPECT_EQ(tenant.n_preemptions, younger.end->usage.n_preemptions);
  EXPECT_GT(tenant.n_tokens_computed, prompt_.size() + 11);
  EXPECT_EQ(tenant.cost, static_cast<double>(prompt_.size()) + 2 * 12);
}

TEST_F(EngineCoreTest, AQueueThatIsTooLongGivesUpTheLastOfTheTenantWithMost) {
  const auto core = make_core(
      model_,
      {.limits = {.n_ubatch = 16,
                  .n_prefill_beside = 4,
                  .n_seqs_max = 1,
                  .n_queue_max = 3,
                  .keep_prefixes = false}});  // whose prompt is known goes first within the slack
  std::vector<Running *> greedy_ones;
  Request request = greedy(prompt_, 2);
  request.tenant = "greedy";
  for (int i = 0; i < 3; ++i) greedy_ones.push_back(&submit(*core, request));
  request.tenant = "small";
  Running &small = submit(*core, request);
  for (Running *running : greedy_ones) running->drain();
  ASSERT_TRUE(greedy_ones[2]->end && greedy_ones[2]->end->error);
  EXPECT_EQ(greedy_ones[2]->end->error->code, ErrorCode::queue_full);
  EXPECT_FALSE(greedy_ones[1]->end);
  core->step();
  core->step();
  core->step();
  small.drain();
  EXPECT_THAT(small.choices[0].tokens, SizeIs(testing::Ge(1U))) << "second after one of the other";
}

TEST_F(EngineCoreTest, TheTimeOfStepsIsAccountedFor) {
  const auto core = make_core(model_);
  submit(*core, greedy(prompt_, 8));
  run(*core);
  const EngineStats stats = core->stats();
  const StepTimes &times = stats.step_times;
  uint64_t n_steps = 0;
  for (const uint64_t n : times.n_steps_by_length) n_steps += n;
  EXPECT_EQ(n_steps, stats.n_steps);
  for (const double ms : {times.admit_ms, times.plan_ms, times.compute_ms, times.sample_ms})
    EXPECT_GT(ms, 0);
  EXPECT_GT(times.compute_ms, times.plan_ms);
}

TEST_F(EngineCoreTest, OneGraphServesEveryMixOfAdapters) {
  const auto core = make_core(model_);
  std::vector<std::shared_ptr<const Adapter>> adapters;
  for (uint64_t seed = 0; seed < 6; ++seed)
    adapters.push_back(make_random_adapter(model_->info.uses, 4, 0.1F, seed));
  for (size_t i = 0; i < 4; ++i) {
    Request request = greedy({static_cast<int32_t>(i)}, 30);
    request.ignore_eos = true;
    request.spans = {{0, {{adapters[i], 1}}}};
    submit(*core, request);
  }
  core->step();
  core->step();
  const uint64_t n_built = core->stats().n_graphs_built;
  for (int i = 0; i < 20; ++i) core->step();
  EXPECT_EQ(core->stats().n_graphs_built, n_built);
}

}  // namespace
}  // namespace patchbay
