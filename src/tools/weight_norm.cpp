#include "tools/weight_norm.h"

#include <cmath>
#include <mutex>
#include <vector>

#include "tools/row_chunks.h"
#include "tools/tensor_rows.h"

namespace patchbay {

double weight_norm(const GgufTensor &tensor, uint32_t n_threads) {
  double squares = 0;
  std::mutex mutex;
  const int64_t n_rows = tensor.ne[1] * tensor.ne[2] * tensor.ne[3];
  for_each_chunk(n_rows, n_rows, rows_per_chunk(tensor.ne[0]), n_threads, [&](RowChunk chunk) {
    std::vector<float> numbers(static_cast<size_t>(chunk.n_rows * tensor.ne[0]));
    read_rows(tensor, chunk, numbers);
    double sum = 0;
    for (const float number : numbers) sum += static_cast<double>(number) * number;
    const std::scoped_lock lock(mutex);
    squares += sum;
  });
  return std::sqrt(squares);
}

}  // namespace patchbay
