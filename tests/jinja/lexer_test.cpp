#include "jinja/lexer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "jinja/print.h"
#include "jinja/syntax_error.h"

namespace patchbay::jinja {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Each token as a letter for its kind and its text.
std::vector<std::string> shown(std::string_view source) {
  std::vector<std::string> tokens;
  for (const Token &token : tokenize_template(source)) {
    constexpr std::string_view k_letters = "d<>[]nsirO.";
    std::string text(1, k_letters[static_cast<size_t>(token.kind)]);
    const bool is_number = token.kind == TokenKind::integer || token.kind == TokenKind::real;
    text += is_number ? print(token.number) : token.text;
    tokens.push_back(text);
  }
  return tokens;
}

std::string refusal(std::string_view source) {
  try {
    (void)tokenize_template(source);
  } catch (const SyntaxError &error) {
    return "line " + std::to_string(error.line()) + ": " + error.what();
  }
  return {};
}

TEST(JinjaLexer, TagsAndTextAreTakenApart) {
  EXPECT_THAT(shown("a {{ b }} c{% if d %}e"),
              ElementsAre("da ", "<", "nb", ">", "d c", "[", "nif", "nd", "]", "de", "."));
}

TEST(JinjaLexer, LineBreakBehindABlockIsTakenAway) {
  EXPECT_THAT(shown("{% a %}\n\nb"), ElementsAre("[", "na", "]", "d\nb", "."));
  EXPECT_THAT(shown("{% a +%}\nb"), ElementsAre("[", "na", "]", "d\nb", "."));
  EXPECT_THAT(shown("{{ a }}\nb"), ElementsAre("<", "na", ">", "d\nb", "."));
}

TEST(JinjaLexer, BlanksBeforeABlockThatBeginsItsLineAreTakenAway) {
  EXPECT_THAT(shown("a\n  {% b %}"), ElementsAre("da\n", "[", "nb", "]", "."));
  EXPECT_THAT(shown("a\n  {%+ b %}"), ElementsAre("da\n  ", "[", "nb", "]", "."));
  EXPECT_THAT(shown("  {{ b }}"), ElementsAre("d  ", "<", "nb", ">", "."));
  EXPECT_THAT(shown("a  {% b %}"), ElementsAre("da  ", "[", "nb", "]", "."));
}

TEST(JinjaLexer, MinusTakesAllWhitespaceAway) {
  EXPECT_THAT(shown("a \n\u2003{%- b -%} \n c"), ElementsAre("da", "[", "nb", "]", "dc", "."));
  EXPECT_THAT(shown("a {{- b -}} c"), ElementsAre("da", "<", "nb", ">", "dc", "."));
}

TEST(JinjaLexer, CommentsLeaveNothing) {
  EXPECT_THAT(shown("a{# {{ b }} #}\nc{#- d -#} e"), ElementsAre("da", "dc", "de", "."));
}

TEST(JinjaLexer, RawTextIsKept) {
  EXPECT_THAT(shown("{% raw %}{{ a }}{% endraw %}b"), ElementsAre("d{{ a }}", "db", "."));
  EXPECT_THAT(shown("{%- raw -%} {% x %} {%- endraw -%} b"), ElementsAre("d{% x %}", "db", "."));
}

TEST(JinjaLexer, LastLineBreakIsDroppedAndOthersBecomeLineFeeds) {
  EXPECT_THAT(shown("a\r\nb\rc\n\n"), ElementsAre("da\nb\nc\n", "."));
}

TEST(JinjaLexer, NumbersAreReadAsPythonReadsThem) {
  EXPECT_THAT(shown("{{ 1_000 0x1F 0b11 0o17 1.5 2e3 1_0.5e-1 7.x }}"),
              ElementsAre("<", "i1000", "i31", "i3", "i15", "r1.5", "r2000.0", "r1.05", "i7", "O.",
                          "nx", ">", "."));
}

TEST(JinjaLexer, EscapesAreResolved) {
  EXPECT_THAT(shown(R"({{ 'a\n\x41\u20ac\101\'\q' "\U0001F600" }})"),
              ElementsAre("<", "sa\nA\u20acA'\\q", "s\U0001F600", ">", "."));
}

TEST(JinjaLexer, NamesMayBeOfAnyScript) {
  EXPECT_THAT(shown("{{ größe _在 a1 }}"), ElementsAre("<", "ngröße", "n_在", "na1", ">", "."));
  EXPECT_THAT(refusal("{{ ٣a }}"), HasSubstr("Invalid character in identifier"));
  EXPECT_THAT(refusal("{{ € }}"), HasSubstr("unexpected char '€'"));
}

TEST(JinjaLexer, BracesInsideOfBracketsDoNotEndATag) {
  EXPECT_THAT(shown("{{ {'a': {}} }}"),
              ElementsAre("<", "O{", "sa", "O:", "O{", "O}", "O}", ">", "."));
}

TEST(JinjaLexer, WhatCannotBeReadIsRefusedWithItsLine) {
  EXPECT_THAT(refusal("\n{{ a ? b }}"), HasSubstr("line 2: unexpected char '?'"));
  EXPECT_THAT(refusal("{{ 'a }}"), HasSubstr("unexpected char"));
  EXPECT_THAT(refusal("{{ a) }}"), HasSubstr("unexpected ')'"));
  EXPECT_THAT(refusal("{{ (a] }}"), HasSubstr("unexpected ']', expected ')'"));
  EXPECT_THAT(refusal("\n\n{# a"), HasSubstr("line 3: Missing end of comment tag"));
  EXPECT_THAT(refusal("{% raw %}"), HasSubstr("Missing end of raw directive"));
  EXPECT_THAT(refusal(R"({{ "\x4" }})"), HasSubstr("truncated escape"));
  EXPECT_THAT(refusal(R"({{ "\ud800" }})"), HasSubstr("surrogate"));
  EXPECT_THAT(refusal("{{ 1" + std::string(60, '0') + " }}"), HasSubstr("128 bits"));
}

}  // namespace
}  // namespace patchbay::jinja
