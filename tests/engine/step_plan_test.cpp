#include "engine/step_plan.h"

#include <gmock/gmock.h>

namespace patchbay {
namespace {

const std::vector<int32_t> k_tokens{7, 8, 9, 10, 11};
const std::vector<AdapterSpan> k_spans{{0, {}}, {2, {{0, 1}}}, {4, {{1, 1}}}};

template <class T>
std::vector<T> each(const StepPlan &plan, T StepRow::*member) {
  std::vector<T> values;
  for (const auto &row : plan.rows) values.push_back(row.*member);
  return values;
}

TEST(PlanChunk, EachTokenWearsTheSetOfItsSpan) {
  const auto plan = plan_chunk(k_tokens, {.seq_id = 3, .first = 0, .n_tokens = 5}, k_spans);
  EXPECT_THAT(each(plan, &StepRow::token), testing::ElementsAreArray(k_tokens));
  EXPECT_THAT(each(plan, &StepRow::i_set), testing::ElementsAre(0, 0, 1, 1, 2));
  EXPECT_EQ(plan.rows[4].place.pos, 4);
  EXPECT_EQ(plan.rows[4].place.seq_id, 3);
}

TEST(PlanChunk, AChunkMayBeginInsideASpan) {
  const auto plan = plan_chunk(k_tokens, {.first = 3, .n_tokens = 2}, k_spans);
  EXPECT_THAT(each(plan, &StepRow::token), testing::ElementsAre(10, 11));
  EXPECT_THAT(each(plan, &StepRow::i_set), testing::ElementsAre(1, 2));
  EXPECT_EQ(plan.rows[0].place.pos, 3);
}

TEST(PlanChunk, OnlyTheSequencesLastTokenWantsLogitsUnlessAllDo) {
  EXPECT_THAT(
      each(plan_chunk(k_tokens, {.first = 3, .n_tokens = 2}, k_spans), &StepRow::wants_logits),
      testing::ElementsAre(false, true));
  EXPECT_THAT(
      each(plan_chunk(k_tokens, {.first = 0, .n_tokens = 2}, k_spans), &StepRow::wants_logits),
      testing::ElementsAre(false, false));
  EXPECT_THAT(each(plan_chunk(k_tokens, {.n_tokens = 2, .all_logits = true}, k_spans),
                   &StepRow::wants_logits),
              testing::ElementsAre(true, true));
}

}  // namespace
}  // namespace patchbay
