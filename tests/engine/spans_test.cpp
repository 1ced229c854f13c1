#include "engine/spans.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "lora/adapter.h"
#include "patchbay/request.hpp"

namespace patchbay {
namespace {

using testing::ElementsAre;

WornAdapter ordinary(const std::string &name, float strength = 1) {
  auto adapter = std::make_shared<Adapter>();
  adapter->name = name;
  return {std::move(adapter), strength};
}

WornAdapter invoked(const std::string &name, const std::vector<int32_t> &tokens,
                    float strength = 1) {
  auto adapter = std::make_shared<Adapter>();
  adapter->name = name;
  adapter->invocation_tokens = tokens;
  return {std::move(adapter), strength};
}

std::vector<int32_t> firsts(const PlannedSpans &plan) {
  std::vector<int32_t> all;
  for (const auto &span : plan.spans) all.push_back(span.first);
  return all;
}

/// "name:strength" of each adapter of a span.
std::vector<std::string> worn(const RequestSpan &span) {
  std::vector<std::string> all;
  for (const auto &[adapter, strength] : span.adapters)
    all.push_back(fmt::format("{}:{}", adapter->name, strength));
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
  const auto plan = plan_spans(k_prompt, {ordinary("b", 0.5F), ordinary("a")});
  EXPECT_THAT(firsts(plan), ElementsAre(0));
  EXPECT_THAT(worn(plan.spans[0]), ElementsAre("b:0.5", "a:1"));
  EXPECT_THAT(plan.active_from, ElementsAre(0, 0));
}

TEST(PlanSpans, WithoutAdaptersThereIsOneSpanOfTheBase) {
  const auto plan = plan_spans(k_prompt, {});
  EXPECT_THAT(firsts(plan), ElementsAre(0));
  EXPECT_TRUE(plan.spans[0].adapters.empty());
}

TEST(PlanSpans, AnInvokedAdapterRulesFromTheStartOfTheLastOccurrence) {
  const auto plan = plan_spans(k_prompt, {invoked("a", k_one_two), ordinary("b")});
  EXPECT_THAT(firsts(plan), ElementsAre(0, 4));
  EXPECT_THAT(worn(plan.spans[0]), ElementsAre("b:1"));
  EXPECT_THAT(worn(plan.spans[1]), ElementsAre("a:1", "b:1"));
  EXPECT_THAT(plan.active_from, ElementsAre(4, 0));
}

TEST(PlanSpans, OfSeveralInvokedAdaptersEachRulesUpToTheNext) {
  const auto plan = plan_spans(k_prompt, {invoked("a", k_one_two), invoked("b", k_three)});
  EXPECT_THAT(firsts(plan), ElementsAre(0, 4, 6));
  EXPECT_THAT(worn(plan.spans[1]), ElementsAre("a:1"));
  EXPECT_THAT(worn(plan.spans[2]), ElementsAre("b:1"));
}

TEST(PlanSpans, InvokedAdaptersWithTheSameStartRuleTogether) {
  const auto plan = plan_spans(k_prompt, {invoked("a", k_three), invoked("b", k_three, -2)});
  EXPECT_THAT(firsts(plan), ElementsAre(0, 6));
  EXPECT_THAT(worn(plan.spans[1]), ElementsAre("a:1", "b:-2"));
}

TEST(PlanSpans, AnAdapterInvokedAtTheVeryStartLeavesNoBaseSpan) {
  const std::vector<int32_t> nine{9};
  const auto plan = plan_spans(k_prompt, {invoked("a", nine)});
  EXPECT_THAT(firsts(plan), ElementsAre(0));
  EXPECT_THAT(worn(plan.spans[0]), ElementsAre("a:1"));
}

TEST(PlanSpans, WhatIsNotInvokedOrHasNoStrengthActsNowhere) {
  const std::vector<int32_t> absent{4, 4};
  const auto plan =
      plan_spans(k_prompt, {invoked("a", absent), ordinary("b", 0), invoked("c", k_three, 0)});
  EXPECT_THAT(firsts(plan), ElementsAre(0));
  EXPECT_TRUE(plan.spans[0].adapters.empty());
  EXPECT_THAT(plan.active_from, ElementsAre(-1, -1, -1));
}

}  // namespace
}  // namespace patchbay
