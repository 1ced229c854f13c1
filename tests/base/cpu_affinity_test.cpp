#include "base/cpu_affinity.h"

#include <gtest/gtest.h>

#include <algorithm>

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
    const AffinityScope scope(cpu);
    EXPECT_EQ(allowed_cpus(), std::vector{cpu});
    EXPECT_EQ(n_allowed_cpus(), 1U);
    EXPECT_EQ(sched_getcpu(), cpu);
  }
  EXPECT_EQ(allowed_cpus(), before);
}

TEST(AffinityScope, LeavesTheThreadAloneWhenTheCpuIsNotThere) {
  const std::vector<int> before = allowed_cpus();
  {
    const AffinityScope scope(CPU_SETSIZE - 1);
    EXPECT_EQ(allowed_cpus(), before);
  }
  EXPECT_EQ(allowed_cpus(), before);
}

}  // namespace
}  // namespace patchbay
