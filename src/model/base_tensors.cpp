#include "model/base_tensors.h"

#include <cstring>
#include <vector>

#include "model/fold_row.h"

namespace patchbay {

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
    if (folding_ && folding_->folds(tensor.name)) unfold_row(*folding_, row);
  }
}

}  // namespace patchbay
