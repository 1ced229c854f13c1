#include "base/thread_clock.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <future>
#include <thread>

namespace patchbay {
namespace {

using namespace std::chrono_literals;

void run_for(std::chrono::nanoseconds time) {
  const ThreadClock clock = ThreadClock::of_this_thread();
  const auto start = clock.now();
  while (clock.now() - start < time) {
  }
}

TEST(ThreadClock, BelongsToItsThread) {
  EXPECT_EQ(ThreadClock::of_this_thread().thread_id(), gettid());
}

TEST(ThreadClock, RunsWhileItsThreadRunsAndStandsWhileItSleeps) {
  std::promise<ThreadClock> clock_of_other;
  std::promise<void> go;
  std::promise<void> ran;
  std::promise<void> end;
  const std::jthread other([&] {
    clock_of_other.set_value(ThreadClock::of_this_thread());
    go.get_future().wait();
    run_for(20ms);
    ran.set_value();
    end.get_future().wait();
  });
  const ThreadClock clock = clock_of_other.get_future().get();
  run_for(20ms);  // this thread's time is not the other's
  EXPECT_LT(clock.now(), 15ms);
  go.set_value();
  ran.get_future().wait();
  EXPECT_GE(clock.now(), 20ms);
  end.set_value();
}

}  // namespace
}  // namespace patchbay
