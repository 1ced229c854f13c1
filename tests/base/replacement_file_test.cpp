#include "base/replacement_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "base/error.h"
#include "base/file_limit.h"
#include "base/temp_dir.h"

namespace patchbay {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string text_of(const fs::path &path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

auto n_files(const fs::path &folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(ReplacementFile, TakesThePlaceOfTheOldOneWhenItIsWhole) {
  const TempDir dir;
  const auto path = dir.write("a", "old");
  {
    ReplacementFile file(path);
    file.write(bytes_of("ne"));
    file.write(bytes_of("w"));
    EXPECT_EQ(text_of(path), "old");
    file.commit();
  }
  EXPECT_EQ(text_of(path), "new");
  EXPECT_EQ(n_files(dir.path()), 1);
}

TEST(ReplacementFile, OnlyTheOwnerMayReadIt) {
  const TempDir dir;
  ReplacementFile file(dir.path() / "a");
  file.commit();
  struct stat info{};
  ASSERT_EQ(stat((dir.path() / "a").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
}

TEST(ReplacementFile, WhoeverTheUmaskLetsMayReadItWhenThatIsWanted) {
  const TempDir dir;
  const mode_t before = umask(027);
  ReplacementFile file(dir.path() / "a", FileReaders::as_umask);
  umask(before);
  file.commit();
  struct stat info{};
  ASSERT_EQ(stat((dir.path() / "a").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0640U);
}

TEST(ReplacementFile, HasNoNameWhileItIsWritten) {
  const TempDir dir;
  const int fd = open(dir.path().c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  const int n_names = fd < 0 ? 1 : 0;  // of a file system that has no such files
  if (fd >= 0) close(fd);
  ReplacementFile file(dir.path() / "a");
  file.write(bytes_of("half"));
  EXPECT_EQ(n_files(dir.path()), n_names);
  EXPECT_FALSE(fs::exists(dir.path() / "a"));
}

TEST(ReplacementFile, ALinkStaysAndWhatItNamesIsWritten) {
  const TempDir dir;
  fs::create_directory(dir.path() / "there");
  fs::create_symlink("there/second", dir.path() / "first");
  fs::create_symlink("file", dir.path() / "there" / "second");
  for (const std::string_view text : {"new", "newer"}) {
    ReplacementFile file(dir.path() / "first");
    file.write(bytes_of(text));
    file.commit();
    EXPECT_EQ(text_of(dir.path() / "there" / "file"), text);
    EXPECT_TRUE(fs::is_symlink(dir.path() / "first"));
  }
  fs::create_symlink("loop", dir.path() / "loop");
  EXPECT_THROW(ReplacementFile(dir.path() / "loop"), LoadError);
}

TEST(ReplacementFile, ANameMayBeAsLongAsNamesCanBe) {
  const TempDir dir;
  const fs::path path = dir.path() / std::string(255, 'a');
  ReplacementFile file(path);
  file.commit();
  EXPECT_TRUE(fs::exists(path));
}

TEST(ReplacementFile, LeavesNothingWithoutACommit) {
  const TempDir dir;
  const auto path = dir.write("a", "old");
  {
    ReplacementFile file(path);
    file.write(bytes_of("new"));
  }
  EXPECT_EQ(text_of(path), "old");
  EXPECT_EQ(n_files(dir.path()), 1);
}

TEST(ReplacementFile, AFullDiskLeavesTheOldOne) {
  const TempDir dir;
  const auto path = dir.write("a", "old");
  {
    const FileLimit limit(1000);
    ReplacementFile file(path);
    file.write(bytes_of(std::string(900, 'x')));
    try {
      file.write(bytes_of(std::string(900, 'x')));
      FAIL() << "wrote 1800 bytes";
    } catch (const LoadError &error) {
      EXPECT_THAT(error.what(), HasSubstr("cannot be written: File too large"));
    }
  }
  EXPECT_EQ(text_of(path), "old");
  EXPECT_EQ(n_files(dir.path()), 1);
}

TEST(ReplacementFile, FollowsALinkAndReplacesNothingButFiles) {
  const TempDir dir;
  const auto path = dir.write("a", "old");
  fs::create_symlink(path, dir.path() / "link");
  {
    ReplacementFile file(dir.path() / "link");
    file.write(bytes_of("new"));
    file.commit();
  }
  EXPECT_EQ(text_of(path), "new");
  EXPECT_TRUE(fs::is_symlink(dir.path() / "link"));
  for (const fs::path &other : {dir.path(), fs::path("/dev/null"), dir.path() / "no" / "folder"})
    EXPECT_THROW(ReplacementFile file(other), LoadError) << other;
  EXPECT_EQ(n_files(dir.path()), 2);
}

}  // namespace
}  // namespace patchbay
