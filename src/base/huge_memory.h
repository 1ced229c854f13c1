#pragma once

#include <cstddef>
#include <cstdint>

namespace patchbay {

/// Zeroed memory that begins where a large page may, and asks for such pages as far as it fills
/// them: a product that streams through weights misses the TLB at every other of the small ones.
/// Where the system has none to give the pages are small. Physical memory is taken when it is first
/// touched.
class HugeMemory {
 public:
  HugeMemory() = default;
  /// Throws std::bad_alloc.
  explicit HugeMemory(size_t size_bytes);
  HugeMemory(HugeMemory &&other) noexcept;
  HugeMemory &operator=(HugeMemory &&other) noexcept;
  HugeMemory(const HugeMemory &) = delete;
  HugeMemory &operator=(const HugeMemory &) = delete;
  ~HugeMemory();

  [[nodiscard]] uint8_t *data() const { return data_; }
  [[nodiscard]] size_t size_bytes() const { return size_bytes_; }

 private:
  uint8_t *data_ = nullptr;
  size_t size_bytes_ = 0;
};

}  // namespace patchbay
