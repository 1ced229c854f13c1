#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace patchbay {

/// A folder of its own for each test, removed at its end.
class TempFolder {
 public:
  TempFolder() {
    const auto *test = testing::UnitTest::GetInstance()->current_test_info();
    static int n_made = 0;
    path_ = std::filesystem::temp_directory_path() /
            (std::string("patchbay-") + test->test_suite_name() + "-" + test->name() + "-" +
             std::to_string(getpid()) + "-" + std::to_string(n_made++));
    std::filesystem::create_directories(path_);
  }
  TempFolder(const TempFolder &) = delete;
  TempFolder &operator=(const TempFolder &) = delete;
  ~TempFolder() { std::filesystem::remove_all(path_); }

  [[nodiscard]] const std::filesystem::path &path() const { return path_; }

  /// Writes a file into the folder, with the sub-folders it needs, and gives its path.
  std::filesystem::path write(const std::string &name, std::string_view bytes) const {
    const auto file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream out(file, std::ios::binary | std::ios::trunc);
    out.exceptions(std::ios::failbit | std::ios::badbit);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return file;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace patchbay
