#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

namespace patchbay {

/// A new folder under the system's temporary one; it goes with the object.
class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "patchbay-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) {
      throw std::system_error(errno, std::generic_category(), "mkdtemp");
    }
    path_ = pattern;
  }
  TempDir(const TempDir &) = delete;
  TempDir &operator=(const TempDir &) = delete;
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] const std::filesystem::path &path() const { return path_; }

  /// Writes a new file of this name, with the sub-folders it needs, and returns its path. An older
  /// one is unlinked, not overwritten: mappings of it stay whole, and ext4 would flush a file that
  /// is truncated and written again to the disk.
  std::filesystem::path write(const std::string &name, std::string_view content) const {
    const auto file_path = path_ / name;
    std::filesystem::create_directories(file_path.parent_path());
    std::filesystem::remove(file_path);
    std::ofstream out(file_path, std::ios::binary);
    out.write(content.data(), static_cast<std::streamsize>(content.size()));
    out.close();
    EXPECT_TRUE(out.good()) << file_path;
    return file_path;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace patchbay
