#include "grammar/json_pattern.h"

#include <gmock/gmock.h>

namespace patchbay {
namespace {

bool finds(std::string_view pattern, std::string_view text) {
  const auto network = parse_pattern(pattern);
  EXPECT_TRUE(network) << pattern << ": " << (network ? "" : network.error().message);
  return network && network->matches(text);
}

TEST(JsonPattern, IsFoundAnywhereUnlessAnchored) {
  EXPECT_TRUE(finds("b", "abc"));
  EXPECT_TRUE(finds("", "anything"));
  EXPECT_FALSE(finds("^b", "abc"));
  EXPECT_FALSE(finds("b$", "abc"));
  EXPECT_TRUE(finds("^a|c$", "xyzc"));
  EXPECT_TRUE(finds("^a|c$", "axyz"));
  EXPECT_FALSE(finds("^(a|c)$", "ac"));
  EXPECT_TRUE(finds("^$", ""));
  EXPECT_FALSE(finds("^$", "\n"));
}

TEST(JsonPattern, RepetitionsCountWhatTheySay) {
  for (const auto &[pattern, least, most] : {std::tuple{"^a*$", 0, 9},
                                             {"^a+$", 1, 9},
                                             {"^a?$", 0, 1},
                                             {"^a{3}$", 3, 3},
                                             {"^a{2,4}$", 2, 4},
                                             {"^a{2,}$", 2, 9},
                                             {"^a{0,2}$", 0, 2},
                                             {"^a{0}$", 0, 0},
                                             {"^(a{2}){1,2}$", 2, 4},
                                             {"^(a?){3}$", 0, 3},
                                             {"^a+?$", 1, 9},
                                             {"^(a*)*$", 0, 9},
                                             {"^(a{1,2}){2,3}$", 2, 6}}) {
    for (int n = 0; n <= 9; ++n) {
      const bool even_only = std::string_view(pattern) == "^(a{2}){1,2}$" && n % 2 == 1;
      EXPECT_EQ(finds(pattern, std::string(static_cast<size_t>(n), 'a')),
                n >= least && n <= most && !even_only)
          << pattern << ' ' << n;
    }
  }
}

TEST(JsonPattern, ClassesAndEscapesAreThoseThatAllReadersAgreeOn) {
  EXPECT_TRUE(finds("^[a-c\\]\\-x]$", "]"));
  EXPECT_TRUE(finds("^[a-c\\]\\-x]$", "-"));
  EXPECT_TRUE(finds("^[^a-c]$", "\xC3\xA9"));
  EXPECT_TRUE(finds("^\\x41\\u00e9\\t\\/\\.$", "A\xC3\xA9\t/."));
  EXPECT_TRUE(finds("^\\d\\w\\s$", "7_ "));
  EXPECT_FALSE(finds("^\\d$", "\xD9\xA3")) << "a digit to Python, none to ECMA-262";
  EXPECT_FALSE(finds("^\\D$", "\xD9\xA3"));
  EXPECT_FALSE(finds("^[^\\d]$", "\xD9\xA3"));
  EXPECT_FALSE(finds("^\\s$", "\x1C"));
  EXPECT_FALSE(finds("^\\S$", "\x1C"));
  EXPECT_FALSE(finds("^[^\\s]$", "\x1C"));
  EXPECT_TRUE(finds("^[^\\s]$", "\xC3\xA9"));
  EXPECT_FALSE(finds("^.$", "\n"));
  EXPECT_FALSE(finds("^.$", "\xE2\x80\xA8"));
  EXPECT_TRUE(finds("^.$", "\xF0\x9F\x98\x80"));
  EXPECT_TRUE(finds("^[\\b]$", "\b"));
}

TEST(JsonPattern, GroupsMayHaveNames) {
  EXPECT_TRUE(finds("^(?<year>\\d{4})-(?P<month>\\d\\d)(?:x|y)$", "2024-12y"));
}

TEST(JsonPattern, RefusalsNameTheByte) {
  for (const auto &[pattern, told] :
       {std::pair{"ab(?=c)", "byte 3: lookaround (?=...) is not supported"},
        {"(?<!a)b", "byte 1: lookaround (?<!...) is not supported"},
        {"a**", "byte 3: a repetition of a repetition needs a group"},
        {"*", "byte 1: there is nothing that * could repeat"},
        {"a{,2}", "byte 2: { is supported as {n}, {n,} and {n,m} only"},
        {"a{2,1}", "byte 2: {2,1} has no number"},
        {"[b-a]", "byte 3: this range ends before it begins"},
        {"[\\d-z]", "byte 4: this range has no first or last"},
        {"[]a]", "byte 1: a class that begins with ] is read in different ways"},
        {"[a", "byte 1: this class is not closed"},
        {"a)", "byte 2: ) closes no group"},
        {"(?i)a", "byte 1: groups that begin like this are not supported"},
        {"\\", "byte 1: the escape ends early"},
        {"\\q", "byte 1: this escape is not supported"},
        {"\\uD800", "byte 1: U+D800 is no character"},
        {"\\u12", "byte 1: the escape wants 4 hexadecimal digits"},
        {"a^", "byte 2: ^ is supported at the beginning only"}}) {
    const auto network = parse_pattern(pattern);
    ASSERT_FALSE(network) << pattern;
    EXPECT_EQ(network.error().message, told);
  }
  EXPECT_FALSE(parse_pattern(std::string(100, '(') + "a" + std::string(100, ')')));
  EXPECT_FALSE(parse_pattern("(a{1000}){1000}"));
  EXPECT_FALSE(parse_pattern("((a?){500}){500}"));
}

}  // namespace
}  // namespace patchbay
