#include "engine/stop_matcher.h"

#include <gtest/gtest.h>

namespace patchbay {
namespace {

struct Outcome {
  std::string text;
  bool stopped = false;

  bool operator==(const Outcome &) const = default;
};

/// The text that comes out when `text` goes in in pieces of `n` bytes.
Outcome in_pieces_of(size_t n, const std::string &text, const std::vector<std::string> &stops) {
  StopMatcher matcher(stops);
  Outcome outcome;
  for (size_t i = 0; i < text.size() && !matcher.stopped(); i += n)
    outcome.text += matcher.push(text.substr(i, n));
  outcome.stopped = matcher.stopped();
  if (!outcome.stopped) outcome.text += matcher.finish();
  return outcome;
}

TEST(StopMatcher, EndsBeforeAStopStringHoweverTheTextIsCut) {
  for (size_t n = 1; n <= 12; ++n) {
    EXPECT_EQ(in_pieces_of(n, "one two STOP three", {"STOP"}), (Outcome{"one two ", true})) << n;
    EXPECT_EQ(in_pieces_of(n, "aaab", {"aab"}), (Outcome{"a", true})) << n;
    EXPECT_EQ(in_pieces_of(n, "xx</s>", {"</s>", "yy"}), (Outcome{"xx", true})) << n;
  }
}

TEST(StopMatcher, GivesBackWhatOnlyLookedLikeTheBeginning) {
  for (size_t n = 1; n <= 12; ++n) {
    EXPECT_EQ(in_pieces_of(n, "a STO b ST", {"STOP"}), (Outcome{"a STO b ST", false})) << n;
  }
}

TEST(StopMatcher, HoldsBackNoMoreThanTheOpenBeginning) {
  StopMatcher matcher({"END", "EN2"});
  EXPECT_EQ(matcher.push("abcE"), "abc");
  EXPECT_EQ(matcher.push("N"), "");
  EXPECT_EQ(matcher.push("x"), "ENx");
  EXPECT_EQ(matcher.push("E"), "");
  EXPECT_EQ(matcher.finish(), "E");
}

TEST(StopMatcher, TheEarliestOfSeveralWins) {
  StopMatcher matcher({"two", "one"});
  EXPECT_EQ(matcher.push("zero one two"), "zero ");
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(matcher.push("more"), "");
}

TEST(StopMatcher, AnEmptyStopStringStopsNothing) {
  EXPECT_EQ(in_pieces_of(1, "text", {""}), (Outcome{"text", false}));
}

}  // namespace
}  // namespace patchbay
