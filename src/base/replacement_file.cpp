#include "base/replacement_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

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

/// What open() would give a new file. The mask can be read only by setting it: a file made by
/// another thread at that moment would be its owner's alone.
mode_t usual_mode() {
  constexpr mode_t k_owner_only = 077;
  const mode_t mask = umask(k_owner_only);
  umask(mask);
  return 0666 & ~mask;
}

}  // namespace

ReplacementFile::ReplacementFile(const fs::path &path, FileAccess access)
    : path_(path.string()), target_(follow_links(path)) {
  if (path_.find('\0') != std::string::npos)
    throw LoadError({.path = path_.c_str(), .problem = "is only the part before a NUL byte"});
  std::error_code ignored;
  const fs::file_status status = fs::status(target_, ignored);
  if (fs::exists(status) && !fs::is_regular_file(status))
    throw LoadError({.path = path_, .problem = "is there and not a regular file"});
  // Not after the file's own name, which may be as long as names can be.
  std::string pattern = (target_.parent_path() / ".patchbay-XXXXXX").string();
  fd_ = mkostemp(pattern.data(), O_CLOEXEC);
  if (fd_ < 0) fail_with_errno(path_, k_failed);
  written_ = std::move(pattern);
  if (access == FileAccess::as_usual && fchmod(fd_, usual_mode()) != 0) {
    unlink(written_.c_str());
    fail_with_errno(path_, k_failed);
  }
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

void ReplacementFile::commit() {
  if (fsync(fd_) != 0) fail_with_errno(path_, k_failed);
  if (rename(written_.c_str(), target_.c_str()) != 0) fail_with_errno(path_, k_failed);
  written_.clear();
  sync_folder(target_.parent_path(), path_);
}

void check_may_write(const fs::path &path, bool overwrite) {
  std::error_code ignored;
  if (overwrite || !fs::exists(fs::symlink_status(path, ignored))) return;
  throw LoadError(
      {.path = path.string(), .problem = "is there already", .hint = "--force replaces it"});
}

}  // namespace patchbay
