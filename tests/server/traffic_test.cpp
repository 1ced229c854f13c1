#include "server/traffic.h"

#include <gmock/gmock.h>

#include "server/change_clock.h"

namespace patchbay {
namespace {

uint64_t n_requests(TrafficCounters &counters, const std::string &name, Outcome outcome) {
  return counters.of(name)->requests[static_cast<size_t>(outcome)];
}

TEST(RequestMeter, CountsOnceForEachAdapterAndOnceInAll) {
  TrafficCounters counters;
  RequestMeter meter(counters, {"x", "y"}, RequestMeter::Clock::now());
  for (const uint32_t i_choice : {0U, 1U, 0U}) meter.note(TokenEvent{.i_choice = i_choice});
  meter.note(RequestEnd{
      .usage = {.n_tokens_prompt = 7, .n_tokens_cached = 5, .n_tokens_out = 3, .queue_ms = 2000}});
  for (const char *name : {"x", "y"}) {
    const auto traffic = counters.of(name);
    EXPECT_EQ(n_requests(counters, name, Outcome::done), 1U);
    EXPECT_EQ(traffic->n_tokens_prompt, 7U);
    EXPECT_EQ(traffic->n_tokens_cached, 5U);
    EXPECT_EQ(traffic->n_tokens_out, 3U);
    EXPECT_DOUBLE_EQ(traffic->queue.counts().sum, 2);
    EXPECT_GT(traffic->first_token.counts().sum, 0);
    uint64_t n_between = 0;
    for (const uint64_t count : traffic->between_tokens.counts().counts) n_between += count;
    EXPECT_EQ(n_between, 1U) << "only tokens of one answer follow each other";
  }
  EXPECT_EQ(counters.totals().n_tokens_prompt_computed, 2U);
  EXPECT_EQ(counters.totals().n_tokens_cached, 5U);
  EXPECT_EQ(counters.totals().n_tokens_out, 3U);
  EXPECT_EQ(counters.totals().n_tokens_longest, 9U) << "the prompt with the longer answer";
}

TEST(RequestMeter, KeepsTheLengthOfTheLongest) {
  TrafficCounters counters;
  for (const uint32_t n_prompt : {3U, 8U, 5U}) {
    RequestMeter(counters, {}, RequestMeter::Clock::now())
        .note(RequestEnd{.usage = {.n_tokens_prompt = n_prompt}});
  }
  EXPECT_EQ(counters.totals().n_tokens_longest, 8U);
}

TEST(RequestMeter, KnowsHowARequestEnded) {
  TrafficCounters counters;
  for (const auto code : {ErrorCode::internal, ErrorCode::deadline_exceeded, ErrorCode::queue_full,
                          ErrorCode::unavailable}) {
    RequestMeter(counters, {}, RequestMeter::Clock::now())
        .note(RequestEnd{.error = Error{code, "words"}});
  }
  RequestMeter(counters, {}, RequestMeter::Clock::now())
      .refuse({ErrorCode::queue_full, "too much is waiting"});
  {
    const RequestMeter gone(counters, {}, RequestMeter::Clock::now());
  }
  EXPECT_EQ(n_requests(counters, "base", Outcome::failed), 1U);
  EXPECT_EQ(n_requests(counters, "base", Outcome::expired), 1U);
  EXPECT_EQ(n_requests(counters, "base", Outcome::refused), 3U);
  EXPECT_EQ(n_requests(counters, "base", Outcome::cancelled), 1U);
  EXPECT_EQ(n_requests(counters, "base", Outcome::done), 0U);
}

TEST(TrafficCounters, ForgetsTheNameThatWasUsedLongestAgo) {
  TrafficCounters counters(2);
  counters.of("x")->n_tokens_out = 1;
  counters.of("y")->n_tokens_out = 2;
  (void)counters.of("x");
  counters.of("z")->n_tokens_out = 3;
  EXPECT_EQ(counters.find("y"), nullptr);
  ASSERT_NE(counters.find("x"), nullptr);
  EXPECT_EQ(counters.find("x")->n_tokens_out, 1U);
}

TEST(ChangeClock, KeepsTheTimeOfTheLastChange) {
  ChangeClock clock;
  EXPECT_EQ(clock.note("a", 10), 10);
  EXPECT_EQ(clock.note("a", 11), 10);
  EXPECT_EQ(clock.note("b", 12), 12);
  EXPECT_EQ(clock.note("a", 13), 13);
}

}  // namespace
}  // namespace patchbay
