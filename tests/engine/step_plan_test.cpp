#include "engine/step_plan.h"

#include <gmock/gmock.h>

namespace patchbay {
namespace {

using testing::ElementsAre;

const std::vector<int32_t> k_tokens{7, 8, 9, 10, 11};
const AdapterSet k_first{{0, 1}};
const AdapterSet k_second{{1, 1}};
const std::vector<AdapterSpan> k_spans{{0, {}}, {2, k_first}, {4, k_second}};
const std::vector<AdapterSpan> k_base{{0, {}}};

template <class T>
std::vector<T> each(const StepPlan &plan, T StepRow::*member) {
  std::vector<T> values;
  for (const auto &row : plan.rows) values.push_back(row.*member);
  return values;
}

std::vector<std::pair<int32_t, int32_t>> places(const StepPlan &plan) {
  std::vector<std::pair<int32_t, int32_t>> all;
  for (const auto &row : plan.rows) all.emplace_back(row.place.seq_id, row.place.pos);
  return all;
}

Chunk chunk(size_t first, size_t n_tokens, bool all_logits = false) {
  return {.tokens = k_tokens,
          .spans = k_spans,
          .first = first,
          .n_tokens = n_tokens,
          .all_logits = all_logits};
}

StepPlan plan_one(const Chunk &chunk) { return plan_step(std::array{chunk}); }

TEST(PlanStep, EachTokenWearsTheSetOfItsSpan) {
  const auto plan = plan_one(chunk(0, 5));
  EXPECT_THAT(each(plan, &StepRow::token), testing::ElementsAreArray(k_tokens));
  EXPECT_THAT(each(plan, &StepRow::i_set), ElementsAre(0, 0, 1, 1, 2));
  EXPECT_THAT(plan.sets, ElementsAre(AdapterSet{}, k_first, k_second));
  EXPECT_EQ(plan.rows[4].place.pos, 4);
}

TEST(PlanStep, AChunkMayBeginInsideASpan) {
  const auto plan = plan_one(chunk(3, 2));
  EXPECT_THAT(each(plan, &StepRow::token), ElementsAre(10, 11));
  EXPECT_THAT(plan.sets, ElementsAre(k_first, k_second));
  EXPECT_EQ(plan.rows[0].place.pos, 3);
}

TEST(PlanStep, ASpanBehindTheTokensRulesNone) {
  const std::vector<AdapterSpan> spans{{0, k_first}, {9, k_second}};
  const auto plan = plan_one({.tokens = k_tokens, .spans = spans, .first = 0, .n_tokens = 5});
  EXPECT_THAT(plan.sets, ElementsAre(k_first));
  EXPECT_EQ(plan.rows.size(), 5U);
}

TEST(PlanStep, OnlyTheSequencesLastTokenWantsLogitsUnlessAllDo) {
  EXPECT_THAT(each(plan_one(chunk(3, 2)), &StepRow::wants_logits), ElementsAre(false, true));
  EXPECT_THAT(each(plan_one(chunk(0, 2)), &StepRow::wants_logits), ElementsAre(false, false));
  EXPECT_THAT(each(plan_one(chunk(0, 2, true)), &StepRow::wants_logits), ElementsAre(true, true));
}

TEST(PlanStep, RowsThatWearTheSameAreNeighboursAndTheBaseGoesFirst) {
  const std::vector<AdapterSpan> second{{0, k_second}};
  const std::vector<AdapterSpan> first{{0, k_first}};
  const std::vector<int32_t> tokens{1, 2};
  const auto of = [&](int32_t seq_id, const std::vector<AdapterSpan> &spans) {
    return Chunk{.seq_id = seq_id, .tokens = tokens, .spans = spans, .first = 1, .n_tokens = 1};
  };
  const auto plan = plan_step(std::array{of(0, second), of(1, first), of(2, k_base), of(3, second),
                                         of(4, k_base), of(5, first)});
  EXPECT_THAT(places(plan), ElementsAre(std::pair(2, 1), std::pair(4, 1), std::pair(1, 1),
                                        std::pair(5, 1), std::pair(0, 1), std::pair(3, 1)));
  EXPECT_THAT(plan.sets, ElementsAre(AdapterSet{}, k_first, k_second));
  EXPECT_THAT(each(plan, &StepRow::i_set), ElementsAre(0, 0, 1, 1, 2, 2));
}

TEST(PlanStep, TheSameAdapterAtAnotherStrengthIsAnotherSet) {
  const std::vector<AdapterSpan> half{{0, {{0, 0.5F}}}};
  const std::vector<AdapterSpan> full{{0, {{0, 1}}}};
  const auto plan = plan_step(
      std::array{Chunk{.seq_id = 0, .tokens = k_tokens, .spans = full, .first = 0, .n_tokens = 1},
                 Chunk{.seq_id = 1, .tokens = k_tokens, .spans = half, .first = 0, .n_tokens = 1}});
  EXPECT_EQ(plan.sets.size(), 2U);
}

TEST(PlanStep, AnEmbeddingWantsTheHiddenStatesThatItsPoolingReads) {
  const auto wanted = [](Pooling pooling) {
    Chunk part = chunk(0, 5);
    part.pooling = pooling;
    const StepPlan plan = plan_one(part);
    EXPECT_THAT(each(plan, &StepRow::wants_logits), testing::Each(false));
    return each(plan, &StepRow::wants_hidden);
  };
  EXPECT_THAT(wanted(Pooling::mean), testing::Each(true));
  EXPECT_THAT(wanted(Pooling::none), testing::Each(true));
  EXPECT_THAT(wanted(Pooling::cls), ElementsAre(true, false, false, false, false));
  EXPECT_THAT(wanted(Pooling::last), ElementsAre(false, false, false, false, true));
}

}  // namespace
}  // namespace patchbay
