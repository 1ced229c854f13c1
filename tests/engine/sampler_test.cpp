#include "engine/sampler.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <map>

namespace patchbay {
namespace {

constexpr float k_inf = std::numeric_limits<float>::infinity();

/// Everything off but the temperature.
SamplingParams plain(float temperature) {
  return {.temperature = temperature, .top_k = 0, .top_p = 1, .min_p = 0};
}

std::map<int32_t, double> frequencies(const SamplingParams &params,
                                      const std::vector<float> &logits) {
  constexpr int k_draws = 20000;
  Sampler sampler(params);
  std::map<int32_t, double> part;
  for (int i = 0; i < k_draws; ++i) part[sampler.sample(logits)] += 1.0 / k_draws;
  return part;
}

TEST(Sampler, TemperatureZeroTakesTheBestAndOfEqualsTheFirst) {
  Sampler sampler(plain(0));
  EXPECT_EQ(sampler.sample(std::vector<float>{1, 3, 2}), 1);
  EXPECT_EQ(sampler.sample(std::vector<float>{1, 3, 3}), 1);
}

TEST(Sampler, DrawsWithTheProbabilitiesOfTheSoftmax) {
  const auto part = frequencies(plain(1), {std::log(0.6F), std::log(0.3F), std::log(0.1F)});
  EXPECT_NEAR(part.at(0), 0.6, 0.02);
  EXPECT_NEAR(part.at(1), 0.3, 0.02);
  EXPECT_NEAR(part.at(2), 0.1, 0.02);
}

TEST(Sampler, TemperatureSharpensAndFlattens) {
  const std::vector<float> logits{std::log(0.8F), std::log(0.2F)};
  EXPECT_NEAR(frequencies(plain(0.5F), logits).at(0), 0.64 / 0.68, 0.02);
  EXPECT_NEAR(frequencies(plain(2), logits).at(0), 2.0 / 3, 0.02);
}

TEST(Sampler, TopKTopPAndMinPCutTheTail) {
  const std::vector<float> logits{std::log(0.5F), std::log(0.3F), std::log(0.15F), std::log(0.05F)};
  auto params = plain(1);
  params.top_k = 2;
  EXPECT_NEAR(frequencies(params, logits).at(0), 0.5 / 0.8, 0.02);
  params = plain(1);
  params.top_p = 0.6F;  // the token that reaches it stays
  EXPECT_EQ(frequencies(params, logits).size(), 2U);
  params = plain(1);
  params.min_p = 0.25F;
  EXPECT_EQ(frequencies(params, logits).size(), 3U);
  params.top_p = 0;
  EXPECT_EQ(frequencies(params, logits).size(), 1U);
}

TEST(Sampler, TheNucleusIsFoundInALargeVocabulary) {
  // A thousand equal ones among entries that hardly count; of equals the first ones stay.
  std::vector<float> logits(3000, -20);
  for (size_t i = 0; i < 3000; i += 3) logits[i] = 1;
  auto params = plain(1);
  params.top_p = 0.5F;
  const auto part = frequencies(params, logits);
  for (const auto &[token, frequency] : part) {
    EXPECT_EQ(token % 3, 0);
    EXPECT_LE(token, 1500);
  }
  EXPECT_GT(part.size(), 450U);
}

TEST(Sampler, WhatIsFarBelowTheBestIsStillDrawnAtAHighTemperature) {
  // At temperature 1 the second one would never come.
  const std::vector<float> logits{0, -100};
  EXPECT_EQ(frequencies(plain(1), logits).size(), 1U);
  EXPECT_NEAR(frequencies(plain(100), logits).at(1), 1 / (1 + std::exp(1.0)), 0.02);
}

TEST(Sampler, PenaltiesLowerWhatHasOccurred) {
  auto params = plain(0);
  params.repeat_penalty = 2;
  Sampler repeat(params);
  repeat.accept(1);
  EXPECT_EQ(repeat.sample(std::vector<float>{2, 3, 0}), 0);     // 3 / 2 < 2
  EXPECT_EQ(repeat.sample(std::vector<float>{-5, -3, -9}), 0);  // -3 * 2 < -5

  params = plain(0);
  params.frequency_penalty = 1;
  Sampler frequency(params);
  for (const int32_t token : {1, 1, 0}) frequency.accept(token);
  EXPECT_EQ(frequency.sample(std::vector<float>{2, 2.5F, 0}), 0);  // 2 - 1 > 2.5 - 2

  params.n_penalty_last = 1;  // only the last token, 0, is looked at
  Sampler recent(params);
  for (const int32_t token : {1, 1, 0}) recent.accept(token);
  EXPECT_EQ(recent.sample(std::vector<float>{2, 2.5F, 0}), 1);

  params = plain(0);
  params.presence_penalty = 1;
  Sampler presence(params);
  for (const int32_t token : {1, 1, 1}) presence.accept(token);
  EXPECT_EQ(presence.sample(std::vector<float>{2, 3.5F, 0}), 1);
}

TEST(Sampler, LogitBiasPromotesAndForbids) {
  auto params = plain(0);
  params.logit_bias = {{2, 10}, {1, -k_inf}};
  EXPECT_EQ(Sampler(params).sample(std::vector<float>{1, 3, 2}), 2);
  params.logit_bias = {{1, -k_inf}};
  EXPECT_EQ(Sampler(params).sample(std::vector<float>{1, 3, 2}), 2);
}

TEST(Sampler, NumbersThatAreNotFiniteAreNeverDrawn) {
  Sampler sampler(plain(1));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(sampler.sample(std::vector<float>{nan, k_inf, 0.5F, -k_inf}), 2);
  EXPECT_EQ(sampler.sample(std::vector<float>{nan, nan}), 0);
}

TEST(Sampler, TheSameSeedGivesTheSameTokens) {
  auto params = plain(1);
  std::vector<float> logits(50, 0);
  params.seed = 42;
  Sampler one(params);
  Sampler same(params);
  params.seed = 43;
  Sampler other(params);
  std::vector<int32_t> a;
  std::vector<int32_t> b;
  std::vector<int32_t> c;
  for (int i = 0; i < 20; ++i) {
    a.push_back(one.sample(logits));
    b.push_back(same.sample(logits));
    c.push_back(other.sample(logits));
  }
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
}

TEST(CheckSampling, LeavesATokenToDraw) {
  auto params = plain(0);
  for (int32_t token = 0; token < 9; ++token) params.logit_bias.emplace_back(token, -k_inf);
  EXPECT_TRUE(check_sampling(params, 10));
  params.logit_bias.emplace_back(9, -k_inf);
  const auto checked = check_sampling(params, 10);
  ASSERT_FALSE(checked);
  EXPECT_THAT(checked.error().message, testing::HasSubstr("forbids every token"));
}

TEST(CheckSampling, NamesTheParameterThatIsOutOfRange) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::pair<SamplingParams, std::string>> wrong{
      {{.temperature = -1}, "temperature"},
      {{.temperature = nan}, "temperature"},
      {{.top_p = 1.5F}, "top_p"},
      {{.min_p = -0.1F}, "min_p"},
      {{.repeat_penalty = 0}, "repeat_penalty"},
      {{.presence_penalty = k_inf}, "presence_penalty"},
      {{.logit_bias = {{9, 1}}}, "logit_bias"},
      {{.logit_bias = {{1, nan}}}, "logit_bias"},
      {{.logit_bias = {{-1, 1}}}, "logit_bias"},
      {{.logit_bias = {{1, 2e38F}}}, "logit_bias"},
      {{.top_k = -1}, "top_k"},
      {{.n_penalty_last = -2}, "n_penalty_last"},
      {{.frequency_penalty = nan}, "frequency_penalty"}};
  for (const auto &[params, name] : wrong) {
    const auto checked = check_sampling(params, 9);
    ASSERT_FALSE(checked) << name;
    EXPECT_THAT(checked.error().message, testing::HasSubstr(name));
  }
  EXPECT_TRUE(check_sampling({.logit_bias = {{8, -k_inf}}}, 9));
}

TokenMask mask_of(uint32_t n_vocab, const std::vector<int32_t> &allowed) {
  TokenMask mask(n_vocab);
  for (const int32_t token : allowed) mask.allow(token);
  return mask;
}

TEST(Sampler, OfAllowedTokensTheBestIsTakenAtTemperatureZero) {
  const std::vector<float> logits{1, 5, 3, 4};
  EXPECT_EQ(Sampler(plain(0)).sample(logits, mask_of(4, {0, 1})), 1);
  EXPECT_EQ(Sampler(plain(0)).sample(logits, mask_of(4, {0, 2})), 2);
  SamplingParams biased = plain(0);
  biased.logit_bias = {{1, 100.0F}, {0, 3.0F}};
  EXPECT_EQ(Sampler(biased).sample(logits, mask_of(4, {0, 2})), 0);
}

TEST(Sampler, AllowedTokensAreDrawnAsIfThereWereNoOthers) {
  const std::vector<float> logits{std::log(0.1F), 9, std::log(0.3F), 8};
  SamplingParams params = plain(1);
  params.top_k = 2;  // among the allowed
  Sampler sampler(params);
  std::map<int32_t, double> part;
  constexpr int k_draws = 20000;
  for (int i = 0; i < k_draws; ++i)
    part[*sampler.sample(logits, mask_of(4, {0, 2}))] += 1.0 / k_draws;
  EXPECT_NEAR(part[0], 0.25, 0.02);
  EXPECT_NEAR(part[2], 0.75, 0.02);
}

TEST(Sampler, WhereNothingAllowedIsLeftThereIsNoToken) {
  const std::vector<float> logits{1, 2, -k_inf};
  for (const float temperature : {0.0F, 1.0F}) {
    EXPECT_EQ(Sampler(plain(temperature)).sample(logits, mask_of(3, {})), std::nullopt);
    EXPECT_EQ(Sampler(plain(temperature)).sample(logits, mask_of(3, {2})), std::nullopt);
    SamplingParams forbidding = plain(temperature);
    forbidding.logit_bias = {{1, -k_inf}};
    EXPECT_EQ(Sampler(forbidding).sample(logits, mask_of(3, {1, 2})), std::nullopt);
  }
}

}  // namespace
}  // namespace patchbay
