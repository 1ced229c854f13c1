#include "lora/peft_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gguf/load_failure.h"

namespace patchbay {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr auto k_q0 = "model.layers.0.self_attn.q_proj";
constexpr auto k_q1 = "model.layers.1.self_attn.q_proj";

bool matches(const std::string &key, std::string_view module) {
  PatternTable table("config", "alpha_pattern");
  table.add(key, 1);
  return table.find(module).has_value();
}

TEST(PeftPattern, KeysCoverWholeComponentsAtTheEnd) {
  EXPECT_TRUE(matches("q_proj", k_q0));
  EXPECT_TRUE(matches("self_attn.q_proj", k_q0));
  EXPECT_TRUE(matches(k_q0, k_q0));
  EXPECT_FALSE(matches("roj", k_q0));
  EXPECT_FALSE(matches("self_attn", k_q0));
  EXPECT_FALSE(matches("model.layers.0", k_q0));
  EXPECT_TRUE(matches("q_proj", "q_proj"));
  EXPECT_FALSE(matches("q_proj", "q_proj_2"));
}

TEST(PeftPattern, KeysAreRegularExpressions) {
  EXPECT_TRUE(matches("v_proj|q_proj", k_q0));
  EXPECT_TRUE(matches("self_attn|q_proj", k_q0));
  EXPECT_TRUE(matches("^model.layers.0.self_attn.q_proj", k_q0));
  EXPECT_FALSE(matches("^layers.0.self_attn.q_proj", k_q0));
  EXPECT_TRUE(matches(R"(layers\.\d+\.self_attn\.(k|q)_proj)", k_q1));
  EXPECT_FALSE(matches(R"(layers\.[2-3]\..*)", k_q1));
  EXPECT_TRUE(matches(R"((?:layers).(?!0)\d.*q_proj)", k_q1));
  EXPECT_FALSE(matches(R"((?:layers).(?!0)\d.*q_proj)", k_q0));
  EXPECT_TRUE(matches(R"(.*\.1\.mlp\.up_proj)", "model.layers.1.mlp.up_proj"));
  EXPECT_TRUE(matches("selfxattn.q_proj|self.attn.q_proj", k_q0));
}

/// Literal keys are looked up and others tried: `(?:)` makes the same key one of the others.
TEST(PeftPattern, LiteralKeysMatchAsTheirRegularExpressionsDo) {
  for (const std::string key :
       {"q_proj", "proj", ".q_proj", "q_proj.", "a.q_proj", "a..q_proj", "...q_proj", ".", "..",
        "a-b", "a.b.q_proj", "b.a.q_proj", "aabq_proj"}) {
    for (const std::string module : {"q_proj",
                                     "a.q_proj",
                                     "axq_proj",
                                     "x.axq_proj",
                                     "a.b.q_proj",
                                     "b.a.q_proj",
                                     "a..q_proj",
                                     "q_proj.",
                                     ".q_proj",
                                     "",
                                     ".",
                                     "..",
                                     "b",
                                     "x.y",
                                     "a-b",
                                     "a.a-b",
                                     "aab.q_proj",
                                     "a\nq_proj",
                                     "a\xC3\xA4q_proj",
                                     "\xC3\xA4.q_proj",
                                     "a.\xC3\xA4q_proj",
                                     "\n.q_proj"}) {
      EXPECT_EQ(matches(key, module), matches("(?:)" + key, module)) << key << " on " << module;
    }
  }
}

TEST(PeftPattern, LiteralKeysAndOthersKeepTheirOrder) {
  PatternTable table("config", "alpha_pattern");
  table.add("layers.0.self_attn.q_proj", 1);
  table.add("[qk]_proj", 2);
  table.add("self_attn.q_proj", 3);
  table.add("self.attn.k_proj", 4);
  table.add("v_proj", 5);
  table.add("v.*", 6);
  EXPECT_EQ(table.find(k_q0), 1);
  EXPECT_EQ(table.find(k_q1), 2);
  EXPECT_EQ(table.find("model.layers.1.self_attn.k_proj"), 2);
  EXPECT_EQ(table.find("v_proj"), 5);
  EXPECT_EQ(table.find("v"), 6);
  EXPECT_THAT(table.ambiguity(k_q1),
              testing::Optional(HasSubstr("'[qk]_proj' (2) and 'self_attn.q_proj' (3)")));
  EXPECT_THAT(table.ambiguity("v_proj"),
              testing::Optional(HasSubstr("'v_proj' (5) and 'v.*' (6)")));
}

TEST(PeftPattern, BackReferencesCountPeftsOwnGroup) {
  // Group 1 is the path before the key, group 2 the key, as in PEFT's expression.
  EXPECT_TRUE(matches(R"((a)\3)", "x.aa"));
  EXPECT_FALSE(matches(R"((a)\3)", "x.ab"));
}

TEST(PeftPattern, TheFirstKeyInFileOrderWins) {
  PatternTable table("config", "alpha_pattern");
  table.add("layers.1.self_attn.q_proj", 64);
  table.add("q_proj", 2);
  EXPECT_EQ(table.find(k_q0), 2);
  EXPECT_EQ(table.find(k_q1), 64);
  EXPECT_EQ(table.find("model.layers.1.self_attn.v_proj"), std::nullopt);
  PatternTable other("config", "alpha_pattern");
  other.add("q_proj", 2);
  other.add("layers.1.self_attn.q_proj", 64);
  EXPECT_EQ(other.find(k_q1), 2);
}

TEST(PeftPattern, TwoValuesForOneModuleAreAmbiguous) {
  PatternTable table("config", "alpha_pattern");
  table.add("q_proj", 2);
  table.add(".*q_proj", 2);
  EXPECT_EQ(table.ambiguity(k_q1), std::nullopt);
  table.add("layers.1.self_attn.q_proj", 64);
  EXPECT_EQ(table.ambiguity(k_q0), std::nullopt);
  EXPECT_THAT(table.ambiguity(k_q1).value_or(""),
              AllOf(HasSubstr("alpha_pattern"), HasSubstr("'q_proj' (2)"), HasSubstr("(64)")));
}

TEST(PeftPattern, WhatIsNoRegularExpressionIsRefused) {
  for (const auto *key : {"(", "[a", "*", "a{2,1}", "\\", "(?<n", "\xff"}) {
    PatternTable table("some/config", "rank_pattern");
    EXPECT_THAT(load_failure([&] { table.add(key, 1); }),
                AllOf(HasSubstr("some/config"), HasSubstr("rank_pattern")))
        << key;
  }
}

TEST(PeftPattern, AHostileKeyIsRefusedAndNotWaitedFor) {
  PatternTable table("config", "rank_pattern");
  table.add("(a+)+[bc]", 1);
  const std::string module(200, 'a');
  EXPECT_THAT(
      load_failure([&] { (void)table.find(module); }),
      AllOf(HasSubstr("rank_pattern"), HasSubstr("(a+)+[bc]"), HasSubstr("cannot be matched")));
}

}  // namespace
}  // namespace patchbay
