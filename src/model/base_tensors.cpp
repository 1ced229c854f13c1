#include "model/base_tensors.h"

#include <cmath>
#include <cstring>
#include <vector>

namespace patchbay {
namespace {

/// The Walsh-Hadamard transform of a block in natural order, times 1 / sqrt(its size).
void walsh_hadamard(std::span<float> block) {
  for (size_t half = 1; half < block.size(); half *= 2) {
    for (size_t i = 0; i < block.size(); i += 2 * half) {
      for (size_t j = i; j < i + half; ++j) {
        const float one = block[j];
        const float other = block[j + half];
        block[j] = one + other;
        block[j + half] = one - other;
      }
    }
  }
  const float scale = 1 / std::sqrt(static_cast<float>(block.size()));
  for (float &value : block) value *= scale;
}

}  // namespace

const GgufTensor *BaseTensors::find(std::string_view name) const {
  const GgufTensor *found = file_->find_tensor(name);
  if (found == nullptr && name == "output.weight") return file_->find_tensor("token_embd.weight");
  return found;
}

void BaseTensors::read_rows(const GgufTensor &tensor, int64_t first, std::span<float> out) const {
  const auto n = static_cast<size_t>(tensor.ne[0]);
  const size_t row_bytes = ggml_row_size(tensor.type, tensor.ne[0]);
  const ggml_to_float_t convert = ggml_get_type_traits(tensor.type)->to_float;
  // Copied first, since a file may align its data to less than the blocks need.
  std::vector<std::byte> stored(row_bytes);
  const std::byte *from = tensor.data.data() + static_cast<size_t>(first) * row_bytes;
  for (; !out.empty(); out = out.subspan(n), from += row_bytes) {
    const auto row = out.first(n);
    std::memcpy(stored.data(), from, row_bytes);
    if (tensor.type == GGML_TYPE_F32) {
      std::memcpy(row.data(), stored.data(), row_bytes);
    } else {
      convert(stored.data(), row.data(), tensor.ne[0]);
    }
    unfold(tensor, row);
  }
}

void BaseTensors::unfold(const GgufTensor &tensor, std::span<float> row) const {
  const bool is_folded = folding_ && folding_->folds(tensor.name);
  if (!is_folded) return;
  const auto block = static_cast<size_t>(folding_->block_size);
  for (size_t i = 0; i < row.size(); i += block) walsh_hadamard(row.subspan(i, block));
  const auto signs = folding_->signs.find(tensor.ne[0]);
  if (signs == folding_->signs.end()) return;
  for (size_t i = 0; i < row.size(); ++i) row[i] *= signs->second[i];
}

}  // namespace patchbay
