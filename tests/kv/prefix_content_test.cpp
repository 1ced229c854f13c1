#include "kv/prefix_content.h"

#include <gmock/gmock.h>

#include <array>

#include "kv/prefix_support.h"

namespace patchbay {
namespace {

using testing::ElementsAre;

const PrefixContent k_mixed = joined(joined(text(3, 1), text(2, 4, 7)), text(4, 6));

TEST(PrefixContent, KeepsOneEntryForARunThatWearsTheSame) {
  EXPECT_THAT(k_mixed.tokens(), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(k_mixed.worn(),
              ElementsAre(WornFrom{0, digest(0)}, WornFrom{3, digest(7)}, WornFrom{5, digest(0)}));
}

TEST(PrefixContent, EqualContentsAreEqualHoweverTheyWereToldAndCut) {
  // Runs that change nothing, one that nobody wears, and one behind the last token.
  const std::array worn{WornFrom{0, digest(0)}, WornFrom{2, digest(0)}, WornFrom{3, digest(9)},
                        WornFrom{3, digest(7)}, WornFrom{5, digest(0)}, WornFrom{9, digest(8)}};
  const PrefixContent told(ContentView{k_mixed.tokens(), worn});
  EXPECT_EQ(told, k_mixed);
  EXPECT_EQ(told.hash(5), k_mixed.hash(5));
  EXPECT_EQ(PrefixContent(ContentView{k_mixed.tokens(), {}}), text(9, 1)) << "none: the base";
}

TEST(PrefixContent, AnyCutJoinedAgainIsTheWhole) {
  for (uint32_t i = 0; i <= k_mixed.n_tokens(); ++i) {
    for (uint32_t j = i; j <= k_mixed.n_tokens(); ++j) {
      PrefixContent whole = k_mixed.slice(0, i);
      whole.append(k_mixed.slice(i, j - i));
      whole.append(k_mixed.slice(j, k_mixed.n_tokens() - j));
      EXPECT_EQ(whole, k_mixed) << i << ", " << j;
    }
  }
  EXPECT_EQ(k_mixed.slice(4, 0), PrefixContent());
  EXPECT_EQ(k_mixed.slice(4, 2), joined(text(1, 5, 7), text(1, 6)));
}

TEST(PrefixContent, TheHashDependsOnEveryPart) {
  const uint64_t hash = k_mixed.hash(1);
  EXPECT_NE(k_mixed.hash(2), hash);
  EXPECT_NE(k_mixed.slice(0, 8).hash(1), hash);
  for (uint32_t i = 0; i < k_mixed.n_tokens(); ++i) {
    std::vector<int32_t> tokens = k_mixed.tokens();
    tokens[i] = 40;
    EXPECT_NE(PrefixContent(ContentView{tokens, k_mixed.worn()}).hash(1), hash) << i;
  }
  EXPECT_NE(text(9, 1).hash(1), hash);
  EXPECT_NE(text(9, 1, 1).hash(1), text(9, 1, 2).hash(1));
}

TEST(PrefixContent, WhatTwoHaveInCommonEndsAtTheFirstOtherTokenOrOtherWear) {
  for (uint32_t n = 0; n <= 9; ++n) {
    EXPECT_EQ(n_common(k_mixed, k_mixed.slice(0, n)), n);
    EXPECT_EQ(n_common(k_mixed.slice(0, n), k_mixed), n);
    EXPECT_EQ(n_common(joined(k_mixed.slice(0, n), text(12 - n, 50)), k_mixed), n);
    // The same tokens, other wear from n on.
    const PrefixContent worn_after =
        joined(text(n, 1), text(9 - n, 1 + static_cast<int32_t>(n), 3));
    EXPECT_EQ(n_common(worn_after, text(9, 1)), n);
    EXPECT_EQ(n_common(text(9, 1), worn_after), n);
  }
  EXPECT_EQ(n_common(k_mixed, text(9, 1)), 3U);
  EXPECT_EQ(n_common(k_mixed, joined(text(3, 1), text(6, 4, 7))), 5U);
  EXPECT_EQ(n_common(k_mixed, joined(text(4, 1), text(5, 5, 7))), 3U);
}

}  // namespace
}  // namespace patchbay
