#include "tools/row_chunks.h"

#include <gtest/gtest.h>

#include <mutex>
#include <stdexcept>
#include <vector>

namespace patchbay {
namespace {

TEST(RowChunks, CoverEveryRowOnceWithinItsExpert) {
  for (const uint32_t n_threads : {1U, 4U}) {
    std::vector<int> n_seen(21);
    std::mutex mutex;
    for_each_chunk(21, 7, 3, n_threads, [&](RowChunk chunk) {
      EXPECT_LE(chunk.n_rows, 3);
      EXPECT_EQ(chunk.first / 7, (chunk.first + chunk.n_rows - 1) / 7);
      const std::scoped_lock lock(mutex);
      for (int64_t i = 0; i < chunk.n_rows; ++i) n_seen[static_cast<size_t>(chunk.first + i)]++;
    });
    EXPECT_EQ(n_seen, std::vector<int>(21, 1));
  }
}

TEST(RowChunks, WhatOneThrowsIsThrownInTheEnd) {
  for (const uint32_t n_threads : {1U, 3U}) {
    EXPECT_THROW(for_each_chunk(100, 100, 1, n_threads,
                                [](RowChunk chunk) {
                                  if (chunk.first == 40) throw std::runtime_error("40");
                                }),
                 std::runtime_error);
  }
}

}  // namespace
}  // namespace patchbay
