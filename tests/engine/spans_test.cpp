#include "engine/spans.h"

#include <gmock/gmock.h>

namespace patchbay {
namespace {

using testing::ElementsAre;

RequestedAdapter ordinary(int32_t i, float strength = 1) { return {{i, strength}, {}}; }

RequestedAdapter invoked(int32_t i, const std::vector<int32_t> &tokens, float strength = 1) {
  return {{i, strength}, tokens};
}

std::vector<int32_t> firsts(const SpanPlan &plan) {
  std::vector<int32_t> all;
  for (const auto &span : plan.spans) all.push_back(span.first);
  return all;
}

const std::vector<int32_t> k_prompt{9, 1, 2, 8, 1, 2, 3, 7};
const std::vector<int32_t> k_one_two{1, 2};
const std::vector<int32_t> k_three{3};

TEST(FindLast, FindsTheLastOccurrenceAlsoWhereCopiesOverlap) {
  EXPECT_EQ(find_last(std::vector{1, 2, 2}, std::vector{1, 2}), 0);
  EXPECT_EQ(find_last(std::vector{1, 2, 3, 3}, std::vector{1, 2, 3}), 0);
  EXPECT_EQ(find_last(std::vector{5, 5, 5, 5}, std::vector{5, 5}), 2);
  EXPECT_EQ(find_last(std::vector{1, 2, 1, 2, 1}, std::vector{1, 2, 1}), 2);
  EXPECT_EQ(find_last(std::vector{1, 2}, std::vector{1, 2, 3}), -1);
  EXPECT_EQ(find_last(std::vector{1, 2}, std::vector<int32_t>{}), -1);
}

TEST(PlanSpans, OrdinaryAdaptersRuleTheWholeRequest) {
  const auto plan = plan_spans(k_prompt, std::vector{ordinary(1, 0.5F), ordinary(0)});
  EXPECT_THAT(firsts(plan), ElementsAre(0));
  EXPECT_THAT(plan.spans[0].set, ElementsAre(Worn{1, 0.5F}, Worn{0, 1}));
  EXPECT_THAT(plan.active_from, ElementsAre(0, 0));
}

TEST(PlanSpans, WithoutAdaptersThereIsOneSpanOfTheBase) {
  const auto plan = plan_spans(k_prompt, {});
  EXPECT_THAT(firsts(plan), ElementsAre(0));
  EXPECT_TRUE(plan.spans[0].set.empty());
}

TEST(PlanSpans, AnInvokedAdapterRulesFromTheStartOfTheLastOccurrence) {
  const auto plan = plan_spans(k_prompt, std::vector{invoked(0, k_one_two), ordinary(1)});
  EXPECT_THAT(firsts(plan), ElementsAre(0, 4));
  EXPECT_THAT(plan.spans[0].set, ElementsAre(Worn{1, 1}));
  EXPECT_THAT(plan.spans[1].set, ElementsAre(Worn{0, 1}, Worn{1, 1}));
  EXPECT_THAT(plan.active_from, ElementsAre(4, 0));
}

TEST(PlanSpans, OfSeveralInvokedAdaptersEachRulesUpToTheNext) {
  const auto plan = plan_spans(k_prompt, std::vector{invoked(0, k_one_two), invoked(1, k_three)});
  EXPECT_THAT(firsts(plan), ElementsAre(0, 4, 6));
  EXPECT_THAT(plan.spans[1].set, ElementsAre(Worn{0, 1}));
  EXPECT_THAT(plan.spans[2].set, ElementsAre(Worn{1, 1}));
}

TEST(PlanSpans, InvokedAdaptersWithTheSameStartRuleTogether) {
  const auto plan = plan_spans(k_prompt, std::vector{invoked(0, k_three), invoked(1, k_three, -2)});
  EXPECT_THAT(firsts(plan), ElementsAre(0, 6));
  EXPECT_THAT(plan.spans[1].set, ElementsAre(Worn{0, 1}, Worn{1, -2}));
}

TEST(PlanSpans, AnAdapterInvokedAtTheVeryStartLeavesNoBaseSpan) {
  const std::vector<int32_t> nine{9};
  const auto plan = plan_spans(k_prompt, std::vector{invoked(0, nine)});
  EXPECT_THAT(firsts(plan), ElementsAre(0));
  EXPECT_THAT(plan.spans[0].set, ElementsAre(Worn{0, 1}));
}

TEST(PlanSpans, WhatIsNotInvokedOrHasNoStrengthActsNowhere) {
  const std::vector<int32_t> absent{4, 4};
  const auto plan =
      plan_spans(k_prompt, std::vector{invoked(0, absent), ordinary(1, 0), invoked(2, k_three, 0)});
  EXPECT_THAT(firsts(plan), ElementsAre(0));
  EXPECT_TRUE(plan.spans[0].set.empty());
  EXPECT_THAT(plan.active_from, ElementsAre(-1, -1, -1));
}

}  // namespace
}  // namespace patchbay
