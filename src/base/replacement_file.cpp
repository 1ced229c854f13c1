#include "base/replacement_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <random>

#include <fmt/format.h>

#include "base/error.h"
#include "base/regular_file.h"

namespace patchbay {
namespace {

namespace fs = std::filesystem;
constexpr const char *k_failed = "cannot be written";

/// The place that `path` names, through all links; it need not be there.
fs::path follow_links(const fs::path &path) {
  constexpr int k_most = 40;  // as Linux has it
  fs::path target = path;
  std::error_code ignored;
  for (int i = 0; fs::is_symlink(fs::symlink_status(target, ignored)); ++i) {
    if (i == k_most) {
      errno = ELOOP;
      fail_with_errno(path.string(), k_failed);
    }
    target = target.parent_path() / fs::read_symlink(target, ignored);
  }
  return target;
}

/// A new name is in the folder for good only when the folder is written out too.
void sync_folder(const fs::path &folder, const std::string &path) {
  const int fd = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail_with_errno(path, k_failed);
  const int result = fsync(fd);
  const int error = errno;
  close(fd);
  errno = error;
  // Some file systems have no such thing.
  if (result != 0 && errno != EINVAL) fail_with_errno(path, k_failed);
}

/// A name beside `target` that nothing has. Not after the file's own name, which may be as long as
/// names can be. `take` tries to take it: 0 or a descriptor, or below 0 with errno.
template <class Take>
int with_new_name(const fs::path &target, std::string &name, const Take &take) {
  constexpr int k_tries = 100;
  std::random_device random;
  int result = -1;
  for (int i = 0; i < k_tries && result < 0; ++i) {
    name = (target.parent_path() / fmt::format(".patchbay-{:08x}{:08x}", random(), random()));
    result = take(name.c_str());
    if (result < 0 && errno != EEXIST) break;
  }
  if (result < 0) name.clear();
  return result;
}

int open_without_name(const fs::path &target, mode_t mode) {
  const fs::path folder = target.parent_path();
  return open(folder.empty() ? "." : folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
}

}  // namespace

ReplacementFile::ReplacementFile(const fs::path &path, FileReaders readers)
    : path_(path.string()), target_(follow_links(path)) {
  if (path_.find('\0') != std::string::npos)
    throw LoadError({.path = path_.c_str(), .problem = "is only the part before a NUL byte"});
  std::error_code ignored;
  const fs::file_status status = fs::status(target_, ignored);
  if (fs::exists(status) && !fs::is_regular_file(status))
    throw LoadError({.path = path_, .problem = "is there and not a regular file"});
  const mode_t mode = readers == FileReaders::owner ? 0600 : 0666;
  fd_ = open_without_name(target_, mode);
  if (fd_ < 0) {
    fd_ = with_new_name(target_, written_, [mode](const char *name) {
      return open(name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, mode);
    });
  }
  if (fd_ < 0) fail_with_errno(path_, k_failed);
}

ReplacementFile::~ReplacementFile() {
  if (fd_ >= 0) close(fd_);
  if (!written_.empty()) unlink(written_.c_str());
}

void ReplacementFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n_written = ::write(fd_, bytes.data(), bytes.size());
    if (n_written < 0 && errno == EINTR) continue;
    if (n_written < 0) fail_with_errno(path_, k_failed);
    bytes = bytes.subspan(static_cast<size_t>(n_written));
  }
}

/// A file takes the place of another one only by its name.
void ReplacementFile::name() {
  const std::string open_file = fmt::format("/proc/self/fd/{}", fd_);
  const int result = with_new_name(target_, written_, [&](const char *name) {
    return linkat(AT_FDCWD, open_file.c_str(), AT_FDCWD, name, AT_SYMLINK_FOLLOW);
  });
  if (result < 0) fail_with_errno(path_, k_failed);
}

void ReplacementFile::sync() {
  if (fsync(fd_) != 0) fail_with_errno(path_, k_failed);
}

void ReplacementFile::commit() {
  sync();
  if (written_.empty()) name();
  if (rename(written_.c_str(), target_.c_str()) != 0) fail_with_errno(path_, k_failed);
  written_.clear();
  sync_folder(target_.parent_path(), path_);
}

void check_not_input(const fs::path &path, const std::vector<fs::path> &inputs) {
  std::error_code ignored;
  const auto check = [&](const fs::path &input) {
    if (!fs::equivalent(path, input, ignored)) return;
    throw LoadError({.path = path.string(),
                     .problem = "is read by the same command, and would be lost",
                     .hint = "another name for the output keeps both"});
  };
  for (const auto &input : inputs) {
    check(input);
    if (!fs::is_directory(input, ignored)) continue;
    for (const auto &file : fs::directory_iterator(input, ignored)) check(file.path());
  }
}

void check_may_write(const fs::path &path, bool overwrite) {
  std::error_code ignored;
  if (overwrite || !fs::exists(fs::symlink_status(path, ignored))) return;
  throw LoadError(
      {.path = path.string(), .problem = "is there already", .hint = "--force replaces it"});
}

}  // namespace patchbay
