#include "engine/step_schedule.h"

#include <gmock/gmock.h>

namespace patchbay {
namespace {

using testing::ElementsAre;

constexpr StepLimits k_limits{.n_ubatch = 10, .n_prefill_beside = 4};

TEST(ScheduleStep, SequencesThatDecodeGoFirstWhateverTheirAge) {
  const std::vector<SeqProgress> sequences{{30, 0}, {5, 4}, {9, 8}};
  EXPECT_THAT(schedule_step(sequences, k_limits), ElementsAre(4, 1, 1));
}

TEST(ScheduleStep, AloneAPromptTakesTheWholeStep) {
  const std::vector<SeqProgress> sequences{{30, 0}};
  EXPECT_THAT(schedule_step(sequences, k_limits), ElementsAre(10));
}

TEST(ScheduleStep, PromptsShareAStepInTheirOrder) {
  const std::vector<SeqProgress> sequences{{7, 0}, {8, 2}, {9, 0}};
  EXPECT_THAT(schedule_step(sequences, k_limits), ElementsAre(7, 3, 0));
}

TEST(ScheduleStep, ALongPromptNeverTakesMoreThanItsShareBesideOthers) {
  const std::vector<SeqProgress> sequences{{1000, 10}, {5, 4}};
  EXPECT_THAT(schedule_step(sequences, k_limits), ElementsAre(4, 1));
}

TEST(ScheduleStep, TheStepNeverGrowsBeyondItsLimit) {
  const std::vector<SeqProgress> sequences(12, SeqProgress{6, 5});
  const auto n_tokens = schedule_step(sequences, k_limits);
  EXPECT_EQ(std::count(n_tokens.begin(), n_tokens.end(), 1U), 10);
  EXPECT_THAT(schedule_step(std::vector<SeqProgress>{{9, 8}, {9, 8}, {30, 0}},
                            {.n_ubatch = 3, .n_prefill_beside = 3}),
              ElementsAre(1, 1, 1));
}

TEST(ScheduleStep, WithoutSequencesThereIsNothingToDo) {
  EXPECT_TRUE(schedule_step({}, k_limits).empty());
}

}  // namespace
}  // namespace patchbay
