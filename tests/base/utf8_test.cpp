#include "base/utf8.h"

#include <gtest/gtest.h>

namespace patchbay {
namespace {

using namespace std::string_literals;

constexpr const char *k_fffd = "\uFFFD";

std::string replacements(int n) {
  std::string text;
  for (int i = 0; i < n; ++i) text += k_fffd;
  return text;
}

TEST(Utf8Repair, ValidTextPassesUnchanged) {
  const std::string text = "a\0é€\uFFFD😀\U0010FFFF\u0800\uD7FF\uE000"s;
  EXPECT_EQ(repair_utf8(text), text);
  EXPECT_TRUE(is_valid_utf8(text));
}

TEST(Utf8Repair, EachMaximalIllFormedPartIsOneReplacement) {
  EXPECT_EQ(repair_utf8("\x80"), replacements(1));
  EXPECT_EQ(repair_utf8("\xC0\xAF"), replacements(2));
  EXPECT_EQ(repair_utf8("\xE0\x80\xAF"), replacements(3));
  EXPECT_EQ(repair_utf8("\xED\xA0\x80"), replacements(3));
  EXPECT_EQ(repair_utf8("\xF4\x90\x80\x80"), replacements(4));
  EXPECT_EQ(repair_utf8("\xF0\x9F\x98"), replacements(1));
  EXPECT_EQ(repair_utf8("\xE2\x82"), replacements(1));
  EXPECT_EQ(repair_utf8("\xE2\x28\xA1"), k_fffd + "("s + k_fffd);
  // The example of the Unicode standard, table 3-11.
  EXPECT_EQ(repair_utf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), replacements(4) + "A");
}

TEST(Utf8Repair, CharacterIsHeldBackUntilItIsComplete) {
  Utf8Repair repair;
  std::string out;
  repair.push("\xF0\x9F", out);
  repair.push("\x98", out);
  EXPECT_EQ(out, "");
  repair.push("\x80!", out);
  EXPECT_EQ(out, "😀!");
  repair.finish(out);
  EXPECT_EQ(out, "😀!");
}

TEST(Utf8Repair, BytewiseEqualsAtOnce) {
  std::string bytes;
  for (int lead = 0x70; lead < 0x100; ++lead) {
    for (const int next : {0x41, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC3}) {
      bytes += {static_cast<char>(lead), static_cast<char>(next), '\x85'};
    }
  }
  Utf8Repair repair;
  std::string out;
  for (const char byte : bytes) {
    repair.push({&byte, 1}, out);
    ASSERT_TRUE(is_valid_utf8(out));
  }
  repair.finish(out);
  EXPECT_EQ(out, repair_utf8(bytes));
}

TEST(Utf8, CodePointsOfEverySizeAreWritten) {
  EXPECT_EQ(to_utf8(U'a'), "a");
  EXPECT_EQ(to_utf8(0x143), "\u0143");
  EXPECT_EQ(to_utf8(0x2581), "\u2581");
  EXPECT_EQ(to_utf8(0x1F600), "\U0001F600");
}

}  // namespace
}  // namespace patchbay
