#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace patchbay {
namespace {

/// Closes a file descriptor at the end of its scope.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

[[noreturn]] void fail_with_errno(const std::string &path, const char *problem) {
  const auto code =
      errno == ENOENT || errno == ENOTDIR ? ErrorCode::not_found : ErrorCode::invalid_argument;
  throw LoadError(
      {.path = path, .problem = std::string(problem) + ": " + std::strerror(errno), .code = code});
}

}  // namespace

MappedFile MappedFile::open(const std::filesystem::path &path) {
  MappedFile file;
  file.path_ = path.string();
  if (file.path_.find('\0') != std::string::npos) {
    throw LoadError(
        {.path = file.path_.c_str(), .problem = "is only the part before a NUL byte in the path"});
  }
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) fail_with_errno(file.path_, "cannot be opened");
  struct stat info{};
  if (fstat(fd.get(), &info) != 0) fail_with_errno(file.path_, "cannot be examined");
  if (S_ISDIR(info.st_mode)) {
    throw LoadError({.path = file.path_, .problem = "is a directory, not a file"});
  }
  if (!S_ISREG(info.st_mode))
    throw LoadError({.path = file.path_, .problem = "is not a regular file"});
  file.size_bytes_ = static_cast<size_t>(info.st_size);
  if (file.size_bytes_ == 0) return file;
  void *mapping = mmap(nullptr, file.size_bytes_, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (mapping == MAP_FAILED) fail_with_errno(file.path_, "cannot be mapped into memory");
  file.data_ = static_cast<const std::byte *>(mapping);
  return file;
}

MappedFile::MappedFile(MappedFile &&other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)) {}

MappedFile &MappedFile::operator=(MappedFile &&other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte *>(data_), size_bytes_);
}

void MappedFile::release_pages(std::span<const std::byte> part) const {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<uintptr_t>(part.data()) + page - 1) / page * page;
  const auto end = (reinterpret_cast<uintptr_t>(part.data()) + part.size()) / page * page;
  if (begin < end) madvise(reinterpret_cast<void *>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace patchbay
