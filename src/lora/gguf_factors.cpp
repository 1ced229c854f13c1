#include "lora/gguf_factors.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"
#include "lora/factor_ops.h"

namespace patchbay {
namespace {

/// Dequantises row by row; rows are copied first because the file may align its data to less than
/// the blocks need.
std::vector<float> dequantize(const GgufTensor &tensor, ggml_to_float_t to_float) {
  const size_t row_bytes = ggml_row_size(tensor.type, tensor.ne[0]);
  const auto n_in = static_cast<size_t>(tensor.ne[0]);
  std::vector<float> values(tensor.data.size() / row_bytes * n_in);
  std::vector<std::byte> row(row_bytes);
  for (size_t i = 0; i * row_bytes < tensor.data.size(); ++i) {
    std::memcpy(row.data(), tensor.data.data() + i * row_bytes, row_bytes);
    to_float(row.data(), values.data() + i * n_in, tensor.ne[0]);
  }
  return values;
}

}  // namespace

Factor read_factor(const std::shared_ptr<const GgufFile> &file, const GgufTensor &tensor) {
  const auto refuse = [&](std::string problem) {
    throw LoadError({.path = file->path(), .item = tensor.name, .problem = std::move(problem)});
  };
  const std::array<int64_t, 3> ne{tensor.ne[0], tensor.ne[1], tensor.ne[2]};
  const auto *traits = ggml_get_type_traits(tensor.type);
  Factor factor;
  if (is_factor_type(tensor.type)) {
    factor = {.type = tensor.type, .ne = ne, .data = tensor.data, .owner = file};
  } else if (tensor.type == GGML_TYPE_F64) {
    if (auto values = f64_to_f32(tensor.data)) {
      factor = make_factor(ne, std::move(*values));
    } else {
      refuse("holds a number that overflows F32");
    }
  } else if (traits->to_float != nullptr) {
    factor = make_factor(ne, dequantize(tensor, traits->to_float));
  } else {
    refuse(fmt::format("has type {}, which cannot be a factor", traits->type_name));
  }
  if (!all_finite(factor)) refuse("holds NaN or infinity");
  return factor;
}

}  // namespace patchbay
