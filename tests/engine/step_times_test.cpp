#include "engine/step_times.h"

#include <gtest/gtest.h>

namespace patchbay {
namespace {

TEST(StepTimes, AStepIsCountedInTheFirstClassThatHoldsIt) {
  StepTimes times;
  for (const double ms : {0.0, 0.125, 0.126, 0.25, 0.26, 1e9}) count_step(times, ms);
  EXPECT_EQ(times.n_steps_by_length[0], 2U);
  EXPECT_EQ(times.n_steps_by_length[1], 2U);
  EXPECT_EQ(times.n_steps_by_length[2], 1U);
  EXPECT_EQ(times.n_steps_by_length[StepTimes::k_n_classes - 1], 1U);
}

}  // namespace
}  // namespace patchbay
