#include "engine/compute_options.h"

#include <gtest/gtest.h>

#include <array>

#include "base/cpu_affinity.h"

namespace patchbay {
namespace {

TEST(ComputeOptions, CountOnlyTheCpusThatAreAllowed) {
  const AffinityScope scope(std::array{allowed_cpus().front()});
  EXPECT_EQ(compute_threads(0), 1U);
  EXPECT_EQ(compute_threads(8), 1U);
}

}  // namespace
}  // namespace patchbay
