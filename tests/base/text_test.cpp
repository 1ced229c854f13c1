#include "base/text.h"

#include <gtest/gtest.h>

namespace patchbay {
namespace {

using Names = std::vector<std::string_view>;

TEST(Text, ListsNameFive) {
  EXPECT_EQ(first_five(Names{}), "");
  EXPECT_EQ(first_five(Names{"a"}), "a");
  EXPECT_EQ(first_five(Names{"a", "b", "c", "d", "e"}), "a, b, c, d, e");
  EXPECT_EQ(first_five(Names{"a", "b", "c", "d", "e", "f", "g"}), "a, b, c, d, e and 2 more");
  EXPECT_EQ(first_five(std::vector<int>{1, -2}), "1, -2");
}

TEST(Text, OnlyAsciiLettersBecomeLower) {
  EXPECT_EQ(ascii_lower("PiSSA_4[`{Z"), "pissa_4[`{z");
  EXPECT_EQ(ascii_lower("\xC3\x84"), "\xC3\x84");
}

TEST(Text, HexHasTwoDigitsForEachByte) {
  EXPECT_EQ(hex(std::vector<unsigned char>{}), "");
  EXPECT_EQ(hex(std::vector<unsigned char>{0x0F, 0x3A, 0x00, 0xFF}), "0f3a00ff");
}

}  // namespace
}  // namespace patchbay
