#include "tokenizer/added_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace patchbay {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Parts = std::vector<std::pair<std::string, int32_t>>;

class AddedTokensTest : public testing::Test {
 protected:
  AddedTokensTest() {
    tokens_.add("<a>", 1, true);
    tokens_.add("<a>b", 2, false);
    tokens_.add("\n", 3, false);
    tokens_.add("\n\n\n", 4, false);
    tokens_.add("a>", 5, false);
  }

  [[nodiscard]] Parts parts(std::string_view text, bool parse_special = true) const {
    Parts parts;
    for (const auto &[part, token] : tokens_.partition(text, parse_special)) {
      parts.emplace_back(part, token);
    }
    return parts;
  }

  AddedTokens tokens_;
};

TEST_F(AddedTokensTest, LeftmostLongestMatchWins) {
  EXPECT_EQ(parts("x<a>by"), (Parts{{"x", -1}, {"<a>b", 2}, {"y", -1}}));
  EXPECT_EQ(parts("<a><a>"), (Parts{{"<a>", 1}, {"<a>", 1}}));
  EXPECT_EQ(parts("\n\n\n\n\n"), (Parts{{"\n\n\n", 4}, {"\n", 3}, {"\n", 3}}));
}

TEST_F(AddedTokensTest, UnfinishedMatchIsText) {
  EXPECT_EQ(parts("<a"), (Parts{{"<a", -1}}));
  EXPECT_EQ(parts("<<a>"), (Parts{{"<", -1}, {"<a>", 1}}));
  EXPECT_THAT(parts(""), IsEmpty());
}

TEST_F(AddedTokensTest, ControlTokenIsTextWhenNotParsed) {
  EXPECT_EQ(parts("x<a>y\n", false), (Parts{{"x<a>y", -1}, {"\n", 3}}));
  EXPECT_EQ(parts("<a>b", false), (Parts{{"<a>b", 2}}));
  EXPECT_EQ(parts("a>", false), (Parts{{"a>", 5}}));
}

TEST_F(AddedTokensTest, TokenThatWouldCutACharacterIsIgnored) {
  tokens_.add("\xA9", 6, false);
  tokens_.add("", 7, false);
  EXPECT_EQ(parts("é"), (Parts{{"é", -1}}));
}

}  // namespace
}  // namespace patchbay
