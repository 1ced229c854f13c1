#include "grammar/gbnf_parser.h"

#include <gmock/gmock.h>

#include "grammar/grammar_support.h"

namespace patchbay {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(GbnfParser, ReadsEveryFormOfExpression) {
  const auto grammar = grammar_of(R"(
# a comment with "::= [" in it
root   ::= item ("," item)* tail?   # and another
item ::= "a" | [0-9x-]+ | "q" .
tail ::= ("!" "?"){2,3} | ";"{2} | ":"{1,}
)");
  for (const char *text : {"a", "0", "x-9", "qz", "q\xC3\xA9", "a,a,1", "a!?!?", "a!?!?!?", "a;;",
                           "a:", "a:::", "a,qa;;"})
    EXPECT_TRUE(matches(grammar, text)) << text;
  for (const char *text : {"", ",", "a,", "q", "a!?", "a!?!?!?!?", "a;", "a;;;", "b", "a ,a"})
    EXPECT_FALSE(matches(grammar, text)) << text;
}

TEST(GbnfParser, ReadsEscapesInLiteralsAndClasses) {
  const auto grammar =
      grammar_of(R"(root ::= "\"\\\t\n\r\x41\u00e9\U0001F600\[\]" [\]\\\-\^\x42"] [^\n"])");
  const std::string literal =
      "\"\\\t\n\r"
      "A\xC3\xA9\xF0\x9F\x98\x80[]";
  for (const char *c : {"]", "\\", "-", "^", "B", "\""})
    EXPECT_TRUE(matches(grammar, literal + c + "x")) << c;
  EXPECT_FALSE(matches(grammar, literal + "Ax"));
  EXPECT_FALSE(matches(grammar, literal + "]\n"));
  EXPECT_TRUE(matches(grammar, literal + "]\r"));
}

TEST(GbnfParser, ALineEndEndsARuleUnlessSomethingIsOpen) {
  const auto grammar = grammar_of(
      "root ::=\n  one |\n  two\n | three\none ::= ( \"1\"\n  \"1\" )\r\n"
      "\r\ntwo ::= \"2\"\n\n# comment\n | \"II\"\nthree ::= \"3\"");
  for (const char *text : {"11", "2", "II", "3"}) EXPECT_TRUE(matches(grammar, text)) << text;
}

TEST(GbnfParser, AnAlternativeMayBeEmpty) {
  const auto grammar = grammar_of("root ::= \"<\" ( | \"a\") \">\" | \"\"");
  for (const char *text : {"", "<>", "<a>"}) EXPECT_TRUE(matches(grammar, text)) << text;
  EXPECT_FALSE(matches(grammar, "<"));
}

TEST(GbnfParser, RepetitionsOfRepetitionsMultiply) {
  const auto grammar = grammar_of("root ::= \"a\"{2}{3} (\"b\"?)+");
  EXPECT_TRUE(matches(grammar, "aaaaaa"));
  EXPECT_TRUE(matches(grammar, "aaaaaabbb"));
  EXPECT_FALSE(matches(grammar, "aaaaa"));
}

struct Refused {
  const char *gbnf;
  const char *told;
};

class GbnfRefusals : public testing::TestWithParam<Refused> {};

TEST_P(GbnfRefusals, NamePlaceAndProblem) {
  const auto rules = parse_gbnf(GetParam().gbnf);
  ASSERT_FALSE(rules);
  EXPECT_EQ(rules.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(rules.error().message, std::string("grammar: ") + GetParam().told);
}

INSTANTIATE_TEST_SUITE_P(
    All, GbnfRefusals,
    testing::Values(
        Refused{"", "line 1, column 1: there is no rule root"},
        Refused{"a ::= \"x\"", "line 1, column 1: there is no rule root"},
        Refused{"root ::= a\na ::= b c\nc ::= \"x\"", "line 2, column 7: rule b is not defined"},
        Refused{"root ::= \"a\"\nroot ::= \"b\"", "line 2, column 1: rule root is defined twice"},
        Refused{"root \"a\"", "line 1, column 6: ::= is missing after root"},
        Refused{"root ::= \"a", "line 1, column 10: this literal is not closed"},
        Refused{"root ::= \"a\nb\"", "line 1, column 10: this literal is not closed"},
        Refused{"root ::= [a", "line 1, column 10: this class is not closed"},
        Refused{"root ::= [a-", "line 1, column 10: this class is not closed"},
        Refused{"root ::= \"\xC3\xA9\xC3\xA9\" [b-a]",
                "line 1, column 16: this range ends before it begins"},
        Refused{"root ::= []", "line 1, column 10: no character is of this class"},
        Refused{"root ::= [^\\x00-\\U0010FFFF]",
                "line 1, column 10: no character is of this class"},
        Refused{"root ::= (\"a\"", "line 1, column 10: this group is not closed"},
        Refused{"root ::= \"a\")", "line 1, column 13: ) closes no group"},
        Refused{"root ::= (\"a\" ]", "line 1, column 15: ']' is not expected here"},
        Refused{"root ::= * \"a\"", "line 1, column 10: there is nothing that * could repeat"},
        Refused{"root ::= \"a\"{2", "line 1, column 15: } is missing"},
        Refused{"root ::= \"a\"{}", "line 1, column 14: a number is missing"},
        Refused{"root ::= \"a\"{3,2}", "line 1, column 14: {3,2} has no number"},
        Refused{"root ::= \"a\"{9999999}",
                "line 1, column 14: a repetition may count to 1000000 at most"},
        Refused{"root ::= \"\\q\"", "line 1, column 11: this escape is not known"},
        Refused{"root ::= \"\\x4\"", "line 1, column 11: the escape wants 2 hexadecimal digits"},
        Refused{"root ::= \"\\uD800\"", "line 1, column 11: U+D800 is no character"},
        Refused{"root ::= \"\\U00110000\"", "line 1, column 11: U+110000 is no character"},
        Refused{"root ::= \"\\", "line 1, column 11: the escape ends early"},
        Refused{"root ::= <think>",
                "line 1, column 10: tokens by name or number (<...>) are not supported"},
        Refused{"root ::= \"a\" \xE2\x82\xAC",
                "line 1, column 14: '\xE2\x82\xAC' is not expected here"},
        Refused{"root ::= \"\xFF\"", "it is not valid UTF-8"}));

TEST(GbnfParser, TooMuchIsRefusedBeforeItCosts) {
  EXPECT_THAT(refusal_of("root ::= " + std::string(5000, '(') + "\"a\"" + std::string(5000, ')')),
              HasSubstr("groups are more than 100 deep"));
  EXPECT_THAT(refusal_of("root ::= \"a\"" + std::string(5000, '?')),
              HasSubstr("too many repetitions of repetitions"));
  EXPECT_THAT(refusal_of("root ::= \"" + std::string(2'000'000, 'a') + "\""),
              StartsWith("grammar: it has 2000011 bytes"));
  EXPECT_THAT(refusal_of("root ::= \"a\"{1000}{1000}"), HasSubstr("the grammar is too large"));
  EXPECT_THAT(refusal_of("root ::= (\"\"){1000000}{1000000}"),
              HasSubstr("the grammar is too large"));
}

}  // namespace
}  // namespace patchbay
