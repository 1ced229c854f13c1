#include "base/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "base/regular_file.h"

namespace patchbay {

MappedFile MappedFile::open(const std::filesystem::path &path) {
  const RegularFile opened = RegularFile::open(path);
  MappedFile file;
  file.path_ = opened.path();
  file.size_bytes_ = opened.size_bytes();
  if (file.size_bytes_ == 0) return file;
  void *mapping = mmap(nullptr, file.size_bytes_, PROT_READ, MAP_PRIVATE, opened.descriptor(), 0);
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
