#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace patchbay {

/// A regular file, open for reading.
class RegularFile {
 public:
  /// Throws LoadError: missing (ErrorCode::not_found), a directory or other non-regular file,
  /// unreadable.
  [[nodiscard]] static RegularFile open(const std::filesystem::path &path);

  RegularFile(RegularFile &&other) noexcept;
  RegularFile &operator=(RegularFile &&) = delete;
  ~RegularFile();

  [[nodiscard]] const std::string &path() const { return path_; }
  [[nodiscard]] int descriptor() const { return fd_; }
  /// When it was opened.
  [[nodiscard]] size_t size_bytes() const { return size_bytes_; }

  /// The next bytes, as many as the span has. Throws LoadError: there are fewer now, or they cannot
  /// be read.
  void read(std::span<std::byte> bytes) const;
  /// All that it held when it was opened. REQUIRES: nothing was read before.
  [[nodiscard]] std::string read_all() const;

 private:
  RegularFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_;
  size_t size_bytes_ = 0;
};

/// Throws LoadError for a failed system call: "<path>: <problem>: <what errno says>".
[[noreturn]] void fail_with_errno(const std::string &path, const char *problem);

}  // namespace patchbay
