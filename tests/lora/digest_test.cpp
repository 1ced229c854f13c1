#include "lora/digest.h"

#include <gtest/gtest.h>

#include "lora/random_adapter.h"

namespace patchbay {
namespace {

const std::vector<AdaptableUse> k_uses{{"one", UseKind::linear, {4, 6, 1}},
                                       {"two", UseKind::linear, {4, 6, 1}}};

TEST(Digest, DependsOnWhatAnAdapterDoesAndOnNothingElse) {
  const Adapter adapter = *make_random_adapter(k_uses, 2, 1, 1);
  Adapter renamed = adapter;
  renamed.name = "other";
  renamed.path = "/elsewhere";
  EXPECT_EQ(digest_of(renamed), digest_of(adapter));

  Adapter scaled = adapter;
  scaled.pairs[0].scale = 2;
  EXPECT_NE(digest_of(scaled), digest_of(adapter));
  Adapter moved = adapter;
  moved.pairs[1].target = "three";
  EXPECT_NE(digest_of(moved), digest_of(adapter));
  Adapter invoked = adapter;
  invoked.invocation_tokens = {1};
  EXPECT_NE(digest_of(invoked), digest_of(adapter));
  EXPECT_NE(digest_of(*make_random_adapter(k_uses, 2, 1, 2)), digest_of(adapter));
}

}  // namespace
}  // namespace patchbay
