#include "base/sha256.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

namespace patchbay {
namespace {

std::string hex(const Sha256Digest &digest) {
  std::string text;
  for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

Sha256Digest digest_of(const std::vector<std::string> &parts) {
  Sha256 hash;
  for (const auto &part : parts) hash.text(part);
  return hash.finish();
}

TEST(Sha256, EqualsTheStandardOverNumbersOneByteEach) {
  // FIPS 180-4's own examples: "abc", and nothing at all.
  Sha256 hash;
  for (const char letter : {'a', 'b', 'c'}) hash.value(letter);
  EXPECT_EQ(hex(hash.finish()), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(Sha256().finish()),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Sha256, APartIsItsLengthAndItsBytes) {
  Sha256 hash;
  hash.value(uint64_t{3});
  for (const char letter : {'a', 'b', 'c'}) hash.value(letter);
  EXPECT_EQ(digest_of({"abc"}), hash.finish());
}

TEST(Sha256, ListsOfPartsDoNotRunTogether) {
  EXPECT_EQ(digest_of({"ab", "c"}), digest_of({"ab", "c"}));
  EXPECT_NE(digest_of({"ab", "c"}), digest_of({"a", "bc"}));
  EXPECT_NE(digest_of({"abc", ""}), digest_of({"", "abc"}));
  EXPECT_NE(digest_of({"abc"}), digest_of({"abc", ""}));
  EXPECT_NE(digest_of({}), digest_of({""}));
}

}  // namespace
}  // namespace patchbay
