#include "base/xxh128.h"

#include <gmock/gmock.h>

#include <string_view>

namespace patchbay {
namespace {

Xxh128Digest digest_of(std::initializer_list<std::string_view> pieces) {
  Xxh128 hash;
  for (const auto piece : pieces) hash.add(std::as_bytes(std::span(piece)));
  return hash.digest();
}

TEST(Xxh128, GivesTheKnownDigestOfNothing) {
  // XXH128 of no bytes, seed 0, in canonical order.
  EXPECT_THAT(digest_of({}), testing::ElementsAre(0x99, 0xaa, 0x06, 0xd3, 0x01, 0x47, 0x98, 0xd8,
                                                  0x60, 0x01, 0xc3, 0x24, 0x46, 0x8d, 0x49, 0x7f));
}

TEST(Xxh128, DependsOnTheBytesAndNotOnHowTheyCome) {
  EXPECT_EQ(digest_of({"keys", "", " and values"}), digest_of({"keys and values"}));
  EXPECT_NE(digest_of({"keys and values"}), digest_of({"keys and valuez"}));
}

}  // namespace
}  // namespace patchbay
