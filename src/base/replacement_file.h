#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace patchbay {

/// Who may read a new file: its owner alone, or whoever the process's umask lets.
enum class FileReaders { owner, as_umask };

/// A file written without a name in the same folder (under another one where the file system
/// cannot), which becomes the one at `path` when it is whole and on the disk. Until then, and when
/// anything fails, what was there before stays as it was and nothing else is left; nor is it, where
/// files can be without a name, when the process is killed.
class ReplacementFile {
 public:
  /// Throws LoadError: the folder is missing or cannot be written to, or `path` is something else
  /// than a file. A link is followed.
  explicit ReplacementFile(const std::filesystem::path &path,
                           FileReaders readers = FileReaders::owner);
  ReplacementFile(const ReplacementFile &) = delete;
  ReplacementFile &operator=(const ReplacementFile &) = delete;
  ~ReplacementFile();

  /// Throws LoadError: the disk is full, for example.
  void write(std::span<const std::byte> bytes);

  /// Writes to the disk what is there so far. Throws LoadError.
  void sync();

  /// REQUIRES: nothing is written after it. Throws LoadError; only the last step, which writes the
  /// folder out, can fail when the new file has its name already.
  void commit();

 private:
  void name();

  std::string path_;
  std::filesystem::path target_;
  std::string written_;  // the other name; empty: it has none, or its own
  int fd_ = -1;
};

/// Throws LoadError when writing to `path` would replace one of `inputs`, or of a folder a file in
/// it. Paths under which nothing is are no inputs.
void check_not_input(const std::filesystem::path &path,
                     const std::vector<std::filesystem::path> &inputs);

/// Throws LoadError when something is at `path` already, unless it may be overwritten.
void check_may_write(const std::filesystem::path &path, bool overwrite);

}  // namespace patchbay
