#include "jinja/parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "jinja/syntax_error.h"

namespace patchbay::jinja {
namespace {

using ::testing::HasSubstr;

std::string refusal(const std::string &source) {
  try {
    (void)parse_template(source);
  } catch (const SyntaxError &error) {
    return "line " + std::to_string(error.line()) + ": " + error.what();
  }
  return {};
}

std::string repeated(std::string_view text, int n) {
  std::string out;
  for (int i = 0; i < n; ++i) out += text;
  return out;
}

TEST(JinjaParser, UnfinishedTemplatesAreRefused) {
  EXPECT_THAT(refusal("{% if a %}"), HasSubstr("Unexpected end of template"));
  EXPECT_THAT(refusal("{% for a in b %}{% if c %}{% endfor %}"), HasSubstr("unknown tag 'endfor'"));
  EXPECT_THAT(refusal("{{ a"), HasSubstr("expected 'end of print statement'"));
  EXPECT_THAT(refusal("{{ }}"), HasSubstr("Expected an expression"));
  EXPECT_THAT(refusal("{% %}"), HasSubstr("tag name expected"));
}

TEST(JinjaParser, LineOfAnErrorIsTold) {
  EXPECT_THAT(refusal("a\nb\n{{ c d }}"), HasSubstr("line 3: "));
}

TEST(JinjaParser, TagsThatReadOtherFilesAreRefusedByName) {
  for (const std::string tag : {"include", "import", "from", "extends", "block", "autoescape"}) {
    EXPECT_THAT(refusal("{% " + tag + " 'x' %}"),
                HasSubstr("the tag '" + tag + "' is not supported in chat templates"));
  }
}

TEST(JinjaParser, OnlyNamesCanBeAssignedTo) {
  EXPECT_THAT(refusal("{% set a.b.c = 1 %}"), HasSubstr("line 1"));
  EXPECT_THAT(refusal("{% set none = 1 %}"), HasSubstr("can't assign to 'const'"));
  EXPECT_THAT(refusal("{% for a + b in c %}{% endfor %}"), HasSubstr("line 1"));
  EXPECT_THAT(refusal("{% for x in y %}{% set loop = 1 %}{% endfor %}"),
              HasSubstr("special loop variable"));
  EXPECT_EQ(refusal("{% set loop = 1 %}{% set (a, ns.b) = c %}{% set a, b = c %}"),
            "line 1: can't assign to 'getattr'");
}

TEST(JinjaParser, UnknownFilterIsRefusedUnlessAConditionGuardsIt) {
  EXPECT_THAT(refusal("{{ a|nope }}"), HasSubstr("No filter named 'nope'."));
  EXPECT_THAT(refusal("{{ a is nope }}"), HasSubstr("No test named 'nope'."));
  EXPECT_EQ(refusal("{% if a %}{{ a|nope }}{% endif %}"), "");
  EXPECT_EQ(refusal("{{ a|nope if b }}"), "");
  // A loop inside of a condition is compiled as if there was none.
  EXPECT_THAT(refusal("{% if a %}{% for b in c %}{{ b|nope }}{% endfor %}{% endif %}"),
              HasSubstr("No filter named"));
}

TEST(JinjaParser, LoopControlNeedsALoopInTheSameFunction) {
  EXPECT_THAT(refusal("{% break %}"), HasSubstr("'break' outside loop"));
  EXPECT_THAT(refusal("{% for a in b %}{% macro c() %}{% continue %}{% endmacro %}{% endfor %}"),
              HasSubstr("'continue' not properly in loop"));
  EXPECT_EQ(refusal("{% for a in b %}{% set c %}{% break %}{% endset %}{% endfor %}"), "");
}

TEST(JinjaParser, ArgumentsKeepTheirOrder) {
  EXPECT_THAT(refusal("{{ a(b=1, 2) }}"), HasSubstr("invalid syntax for function call"));
  EXPECT_THAT(refusal("{{ a(**b, c=1) }}"), HasSubstr("invalid syntax for function call"));
  EXPECT_THAT(refusal("{{ a(b=1, b=2) }}"), HasSubstr("keyword argument repeated: b"));
  EXPECT_THAT(refusal("{% macro a(b, b) %}{% endmacro %}"), HasSubstr("duplicate argument 'b'"));
  EXPECT_THAT(refusal("{% macro a(b=1, c) %}{% endmacro %}"), HasSubstr("non-default argument"));
}

TEST(JinjaParser, SelfIsRefused) { EXPECT_THAT(refusal("{{ self.a() }}"), HasSubstr("'self'")); }

TEST(JinjaParser, NestingIsBounded) {
  EXPECT_EQ(refusal("{{ " + repeated("(", 90) + "1" + repeated(")", 90) + " }}"), "");
  for (const std::string &source : std::vector<std::string>{
           "{{ " + repeated("(", 1000), "{{ " + repeated("[", 1000), "{{ " + repeated("not ", 1000),
           "{{ " + repeated("-", 1000), "{{ " + repeated("1 if 1 else ", 1000),
           "{{ a is in " + repeated("[a is in ", 1000), repeated("{% if a %}", 1000)}) {
    EXPECT_THAT(refusal(source), HasSubstr("nested more than")) << source.substr(0, 20);
  }
}

TEST(JinjaParser, LengthOfAnExpressionIsBounded) {
  EXPECT_EQ(refusal("{{ 'a'" + repeated(" + 'a'", 300) + " }}"), "");
  EXPECT_EQ(refusal("{{ 'a'" + repeated(" ~ 'a'", 10000) + " }}"), "");
  for (const std::string_view part : {" + 'a'", ".a", "|upper", "()", " or a", "[0]"}) {
    EXPECT_THAT(refusal("{{ a" + repeated(part, 10000) + " }}"), HasSubstr("levels deep")) << part;
  }
}

TEST(JinjaParser, NumberOfVariablesIsBounded) {
  std::string source;
  for (int i = 0; i < 1000; ++i) source += "{% set a" + std::to_string(i) + " = 1 %}";
  EXPECT_EQ(refusal(source), "");
  EXPECT_THAT(refusal(source + "{{ b }}"), HasSubstr("more than 1000 variables"));
  EXPECT_THAT(refusal(std::string((size_t{1} << 20) + 1, 'x')), HasSubstr("longer than 1 MiB"));
}

}  // namespace
}  // namespace patchbay::jinja
