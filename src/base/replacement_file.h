#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace patchbay {

/// Who may read a new file.
enum class FileAccess {
  owner_only,
  as_usual,  ///< whoever the user's umask leaves in
};

/// A file written under another name in the same folder, which becomes the one at `path` when it is
/// whole and on the disk. Until then, and when anything fails, what was there before stays as it
/// was and nothing else is left.
class ReplacementFile {
 public:
  /// Throws LoadError: the folder is missing or cannot be written to, or `path` is something else
  /// than a file. A link is followed.
  explicit ReplacementFile(const std::filesystem::path &path,
                           FileAccess access = FileAccess::owner_only);
  ReplacementFile(const ReplacementFile &) = delete;
  ReplacementFile &operator=(const ReplacementFile &) = delete;
  ~ReplacementFile();

  /// Throws LoadError: the disk is full, for example.
  void write(std::span<const std::byte> bytes);

  /// REQUIRES: nothing is written after it. Throws LoadError; only the last step, which writes the
  /// folder out, can fail when the new file has its name already.
  void commit();

 private:
  std::string path_;
  std::filesystem::path target_;
  std::string written_;  // empty: it has its name
  int fd_ = -1;
};

/// Throws LoadError when something is at `path` already, unless it may be overwritten.
void check_may_write(const std::filesystem::path &path, bool overwrite);

}  // namespace patchbay
