#include "tools/weight_norm.h"

#include <cmath>
#include <mutex>
#include <vector>

#include "tools/tensor_rows.h"

namespace patchbay {

double weight_norm(const GgufTensor &tensor, RowChunk rows, uint32_t n_threads) {
  double squares = 0;
  std::mutex mutex;
  const auto add = [&](RowChunk chunk) {
    std::vector<float> numbers(static_cast<size_t>(chunk.n_rows * tensor.ne[0]));
    read_rows(tensor, {.first = rows.first + chunk.first, .n_rows = chunk.n_rows}, numbers);
    double sum = 0;
    for (const float number : numbers) sum += static_cast<double>(number) * number;
    const std::scoped_lock lock(mutex);
    squares += sum;
  };
  for_each_chunk(rows.n_rows, rows.n_rows, rows_per_chunk(tensor.ne[0]), n_threads, add);
  return std::sqrt(squares);
}

}  // namespace patchbay
