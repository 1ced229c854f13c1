#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace patchbay {

/// Where the bytes of a MappedFile are.
enum class FileBytes {
  /// In the file: they change when somebody writes to it, and touching them ends the process when
  /// somebody has made it shorter. For models, which are too large to be copied.
  mapped,
  /// In memory: they are those that the file had when it was opened, whatever happens to it.
  copied,
};

/// A regular file as a run of bytes that can be read; the mapping ends with the object.
class MappedFile {
 public:
  /// Throws LoadError: missing (ErrorCode::not_found), a directory or other non-regular file,
  /// unreadable, not mappable; copied: larger than the memory that is free, changed in the
  /// meantime. An empty file is allowed and has no bytes.
  [[nodiscard]] static MappedFile open(const std::filesystem::path &path,
                                       FileBytes where = FileBytes::mapped);

  MappedFile(MappedFile &&other) noexcept;
  MappedFile &operator=(MappedFile &&other) noexcept;
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;
  ~MappedFile();

  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_bytes_}; }
  [[nodiscard]] const std::string &path() const { return path_; }

  /// Gives the physical pages that lie wholly inside `part` of bytes() back to the kernel; they are
  /// read again from the file when touched. Used after a part has been copied elsewhere. REQUIRES:
  /// FileBytes::mapped.
  void release_pages(std::span<const std::byte> part) const;

 private:
  MappedFile() = default;

  std::string path_;
  const std::byte *data_ = nullptr;
  size_t size_bytes_ = 0;
};

}  // namespace patchbay
