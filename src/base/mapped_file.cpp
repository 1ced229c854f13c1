#include "base/mapped_file.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/regular_file.h"

namespace patchbay {

namespace {

/// What the kernel thinks can be had without swapping; nullopt: it does not say.
std::optional<size_t> free_memory() {
  constexpr std::string_view k_key = "MemAvailable:";
  std::ifstream info("/proc/meminfo");
  for (std::string line; std::getline(info, line);) {
    if (!line.starts_with(k_key)) continue;
    constexpr size_t k_unit = 1024;
    return std::stoull(line.substr(k_key.size())) * k_unit;
  }
  return std::nullopt;
}

void check_fits_memory(const RegularFile &file) {
  const auto free = free_memory();
  if (!free || file.size_bytes() <= *free) return;
  constexpr size_t k_mib = size_t{1} << 20U;
  throw LoadError({.path = file.path(),
                   .problem = "is larger than the memory that is free",
                   .wanted = fmt::format("at most {} MiB", *free / k_mib),
                   .found = fmt::format("{} MiB", file.size_bytes() / k_mib)});
}

/// What of a file is another after it was written to.
auto state_of(const RegularFile &file) {
  struct stat info{};
  if (fstat(file.descriptor(), &info) != 0) fail_with_errno(file.path(), "cannot be examined");
  return std::tuple(info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
}

void read_into(std::span<std::byte> bytes, const RegularFile &file) {
  const auto before = state_of(file);
  file.read(bytes);
  if (state_of(file) != before)
    throw LoadError({.path = file.path(), .problem = "was written to while it was read"});
}

}  // namespace

MappedFile MappedFile::open(const std::filesystem::path &path, FileBytes where) {
  const RegularFile opened = RegularFile::open(path);
  MappedFile file;
  file.path_ = opened.path();
  if (opened.size_bytes() == 0) return file;
  const bool is_copy = where == FileBytes::copied;
  if (is_copy) check_fits_memory(opened);
  void *mapping = mmap(nullptr, opened.size_bytes(), is_copy ? PROT_READ | PROT_WRITE : PROT_READ,
                       is_copy ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_PRIVATE,
                       is_copy ? -1 : opened.descriptor(), 0);
  if (mapping == MAP_FAILED) fail_with_errno(file.path_, "cannot be mapped into memory");
  file.data_ = static_cast<const std::byte *>(mapping);
  file.size_bytes_ = opened.size_bytes();
  if (is_copy) {
    read_into({static_cast<std::byte *>(mapping), file.size_bytes_}, opened);
    mprotect(mapping, file.size_bytes_, PROT_READ);
  }
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
