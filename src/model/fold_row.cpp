#include "model/fold_row.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace patchbay {
namespace {

/// The Walsh-Hadamard transform of one block in natural order, times 1 / sqrt(block).
void transform_block(std::span<double> block) {
  for (size_t half = 1; half < block.size(); half *= 2) {
    for (size_t begin = 0; begin < block.size(); begin += 2 * half) {
      for (size_t i = begin; i < begin + half; ++i) {
        const double one = block[i];
        const double other = block[i + half];
        block[i] = one + other;
        block[i + half] = one - other;
      }
    }
  }
  const double scale = 1 / std::sqrt(static_cast<double>(block.size()));
  for (double &value : block) value *= scale;
}

void transform(const HadamardFolding &folding, std::span<double> row) {
  const auto block_size = static_cast<size_t>(folding.block_size);
  for (size_t begin = 0; begin < row.size(); begin += block_size)
    transform_block(row.subspan(begin, block_size));
}

void multiply_by_signs(const HadamardFolding &folding, std::span<double> row) {
  const auto signs = folding.signs.find(static_cast<int64_t>(row.size()));
  if (signs == folding.signs.end()) return;
  for (size_t i = 0; i < row.size(); ++i) row[i] *= static_cast<double>(signs->second[i]);
}

void put(const std::vector<double> &values, std::span<float> row) {
  std::ranges::transform(values, row.begin(), [](double v) { return static_cast<float>(v); });
}

}  // namespace

void fold_row(const HadamardFolding &folding, std::span<float> row) {
  std::vector<double> values(row.begin(), row.end());
  multiply_by_signs(folding, values);
  transform(folding, values);
  put(values, row);
}

void unfold_row(const HadamardFolding &folding, std::span<float> row) {
  std::vector<double> values(row.begin(), row.end());
  transform(folding, values);
  multiply_by_signs(folding, values);
  put(values, row);
}

}  // namespace patchbay
