#include "grammar/char_network.h"

#include <gmock/gmock.h>

#include <set>

#include "grammar/json_pattern.h"

namespace patchbay {
namespace {

std::vector<std::string> texts_up_to(size_t n_chars) {
  std::vector<std::string> texts{""};
  for (size_t begin = 0; texts[begin].size() < n_chars; ++begin) {
    for (const char c : {'a', 'b', 'c'}) texts.push_back(texts[begin] + c);
  }
  return texts;
}

TEST(CharNetwork, AnIntersectionHasWhatBothHave) {
  const auto one = *parse_pattern("^(ab|c)*$");
  const auto other = *parse_pattern("b.*c|^a?b?$");
  const auto both = intersection(one, other);
  ASSERT_TRUE(both);
  int n_both = 0;
  for (const std::string &text : texts_up_to(6)) {
    const bool wanted = one.matches(text) && other.matches(text);
    EXPECT_EQ(both->matches(text), wanted) << text;
    n_both += wanted ? 1 : 0;
  }
  EXPECT_GT(n_both, 5);
}

TEST(CharNetwork, LengthsCountCharacters) {
  const auto some = texts_of_length(1, 3);
  const auto many = texts_of_length(2, grammar::k_unbounded);
  for (size_t n = 0; n < 6; ++n) {
    std::string text;
    for (size_t i = 0; i < n; ++i) text += "\xF0\x9F\x98\x80";
    EXPECT_EQ(some->matches(text), n >= 1 && n <= 3);
    EXPECT_EQ(many->matches(text), n >= 2);
  }
  EXPECT_FALSE(texts_of_length(0, 1'000'000));
}

TEST(CharNetwork, AllTextsButSomeLacksThoseOnly) {
  const std::vector<std::string> left_out{"a", "abc", "cc", "\xC3\xA9"};
  const CharNetwork network = all_texts_but(left_out);
  const std::set<std::string> none(left_out.begin(), left_out.end());
  for (const std::string &text : texts_up_to(5))
    EXPECT_NE(network.matches(text), none.contains(text)) << text;
  EXPECT_FALSE(network.matches("\xC3\xA9"));
  EXPECT_TRUE(network.matches("\xC3\xA9\xC3\xA9"));
  EXPECT_FALSE(all_texts_but({""}).matches(""));
}

}  // namespace
}  // namespace patchbay
