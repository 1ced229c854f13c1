#include "base/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/temp_dir.h"
#include "gguf/load_failure.h"

namespace patchbay {
namespace {

using testing::HasSubstr;

std::string_view text_of(const MappedFile &file) {
  return {reinterpret_cast<const char *>(file.bytes().data()), file.bytes().size()};
}

LoadError failure_of(const std::filesystem::path &path) {
  try {
    (void)MappedFile::open(path);
  } catch (const LoadError &error) {
    return error;
  }
  ADD_FAILURE() << path << " was opened";
  return LoadError(LoadError::Parts{});
}

TEST(MappedFileTest, ShowsTheBytesAndThePath) {
  const TempDir dir;
  const auto path = dir.write("a.bin", std::string_view("ab\0c", 4));
  const auto file = MappedFile::open(path);
  EXPECT_EQ(text_of(file), std::string_view("ab\0c", 4));
  EXPECT_EQ(file.path(), path.string());
}

TEST(MappedFileTest, AnEmptyFileHasNoBytes) {
  const TempDir dir;
  EXPECT_TRUE(MappedFile::open(dir.write("empty", "")).bytes().empty());
}

TEST(MappedFileTest, AMissingFileIsNotFound) {
  const TempDir dir;
  const auto error = failure_of(dir.path() / "nowhere");
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_THAT(error.what(), HasSubstr("nowhere: cannot be opened: No such file"));
  dir.write("file", "x");
  EXPECT_EQ(failure_of(dir.path() / "file" / "below").code(), ErrorCode::not_found);
}

TEST(MappedFileTest, OnlyRegularFilesAreOpened) {
  const TempDir dir;
  EXPECT_THAT(failure_of(dir.path()).what(), HasSubstr("is a directory"));
  const auto fifo = dir.path() / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THAT(failure_of(fifo).what(), HasSubstr("is not a regular file"));
  EXPECT_THAT(failure_of("/dev/null").what(), HasSubstr("is not a regular file"));
  EXPECT_EQ(failure_of("/dev/null").code(), ErrorCode::invalid_argument);
}

TEST(MappedFileTest, APathWithANulByteIsRefused) {
  const TempDir dir;
  const auto path = dir.write("a", "x");
  const std::string with_nul = path.string() + std::string("\0.gguf", 6);
  EXPECT_THAT(failure_of(with_nul).what(), HasSubstr("NUL"));
}

TEST(MappedFileTest, MovingKeepsTheBytesWhereTheyAre) {
  const TempDir dir;
  auto first = MappedFile::open(dir.write("a", "first"));
  auto second = MappedFile::open(dir.write("b", "second"));
  const auto *address = first.bytes().data();
  MappedFile moved(std::move(first));
  EXPECT_EQ(moved.bytes().data(), address);
  EXPECT_EQ(text_of(moved), "first");
  second = std::move(moved);
  EXPECT_EQ(second.bytes().data(), address);
  EXPECT_EQ(text_of(second), "first");
}

TEST(MappedFileTest, StaysReadableAfterTheFileIsDeleted) {
  const TempDir dir;
  const auto path = dir.write("a", "still here");
  const auto file = MappedFile::open(path);
  std::filesystem::remove(path);
  EXPECT_EQ(text_of(file), "still here");
}

TEST(MappedFileTest, ACopyStaysAsItWasWhateverHappensToTheFile) {
  const TempDir dir;
  const std::string content(20'000, 'a');
  const auto path = dir.write("a", content);
  const auto file = MappedFile::open(path, FileBytes::copied);
  dir.write("a", "b");
  EXPECT_EQ(text_of(file), content);
  std::filesystem::resize_file(path, 0);
  EXPECT_EQ(text_of(file), content);
  EXPECT_TRUE(MappedFile::open(path, FileBytes::copied).bytes().empty());
}

TEST(MappedFileTest, AFileThatIsLargerThanMemoryIsNotCopied) {
  const TempDir dir;
  const auto path = dir.write("sparse", "");
  constexpr uintmax_t k_4_tib = uintmax_t{1} << 42U;
  std::filesystem::resize_file(path, k_4_tib);
  EXPECT_THAT(load_failure([&] { (void)MappedFile::open(path, FileBytes::copied); }),
              HasSubstr("sparse: is larger than the memory that is free"));
}

TEST(MappedFileTest, ReleasedPagesReadTheSameAgain) {
  const TempDir dir;
  std::string content(100'000, '\0');
  for (size_t i = 0; i < content.size(); i++) content[i] = static_cast<char>(i % 251);
  const auto file = MappedFile::open(dir.write("a", content));
  ASSERT_EQ(text_of(file), content);
  file.release_pages(file.bytes());
  file.release_pages(file.bytes().subspan(5000, 40'000));
  file.release_pages(file.bytes().subspan(10, 3));
  EXPECT_EQ(text_of(file), content);
}

}  // namespace
}  // namespace patchbay
