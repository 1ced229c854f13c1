#include "grammar/grammar.h"

#include <gmock/gmock.h>

#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "grammar/grammar_support.h"
#include "grammar/slow_grammar.h"

namespace patchbay {
namespace {

using testing::HasSubstr;

TEST(Grammar, LeftRecursionIsRefusedNamingTheCircle) {
  EXPECT_THAT(refusal_of("root ::= expr\nexpr ::= term \"+\" | \"x\"\nterm ::= (\"-\")? expr"),
              HasSubstr("rule expr calls itself before it reads anything: expr -> term -> expr"));
  EXPECT_THAT(refusal_of("root ::= blank* root | \"a\"\nblank ::= \" \"?"),
              HasSubstr("root -> root"));
  EXPECT_EQ(refusal_of("root ::= \"a\"\nloose ::= loose"), "") << "never reached";
}

TEST(Grammar, ARuleThatCannotEndIsNamed) {
  EXPECT_THAT(refusal_of("root ::= \"a\" | more\nmore ::= \"b\" more"),
              HasSubstr("rule more can never end"));
  EXPECT_THAT(refusal_of("root ::= \"(\" root \")\""), HasSubstr("rule root can never end"));
}

TEST(Grammar, RightRecursionNeedsNoMoreMemoryThanRepetition) {
  GrammarStates recursive(grammar_of("root ::= \"a\" root | \"b\""));
  auto state = recursive.start();
  for (int i = 0; i < 1000; ++i) state = recursive.step(state, 'a');
  EXPECT_LT(recursive.size_bytes(), 20'000U);
}

TEST(Grammar, NestingIsRememberedAsDeepAsItGoes) {
  const auto grammar = grammar_of("root ::= \"(\" root \")\" | \"[\" root \"]\" | \"\"");
  std::string open;
  std::string close;
  std::mt19937 random(3);
  for (int i = 0; i < 3000; ++i) {
    const bool round = random() % 2 == 0;
    open += round ? '(' : '[';
    close.insert(close.begin(), round ? ')' : ']');
  }
  EXPECT_TRUE(matches(grammar, open + close));
  close[1500] = close[1500] == ')' ? ']' : ')';
  EXPECT_FALSE(matches(grammar, open + close));
}

TEST(Grammar, AmbiguityDoesNotMultiply) {
  // As many readings as there are ways to bracket 60 letters, about 10^33.
  const auto grammar = grammar_of("root ::= \"a\" root root | \"a\" root | \"a\"");
  EXPECT_TRUE(matches(grammar, std::string(60, 'a')));
}

/// A grammar written at random over a, b and c, most of them with something that recurs.
class RandomGrammar {
 public:
  explicit RandomGrammar(uint32_t seed) : random_(seed) {}

  std::string write() {
    std::string text;
    for (const char *name : {"root", "one", "two", "three"})
      text += name + (" ::= " + choice(0)) + "\n";
    return text;
  }

 private:
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }

  std::string choice(int depth) {
    std::string text = series(depth);
    for (uint32_t i = below(3); i > 0; --i) text += " | " + series(depth);
    return text;
  }

  std::string series(int depth) {
    std::string text;
    for (uint32_t i = below(4); i > 0; --i) text += (text.empty() ? "" : " ") + part(depth);
    return text.empty() ? "\"\"" : text;
  }

  std::string part(int depth) {
    const std::vector<std::string> simple{"\"a\"", "\"b\"", "\"ab\"", "\"ca\"", "[ab]", "[^a]",
                                          "one",   "two",   "three",  "root",   "\"c\""};
    std::string text = depth < 2 && below(4) == 0
                           ? "(" + choice(depth + 1) + ")"
                           : simple[below(static_cast<uint32_t>(simple.size()))];
    const std::vector<std::string> repetitions{"",  "",    "",      "",      "?",   "*",
                                               "+", "{2}", "{1,2}", "{0,3}", "{2,}"};
    return text + repetitions[below(static_cast<uint32_t>(repetitions.size()))];
  }

  std::mt19937 random_;
};

std::vector<std::string> texts_up_to(size_t n_chars) {
  std::vector<std::string> texts{""};
  for (size_t begin = 0; texts[begin].size() < n_chars; ++begin) {
    for (const char c : {'a', 'b', 'c'}) texts.push_back(texts[begin] + c);
  }
  return texts;
}

/// Whether the text may end after some more bytes, by trying; none: not found out.
std::optional<bool> can_end(GrammarStates &states, GrammarStates::State first) {
  constexpr size_t k_most_tried = 2000;
  std::set<GrammarStates::State> seen{first};
  std::deque<GrammarStates::State> work{first};
  for (; !work.empty(); work.pop_front()) {
    if (states.accepts(work.front())) return true;
    if (seen.size() > k_most_tried) return std::nullopt;
    for (const char byte : {'a', 'b', 'c', '!'}) {
      const auto to = states.step(work.front(), static_cast<uint8_t>(byte));
      if (to != GrammarStates::k_dead && seen.insert(to).second) work.push_back(to);
    }
  }
  return false;
}

TEST(Grammar, RandomGrammarsAgreeWithTheSlowReference) {
  const auto texts = texts_up_to(5);
  int n_grammars = 0;
  int n_matching = 0;
  int n_alive = 0;
  int n_ending = 0;
  for (uint32_t seed = 0; n_grammars < 250; ++seed) {
    const std::string gbnf = RandomGrammar(seed).write();
    const auto rules = parse_gbnf(gbnf);
    ASSERT_TRUE(rules) << gbnf;
    auto compiled = Grammar::compile(*rules);
    if (!compiled) continue;  // left recursive, or without an end
    ++n_grammars;
    GrammarStates states(std::make_shared<const Grammar>(*std::move(compiled)));
    std::map<std::string, GrammarStates::State> state_of{{"", states.start()}};
    for (const std::string &text : texts) {
      if (!text.empty()) {
        const auto before = state_of.at(text.substr(0, text.size() - 1));
        state_of[text] = before == GrammarStates::k_dead
                             ? GrammarStates::k_dead
                             : states.step(before, static_cast<uint8_t>(text.back()));
      }
      const auto state = state_of.at(text);
      const bool accepted = state != GrammarStates::k_dead && states.accepts(state);
      const bool wanted = SlowGrammar(*rules, text).matches();
      ASSERT_EQ(accepted, wanted) << gbnf << "\n\"" << text << '"';
      n_matching += wanted ? 1 : 0;
      // What is alive can be ended; that what is dead cannot be is what the longer texts show.
      if (state == GrammarStates::k_dead || text.size() > 2) continue;
      const auto ends = can_end(states, state);
      ASSERT_NE(ends, false) << gbnf << "\n\"" << text << '"';
      n_ending += ends == true ? 1 : 0;
      n_alive += 1;
    }
  }
  EXPECT_GT(n_matching, 1000);
  EXPECT_GT(n_ending, n_alive * 9 / 10);
}

}  // namespace
}  // namespace patchbay
