#include "tools/tensor_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace patchbay {
namespace {

constexpr float k_most_f16 = 65504;

bool fits(ggml_type type, std::span<const float> rows) {
  const float most = type == GGML_TYPE_F16 ? k_most_f16 : HUGE_VALF;
  return std::ranges::all_of(
      rows, [most](float value) { return std::isfinite(value) && std::abs(value) <= most; });
}

}  // namespace

std::span<const std::byte> raw_rows(const GgufTensor &tensor, RowChunk chunk) {
  const size_t row_bytes = ggml_row_size(tensor.type, tensor.ne[0]);
  return tensor.data.subspan(static_cast<size_t>(chunk.first) * row_bytes,
                             static_cast<size_t>(chunk.n_rows) * row_bytes);
}

void read_rows(const GgufTensor &tensor, RowChunk chunk, std::span<float> out) {
  const auto bytes = raw_rows(tensor, chunk);
  if (tensor.type == GGML_TYPE_F32) {
    std::memcpy(out.data(), bytes.data(), bytes.size());
  } else {
    ggml_get_type_traits(tensor.type)
        ->to_float(bytes.data(), out.data(), static_cast<int64_t>(out.size()));
  }
}

bool is_readable(ggml_type type) {
  return type == GGML_TYPE_F32 || ggml_get_type_traits(type)->to_float != nullptr;
}

bool is_writable(ggml_type type) {
  if (type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16) return true;
  // These few are made from numbers only together with how much each of them matters.
  if (ggml_quantize_requires_imatrix(type) || type == GGML_TYPE_IQ1_M) return false;
  // Those that ggml makes of activations for its own products are no types of weights.
  if (type == GGML_TYPE_Q8_1 || type == GGML_TYPE_Q8_K) return false;
  return ggml_is_quantized(type) && ggml_get_type_traits(type)->from_float_ref != nullptr;
}

bool write_rows(ggml_type type, int64_t n_per_row, std::span<const float> rows,
                std::span<std::byte> out) {
  if (!fits(type, rows)) return false;
  const int64_t n_rows = static_cast<int64_t>(rows.size()) / n_per_row;
  const size_t n_bytes =
      ggml_quantize_chunk(type, rows.data(), out.data(), 0, n_rows, n_per_row, nullptr);
  return n_bytes == out.size() &&
         (!ggml_is_quantized(type) || ggml_validate_row_data(type, out.data(), out.size()));
}

}  // namespace patchbay
