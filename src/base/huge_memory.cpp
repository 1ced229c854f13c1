#include "base/huge_memory.h"

#include <sys/mman.h>

#include <new>
#include <utility>

#include "base/rounding.h"

namespace patchbay {
namespace {

constexpr size_t k_huge_page_bytes = size_t{2} << 20U;

}  // namespace

HugeMemory::HugeMemory(size_t size_bytes) : size_bytes_(round_up(size_bytes, k_huge_page_bytes)) {
  if (size_bytes == 0) return;
  if (size_bytes_ < size_bytes || size_bytes_ > SIZE_MAX - k_huge_page_bytes)
    throw std::bad_alloc();
  // One page more than wanted, of which the ends that do not fit the alignment go back.
  const size_t mapped_bytes = size_bytes_ + k_huge_page_bytes;
  void *mapped = mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                      /*fd=*/-1, /*offset=*/0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  auto *first = static_cast<uint8_t *>(mapped);
  const size_t skipped =
      round_up(reinterpret_cast<uintptr_t>(first), uintptr_t{k_huge_page_bytes}) -
      reinterpret_cast<uintptr_t>(first);
  if (skipped > 0) munmap(first, skipped);
  data_ = first + skipped;
  if (skipped < k_huge_page_bytes) munmap(data_ + size_bytes_, k_huge_page_bytes - skipped);
  // Advice: without it everything works, only slower.
  (void)madvise(data_, size_bytes_, MADV_HUGEPAGE);
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
