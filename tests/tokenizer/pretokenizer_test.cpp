#include "tokenizer/pretokenizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/utf8.h"
#include "golden_support.h"

namespace patchbay {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Pretokenizer pretokenizer(std::string_view name) {
  return Pretokenizer(find_pretokenizer(name).value());
}

std::string piece_lengths(const Pretokenizer &splitter, std::string_view text) {
  std::vector<size_t> lengths;
  for (const std::string_view piece : splitter.split(text)) lengths.push_back(piece.size());
  return fmt::format("{}", fmt::join(lengths, " "));
}

TEST(Pretokenizer, PiecesEqualThoseOfHuggingFaceForEveryPattern) {
  const std::vector<std::string> strings = golden_strings();
  std::optional<Pretokenizer> splitter;
  std::string name;
  size_t n_families = 0;
  size_t n_compared = 0;
  for (const std::string &line : golden_lines("pretokenizers.txt")) {
    if (line.starts_with("= ")) {
      name = line.substr(2);
      splitter = pretokenizer(name);
      ++n_families;
      continue;
    }
    const size_t colon = line.find(": ");
    const std::string text = repair_utf8(strings.at(std::stoul(line.substr(0, colon))));
    EXPECT_EQ(piece_lengths(*splitter, text), line.substr(colon + 2)) << name << ": " << text;
    ++n_compared;
  }
  fmt::print("{} families, {} texts compared\n", n_families, n_compared);
  EXPECT_GE(n_families, 15U);
  EXPECT_GT(n_compared, 4000U);
}

TEST(Pretokenizer, EveryKnownNameCompilesAndLosesNothing) {
  const std::string text = "Hello  World's 12345 über\u3000漢字\r\n\t!?  ";
  const std::string names = known_pretokenizers();
  size_t n_names = 0;
  for (size_t pos = 0; pos < names.size(); ++n_names) {
    const size_t end = std::min(names.find(", ", pos), names.size());
    std::string joined;
    for (const auto piece : pretokenizer(names.substr(pos, end - pos)).split(text)) joined += piece;
    EXPECT_EQ(joined, text);
    pos = end + 2;
  }
  EXPECT_GT(n_names, 40U);
}

TEST(Pretokenizer, UnknownNameHasNoSpec) {
  EXPECT_FALSE(find_pretokenizer("llama-bpe2").has_value());
  EXPECT_FALSE(find_pretokenizer("").has_value());
}

TEST(Pretokenizer, EmptyTextHasNoPieces) {
  EXPECT_THAT(pretokenizer("smollm").split(""), IsEmpty());
}

TEST(Pretokenizer, EachStepSplitsThePiecesOfTheOneBefore) {
  EXPECT_THAT(pretokenizer("smollm").split("a 12b"), ElementsAre("a", " ", "1", "2", "b"));
}

TEST(Pretokenizer, MongolianVowelSeparatorIsNoWhiteSpace) {
  EXPECT_THAT(pretokenizer("gpt-2").split("a\u180E b"), ElementsAre("a", "\u180E", " b"));
}

TEST(Pretokenizer, TwentyMillionBlanksAreOnePiece) {
  EXPECT_EQ(pretokenizer("llama-bpe").split(std::string(20'000'000, ' ')).size(), 1U);
}

}  // namespace
}  // namespace patchbay
