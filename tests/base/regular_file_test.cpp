#include "base/regular_file.h"

#include <gmock/gmock.h>

#include <array>

#include "base/error.h"
#include "base/temp_dir.h"

namespace patchbay {
namespace {

using testing::HasSubstr;

TEST(RegularFile, ReadsOnWhereItStopped) {
  const TempDir dir;
  const RegularFile file = RegularFile::open(dir.write("a", "abcdef"));
  EXPECT_EQ(file.size_bytes(), 6U);
  std::array<char, 3> part{};
  file.read(std::as_writable_bytes(std::span(part)));
  EXPECT_THAT(part, testing::ElementsAre('a', 'b', 'c'));
  file.read(std::as_writable_bytes(std::span(part)));
  EXPECT_THAT(part, testing::ElementsAre('d', 'e', 'f'));
}

TEST(RegularFile, SaysWhenItBecameShorter) {
  const TempDir dir;
  const auto path = dir.write("a", "abcdef");
  const RegularFile file = RegularFile::open(path);
  std::filesystem::resize_file(path, 2);
  std::array<std::byte, 6> bytes{};
  try {
    file.read(bytes);
    FAIL() << "read six bytes of two";
  } catch (const LoadError &error) {
    EXPECT_THAT(error.what(), HasSubstr("a: became shorter"));
  }
}

TEST(RegularFile, OpensNothingElse) {
  const TempDir dir;
  for (const auto &path : {dir.path(), dir.path() / "missing", std::filesystem::path("/dev/null")})
    EXPECT_THROW(static_cast<void>(RegularFile::open(path)), LoadError) << path;
}

}  // namespace
}  // namespace patchbay
