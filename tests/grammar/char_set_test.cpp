#include "grammar/char_set.h"

#include <gmock/gmock.h>

#include <random>

#include "base/utf8.h"
#include "grammar/utf8_ranges.h"

namespace patchbay {
namespace {

using testing::ElementsAre;

char32_t below(std::mt19937 &random, uint32_t n) { return static_cast<char32_t>(random() % n); }

TEST(CharSet, RangesThatTouchBecomeOne) {
  CharSet set{{'a', 'c'}, {'x', 'z'}};
  set.add('d', 'f');
  set.add('w', 'w');
  EXPECT_THAT(set.ranges(), ElementsAre(CharSet::Range{'a', 'f'}, CharSet::Range{'w', 'z'}));
  set.add('e', 'x');
  EXPECT_THAT(set.ranges(), ElementsAre(CharSet::Range{'a', 'z'}));
}

TEST(CharSet, SurrogatesAreNeverIn) {
  EXPECT_FALSE(CharSet::all().contains(0xD800));
  EXPECT_FALSE(CharSet::all().contains(0xDFFF));
  EXPECT_TRUE(CharSet::all().contains(0xD7FF));
  EXPECT_TRUE(CharSet::all().contains(0xE000));
  EXPECT_FALSE((CharSet{{'a', 'b'}}.complement().contains(0xDABC)));
  EXPECT_TRUE((CharSet{{0xD800, 0xDFFF}}.empty()));
}

TEST(CharSet, ComplementAndIntersectionAgreeWithContains) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    CharSet one;
    CharSet two;
    for (int i = 0; i < 4; ++i) {
      const char32_t a = below(random, 64);
      const char32_t b = below(random, 64);
      one.add(a, a + below(random, 8));
      two.add(b, b + below(random, 8));
    }
    const CharSet both = one.intersection(two);
    const CharSet not_one = one.complement();
    for (char32_t c = 0; c < 80; ++c) {
      EXPECT_EQ(both.contains(c), one.contains(c) && two.contains(c));
      EXPECT_NE(not_one.contains(c), one.contains(c));
    }
    EXPECT_EQ(not_one.complement(), one);
  }
}

/// How many of the sequences the bytes lie in.
int n_fitting(const std::vector<std::vector<ByteRange>> &sequences, const std::string &bytes) {
  int n = 0;
  for (const auto &sequence : sequences) {
    bool fits = sequence.size() == bytes.size();
    for (size_t i = 0; fits && i < bytes.size(); ++i) {
      const auto byte = static_cast<uint8_t>(bytes[i]);
      fits = sequence[i].first <= byte && byte <= sequence[i].last;
    }
    n += fits ? 1 : 0;
  }
  return n;
}

TEST(Utf8Ranges, HoldExactlyTheCharactersOfTheSet) {
  std::mt19937 random(2);
  for (int round = 0; round < 60; ++round) {
    CharSet set;
    for (int i = 0; i < 3; ++i) {
      const char32_t first = below(random, round % 2 == 0 ? 0x11'0000 : 0x900);
      set.add(first, first + below(random, round % 3 == 0 ? 0x2'0000 : 0x50));
    }
    const auto sequences = utf8_ranges(set);
    std::vector<char32_t> probes;
    for (const auto &range : set.ranges()) {
      const char32_t middle = range.first + (range.last - range.first) / 2;
      probes.insert(probes.end(),
                    {range.first, range.last, range.first - 1, range.last + 1, middle});
    }
    for (int i = 0; i < 300; ++i) probes.push_back(below(random, 0x11'0000));
    for (const char32_t c : probes) {
      if (c > CharSet::k_last || (c >= 0xD800 && c <= 0xDFFF)) continue;
      EXPECT_EQ(n_fitting(sequences, to_utf8(c)), set.contains(c) ? 1 : 0)
          << static_cast<uint32_t>(c);
    }
  }
}

TEST(Utf8Ranges, OfAllCharactersNoneHoldsIllFormedBytes) {
  const auto sequences = utf8_ranges(CharSet::all());
  for (const char *bytes : {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80",
                            "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"})
    EXPECT_EQ(n_fitting(sequences, bytes), 0);
}

}  // namespace
}  // namespace patchbay
