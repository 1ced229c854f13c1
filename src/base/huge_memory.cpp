#include "base/huge_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <new>
#include <utility>

#include "base/rounding.h"

namespace patchbay {
namespace {

constexpr size_t k_huge_page_bytes = size_t{2} << 20U;

size_t small_page_bytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

}  // namespace

HugeMemory::HugeMemory(size_t size_bytes) : size_bytes_(size_bytes) {
  if (size_bytes == 0) return;
  if (size_bytes > SIZE_MAX - 2 * k_huge_page_bytes) throw std::bad_alloc();
  // More than wanted by a large page, of which what does not fit goes back.
  const size_t mapped_bytes = round_up(size_bytes, small_page_bytes()) + k_huge_page_bytes;
  void *mapped = mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                      /*fd=*/-1, /*offset=*/0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  auto *first = static_cast<uint8_t *>(mapped);
  const auto address = reinterpret_cast<uintptr_t>(first);
  const size_t skipped = round_up(address, uintptr_t{k_huge_page_bytes}) - address;
  data_ = first + skipped;
  uint8_t *const end = data_ + round_up(size_bytes, small_page_bytes());
  if (skipped > 0) munmap(first, skipped);
  if (end < first + mapped_bytes) munmap(end, static_cast<size_t>(first + mapped_bytes - end));
  // Advice: without it everything works, only slower.
  (void)madvise(data_, size_bytes, MADV_HUGEPAGE);
}

HugeMemory::HugeMemory(HugeMemory &&other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)) {}

HugeMemory &HugeMemory::operator=(HugeMemory &&other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

HugeMemory::~HugeMemory() {
  if (data_ != nullptr) munmap(data_, size_bytes_);
}

}  // namespace patchbay
