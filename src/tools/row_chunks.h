#pragma once

#include <cstdint>
#include <functional>

namespace patchbay {

/// The rows [first, first + n_rows) of a tensor, those of all its experts counted through.
struct RowChunk {
  int64_t first = 0;
  int64_t n_rows = 0;
};

/// Calls `work` for chunks that cover `n_rows` rows, from `n_threads` threads at a time, in any
/// order. No chunk is longer than `n_per_chunk`, nor begins in one expert and ends in another:
/// `n_per_expert` rows each. What `work` throws is thrown here, once all threads have ended.
/// REQUIRES: all numbers above 0; n_per_expert divides n_rows.
void for_each_chunk(int64_t n_rows, int64_t n_per_expert, int64_t n_per_chunk, uint32_t n_threads,
                    const std::function<void(RowChunk)> &work);

/// Rows of so many numbers each that make a chunk: enough to be worth a thread's while, few enough
/// to stay in its cache.
[[nodiscard]] int64_t rows_per_chunk(int64_t n_per_row);

}  // namespace patchbay
