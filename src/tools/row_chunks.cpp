#include "tools/row_chunks.h"

#include <algorithm>

#include "base/parallel.h"
#include "base/rounding.h"

namespace patchbay {

void for_each_chunk(int64_t n_rows, int64_t n_per_expert, int64_t n_per_chunk, uint32_t n_threads,
                    const std::function<void(RowChunk)> &work) {
  const int64_t n_in_expert = ceil_div(n_per_expert, n_per_chunk);
  const auto n_chunks = static_cast<size_t>(n_rows / n_per_expert * n_in_expert);
  const auto chunk = [&](size_t part) {
    const auto i = static_cast<int64_t>(part);
    const int64_t begin = i % n_in_expert * n_per_chunk;
    return RowChunk{.first = i / n_in_expert * n_per_expert + begin,
                    .n_rows = std::min(n_per_chunk, n_per_expert - begin)};
  };
  for_each_part(n_chunks, [&](size_t part) { work(chunk(part)); }, n_threads);
}

int64_t rows_per_chunk(int64_t n_per_row) {
  constexpr int64_t k_numbers = int64_t{1} << 16;
  return std::max<int64_t>(1, k_numbers / n_per_row);
}

}  // namespace patchbay
