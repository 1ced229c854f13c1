#include "base/huge_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

namespace patchbay {
namespace {

constexpr size_t k_page_bytes = size_t{2} << 20U;

/// Address space of this process, in pages of the system.
size_t n_mapped_pages() {
  std::ifstream statm("/proc/self/statm");
  size_t n_pages = 0;
  statm >> n_pages;
  return n_pages;
}

TEST(HugeMemory, BeginsWhereALargePageMayAndIsZeroedToItsEnd) {
  for (const size_t size_bytes : {size_t{1}, k_page_bytes - 1, k_page_bytes, k_page_bytes + 1}) {
    const HugeMemory memory(size_bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % k_page_bytes, 0U) << size_bytes;
    EXPECT_EQ(memory.size_bytes(), size_bytes);
    const std::span bytes(memory.data(), size_bytes);
    EXPECT_TRUE(std::ranges::all_of(bytes, [](uint8_t byte) { return byte == 0; })) << size_bytes;
    std::ranges::fill(bytes, uint8_t{0xAA});
    EXPECT_EQ(bytes.back(), 0xAA);
  }
}

TEST(HugeMemory, OfNoBytesIsNone) {
  const HugeMemory memory(0);
  EXPECT_EQ(memory.data(), nullptr);
  EXPECT_EQ(memory.size_bytes(), 0U);
}

TEST(HugeMemory, MovesWithWhatItHoldsAndLeavesTheSourceEmpty) {
  static_assert(!std::is_copy_constructible_v<HugeMemory>);
  HugeMemory first(1);
  uint8_t *data = first.data();
  data[0] = 7;
  HugeMemory second(std::move(first));
  // What a moved one looks like is the question here.
  EXPECT_EQ(first.data(), nullptr);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(first.size_bytes(), 0U);
  HugeMemory third;
  third = std::move(second);
  EXPECT_EQ(second.data(), nullptr);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(second.size_bytes(), 0U);
  EXPECT_EQ(third.data(), data);
  EXPECT_EQ(third.size_bytes(), 1U);
  EXPECT_EQ(third.data()[0], 7);
}

TEST(HugeMemory, GivesEverythingBack) {
  constexpr size_t k_bytes = 64 * k_page_bytes;
  (void)HugeMemory(k_bytes);
  const size_t before = n_mapped_pages();
  {
    const HugeMemory memory(k_bytes);
    EXPECT_GE(n_mapped_pages(), before + k_bytes / 4096);
    HugeMemory replaced(k_bytes);
    replaced = HugeMemory(1);
  }
  EXPECT_LT(n_mapped_pages(), before + k_bytes / 4096);
  for (int i = 0; i < 64; ++i) (void)HugeMemory(1);
  EXPECT_LT(n_mapped_pages(), before + k_bytes / 4096);
}

TEST(HugeMemory, MoreThanThereCanBeIsRefusedAndTakesNothing) {
  const size_t before = n_mapped_pages();
  for (const size_t size_bytes :
       {SIZE_MAX, SIZE_MAX - k_page_bytes, SIZE_MAX - 3 * k_page_bytes, SIZE_MAX / 2}) {
    EXPECT_THROW(HugeMemory{size_bytes}, std::bad_alloc) << size_bytes;
  }
  EXPECT_LT(n_mapped_pages(), before + k_page_bytes / 4096);
}

}  // namespace
}  // namespace patchbay
