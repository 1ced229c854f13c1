#include "base/cpu_affinity.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <future>
#include <memory>
#include <thread>

namespace patchbay {
namespace {

TEST(AllowedCpus, AreThoseOfTheCallingThread) {
  const std::vector<int> cpus = allowed_cpus();
  ASSERT_FALSE(cpus.empty());
  EXPECT_TRUE(std::ranges::is_sorted(cpus));
  EXPECT_NE(std::ranges::find(cpus, sched_getcpu()), cpus.end());
}

TEST(AllowedCpus, AreCounted) { EXPECT_EQ(n_allowed_cpus(), allowed_cpus().size()); }

TEST(AffinityScope, KeepsTheThreadOnOneCpuAndThenPutsItBack) {
  const std::vector<int> before = allowed_cpus();
  for (const int cpu : before) {
    const AffinityScope scope(std::array{cpu});
    EXPECT_EQ(allowed_cpus(), std::vector{cpu});
    EXPECT_EQ(n_allowed_cpus(), 1U);
    EXPECT_EQ(sched_getcpu(), cpu);
  }
  EXPECT_EQ(allowed_cpus(), before);
}

TEST(AffinityScope, LeavesTheThreadAloneWhenTheCpuIsNotThere) {
  const std::vector<int> before = allowed_cpus();
  {
    const AffinityScope scope(std::array{CPU_SETSIZE - 1});
    EXPECT_EQ(allowed_cpus(), before);
  }
  EXPECT_EQ(allowed_cpus(), before);
}

TEST(AffinityScope, MovesAnotherThread) {
  const std::vector<int> before = allowed_cpus();
  std::promise<pid_t> id;
  std::promise<void> moved;
  std::promise<void> moved_back;
  std::promise<std::vector<int>> inside;
  std::vector<int> after;
  std::jthread other([&] {
    id.set_value(gettid());
    moved.get_future().wait();
    inside.set_value(allowed_cpus());
    moved_back.get_future().wait();
    after = allowed_cpus();
  });
  auto scope = std::make_unique<AffinityScope>(std::array{before.back()}, id.get_future().get());
  moved.set_value();
  EXPECT_EQ(inside.get_future().get(), std::vector{before.back()});
  scope.reset();
  moved_back.set_value();
  other.join();
  EXPECT_EQ(after, before);
  EXPECT_EQ(allowed_cpus(), before);
}

}  // namespace
}  // namespace patchbay
