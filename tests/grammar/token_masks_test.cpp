#include "grammar/token_masks.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <random>

#include "grammar/grammar_support.h"

namespace patchbay {
namespace {

using testing::HasSubstr;

TEST(TokenTrie, TokensOfASubtreeAreNeighboursByRank) {
  const TokenTrie trie({"b", "ab", "", "a", "abc", "a", "<end>"}, {6});
  std::vector<int32_t> by_rank;
  for (uint32_t rank = 0; rank < trie.n_ranked(); ++rank) by_rank.push_back(trie.token(rank));
  EXPECT_THAT(by_rank, testing::ElementsAre(3, 5, 1, 4, 0));
  const auto nodes = trie.nodes();
  ASSERT_THAT(nodes, testing::SizeIs(5));  // a, ab, abc, b and the end
  EXPECT_EQ(nodes[0].next, 3U);
  EXPECT_EQ(nodes[nodes[0].next].first_rank, 4U);
  EXPECT_EQ(nodes[1].depth, 2);
  EXPECT_EQ(trie.depth(), 3U);
}

TEST(TokenTrie, ASubtreeIsDescribedByItsCharacters) {
  const TokenTrie trie({"xa", "xb", "x\xC3\xA9", "x\xC3\xA9z", "x\xC3", "y\xA9", "ya", "yb", "yc"},
                       {});
  const auto &x = trie.below(trie.nodes()[0]);
  EXPECT_TRUE(x.is_well_formed);
  EXPECT_TRUE(x.beyond_ascii);
  EXPECT_EQ(x.n_chars, 2);
  EXPECT_EQ(x.ascii, std::bitset<128>().set('a').set('b').set('z'));
  const auto &y = trie.nodes()[trie.nodes()[0].next];
  EXPECT_EQ(y.byte, 'y');
  EXPECT_EQ(y.below, 0U) << "ill-formed: not described";
}

/// Pieces as vocabularies have them: words, parts of characters, all bytes, some twice.
std::vector<std::string> random_pieces(std::mt19937 &random, size_t n_pieces) {
  const std::vector<std::string> chars{"a",
                                       "b",
                                       "c",
                                       "x",
                                       "0",
                                       "1",
                                       " ",
                                       "\"",
                                       "\\",
                                       "n",
                                       "u",
                                       "{",
                                       "}",
                                       "[",
                                       "]",
                                       ":",
                                       ",",
                                       ".",
                                       "-",
                                       "\n",
                                       "\xC3\xA9",
                                       "\xE6\x95\xB0",
                                       "\xF0\x9F\x98\x80"};
  std::vector<std::string> pieces;
  for (int byte = 0; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
  while (pieces.size() < n_pieces) {
    std::string piece;
    for (auto n = 1 + random() % 6; n > 0; --n) piece += chars[random() % chars.size()];
    if (random() % 4 == 0) piece.erase(0, random() % 3);
    if (random() % 4 == 0)
      piece.resize(piece.size() - std::min<size_t>(piece.size(), random() % 3));
    pieces.push_back(piece);
  }
  return pieces;
}

constexpr std::array k_grammars = {
    R"(root ::= [^"]*)",
    R"(root ::= "\"" ([^"\\\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-f]{4}))* "\"")",
    R"(root ::= value
       value ::= "{" (pair ("," " "? pair)*)? "}" | "[" (value ("," value)*)? "]" | string | "-"? [0-9]+
       pair ::= string ":" " "? value
       string ::= "\"" ([^"\\] | "\\" .){0,12} "\"")",
    R"(root ::= ([^\n]{0,7} "\n")*)",
    R"(root ::= .* "xa" .*)",
    R"(root ::= [a-cé数]+ | [^a-c]{2,5} | "😀" root)",
    R"(root ::= ([^b] [^c])* "x"?)",
};

class TokenMasksOf : public testing::TestWithParam<const char *> {};

TEST_P(TokenMasksOf, AllowWhatReadingEveryTokenAllows) {
  std::mt19937 random(11);
  auto pieces = random_pieces(random, 3000);
  pieces.emplace_back();  // a control token, which has no text
  pieces.emplace_back("<end>");
  const auto end = static_cast<int32_t>(pieces.size() - 1);
  const auto trie = std::make_shared<const TokenTrie>(pieces, std::vector<int32_t>{end});
  const auto grammar = grammar_of(GetParam());
  const auto masks = std::make_shared<TokenMasks>(grammar, trie);
  int n_allowed = 0;
  for (int i_walk = 0; i_walk < 6; ++i_walk) {
    GrammarMatcher matcher(masks);
    GrammarStates slow(grammar);
    auto state = slow.start();
    for (int step = 0; step < 12 && slow.goes_on(state); ++step) {
      const TokenMask mask = **matcher.allowed();
      std::vector<int32_t> allowed;
      for (int32_t token = 0; token < end; ++token) {
        auto after = state;
        for (const char byte : trie->piece(token))
          after = slow.step(after, static_cast<uint8_t>(byte));
        const bool wanted = !trie->piece(token).empty() && after != GrammarStates::k_dead;
        ASSERT_EQ(mask.allows(token), wanted)
            << "token " << token << " '" << trie->piece(token) << '\'';
        if (wanted) allowed.push_back(token);
      }
      ASSERT_EQ(mask.allows(end), slow.accepts(state));
      ASSERT_EQ(matcher.accepts(), slow.accepts(state));
      n_allowed += static_cast<int>(allowed.size());
      const int32_t token = allowed[random() % allowed.size()];
      ASSERT_TRUE(matcher.accept(token));
      for (const char byte : trie->piece(token))
        state = slow.step(state, static_cast<uint8_t>(byte));
    }
  }
  EXPECT_GT(n_allowed, 1000);
}

INSTANTIATE_TEST_SUITE_P(Grammars, TokenMasksOf, testing::ValuesIn(k_grammars));

TEST(TokenMask, LeavesOutTheLogitsOfAllOthers) {
  std::mt19937 random(5);
  for (const uint32_t n_vocab : {1U, 7U, 64U, 77U, 200U, 1000U}) {
    TokenMask mask(n_vocab);
    for (uint32_t token = 0; token < n_vocab; ++token) {
      if (token < 128 || random() % 2 == 0) mask.allow(static_cast<int32_t>(token));
      if (token >= 128 && token < 192) mask.forbid(static_cast<int32_t>(token));
    }
    std::vector<float> logits(n_vocab, 2);
    mask.leave_out(logits);
    for (uint32_t token = 0; token < n_vocab; ++token)
      EXPECT_EQ(logits[token] == 2, mask.allows(static_cast<int32_t>(token))) << token;
  }
}

TEST(TokenMasks, AGrammarOfTooManyReadingsFailsInsteadOfWorkingForEver) {
  // Any of 50,000 letters may have been left out.
  GrammarMatcher wide = matcher_of(grammar_of("root ::= (\"a\"?){50000}"));
  const auto read = wide.read("aaaaaaaa");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(read.error().message, HasSubstr("too ambiguous"));
  // After n letters there are n^2 places or so, and every state is new.
  GrammarMatcher growing = matcher_of(grammar_of(R"(root ::= a
a ::= "x" a "y" | "x" a "z" | "x" b | ""
b ::= "x" b a b "y" | "x" a b | "x")"));
  EXPECT_FALSE(growing.read(std::string(100'000, 'x')));
}

TEST(TokenMasks, ForgettingStatesLosesNobody) {
  const auto grammar = grammar_of("root ::= \"(\" root \")\" | \"[\" root \"]\" | \"\"");
  const auto masks = std::make_shared<TokenMasks>(grammar, byte_trie());
  GrammarMatcher first(masks);
  GrammarMatcher second(masks);
  std::mt19937 random(1);
  const auto go_on = [&](GrammarMatcher &matcher, std::string &closing) {
    const bool is_round = random() % 2 == 0;
    ASSERT_TRUE(*matcher.read(is_round ? "(" : "["));
    closing.insert(closing.begin(), is_round ? ')' : ']');
  };
  // Deeper and deeper, in ways of their own, until the room has run out a few times.
  std::string closing_first;
  std::string closing_second;
  while (masks->epoch() < 3) {
    for (int i = 0; i < 2000; ++i) {
      if (i % 2 == 0) go_on(first, closing_first);
      if (closing_second.size() < 5000) go_on(second, closing_second);
    }
    if (closing_first.size() > 20'000) {
      first = GrammarMatcher(masks);
      closing_first.clear();
    }
  }
  EXPECT_LT(masks->size_bytes(), size_t{40} << 20U);
  EXPECT_TRUE(*first.read(closing_first));
  EXPECT_TRUE(*second.read(closing_second));
  EXPECT_TRUE(second.accepts());
  EXPECT_FALSE(second.goes_on());
}

TEST(TokenMasks, ATextThatNeedsAllTheRoomAloneFails) {
  const auto grammar = grammar_of("root ::= \"(\" root \")\" | \"[\" root \"]\" | \"\"");
  GrammarMatcher matcher = matcher_of(grammar);
  std::mt19937 random(1);
  std::string error;
  for (int i = 0; i < 3'000'000 && error.empty(); ++i) {
    const auto read = matcher.read(random() % 2 == 0 ? "(" : "[");
    if (!read) error = read.error().message;
  }
  EXPECT_THAT(error, testing::AnyOf(HasSubstr("too deeply nested"), HasSubstr("too ambiguous")));
}

}  // namespace
}  // namespace patchbay
