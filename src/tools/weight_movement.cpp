#include "tools/weight_movement.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <vector>

#include "tools/row_changer.h"
#include "tools/tensor_rows.h"

namespace patchbay {
void ChangeSquares::add(std::span<const float> before, std::span<const float> after) {
  for (size_t i = 0; i < before.size(); ++i) {
    const double step = static_cast<double>(after[i]) - before[i];
    weight += static_cast<double>(before[i]) * before[i];
    change += step * step;
  }
}

void ChangeSquares::add(const ChangeSquares &other) {
  weight += other.weight;
  change += other.change;
}

std::optional<double> ChangeSquares::relative_change() const {
  return weight > 0 ? std::optional(std::sqrt(change / weight)) : std::nullopt;
}

WeightMovement weight_movement(const TensorChange &change, const GgufTensor &tensor,
                               const HadamardFolding *folding, uint32_t n_threads) {
  const auto read = [&](RowChunk chunk, std::span<float> out) { read_rows(tensor, chunk, out); };
  const RowChanger changer(change, tensor.ne, folding, n_threads, read);
  const int64_t n_expert = tensor.ne[2] * tensor.ne[3];
  std::vector<ChangeSquares> squares(static_cast<size_t>(n_expert));
  std::mutex mutex;
  for_each_chunk(n_expert * tensor.ne[1], tensor.ne[1], rows_per_chunk(tensor.ne[0]), n_threads,
                 [&](RowChunk chunk) {
                   std::vector<float> before(static_cast<size_t>(chunk.n_rows * tensor.ne[0]));
                   std::vector<float> after(before.size());
                   read(chunk, before);
                   changer.apply(chunk, before, after);
                   ChangeSquares found;
                   found.add(before, after);
                   const std::scoped_lock lock(mutex);
                   squares[static_cast<size_t>(chunk.first / tensor.ne[1])].add(found);
                 });
  WeightMovement movement;
  for (const auto &one : squares) {
    movement.norm_weight += one.weight;
    if (const auto moved = one.relative_change())
      movement.relative_change = std::max(movement.relative_change.value_or(0), *moved);
  }
  movement.norm_weight = std::sqrt(movement.norm_weight);
  return movement;
}

}  // namespace patchbay
