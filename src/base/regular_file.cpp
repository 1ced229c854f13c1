#include "base/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace patchbay {

void fail_with_errno(const std::string &path, const char *problem) {
  const auto code =
      errno == ENOENT || errno == ENOTDIR ? ErrorCode::not_found : ErrorCode::invalid_argument;
  throw LoadError(
      {.path = path, .problem = std::string(problem) + ": " + std::strerror(errno), .code = code});
}

RegularFile RegularFile::open(const std::filesystem::path &path) {
  const std::string name = path.string();
  if (name.find('\0') != std::string::npos) {
    throw LoadError(
        {.path = name.c_str(), .problem = "is only the part before a NUL byte in the path"});
  }
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  RegularFile file(name, ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.fd_ < 0) fail_with_errno(name, "cannot be opened");
  struct stat info{};
  if (fstat(file.fd_, &info) != 0) fail_with_errno(name, "cannot be examined");
  if (S_ISDIR(info.st_mode))
    throw LoadError({.path = name, .problem = "is a directory, not a file"});
  if (!S_ISREG(info.st_mode)) throw LoadError({.path = name, .problem = "is not a regular file"});
  file.size_bytes_ = static_cast<size_t>(info.st_size);
  return file;
}

RegularFile::RegularFile(RegularFile &&other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      size_bytes_(other.size_bytes_) {}

RegularFile::~RegularFile() {
  if (fd_ >= 0) close(fd_);
}

std::string RegularFile::read_all() const {
  std::string text(size_bytes_, '\0');
  read(std::as_writable_bytes(std::span(text)));
  return text;
}

void RegularFile::read(std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t n_read = ::read(fd_, bytes.data(), bytes.size());
    if (n_read < 0 && errno == EINTR) continue;
    if (n_read < 0) fail_with_errno(path_, "cannot be read");
    if (n_read == 0)
      throw LoadError({.path = path_, .problem = "became shorter while it was read"});
    bytes = bytes.subspan(static_cast<size_t>(n_read));
  }
}

}  // namespace patchbay
