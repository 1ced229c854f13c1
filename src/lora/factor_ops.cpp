#include "lora/factor_ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

namespace patchbay {
namespace {

constexpr size_t k_chunk =
    4096;  // elements handled at a time, so that copies of unaligned data stay in the cache

template <class Value>
Factor owning_factor(ggml_type type, std::array<int64_t, 3> ne, std::vector<Value> values) {
  auto owner = std::make_shared<const std::vector<Value>>(std::move(values));
  const auto data = std::as_bytes(std::span(*owner));
  return {.type = type, .ne = ne, .data = data, .owner = std::move(owner)};
}

/// Whether `test(bits)` holds for the bits of every element.
template <class Bits, class Test>
bool all_bits(std::span<const std::byte> data, Test test) {
  std::array<Bits, k_chunk> chunk{};
  while (!data.empty()) {
    const size_t n_bytes = std::min(data.size(), sizeof(chunk));
    std::memcpy(chunk.data(), data.data(), n_bytes);
    bool all = true;
    for (size_t i = 0; i < n_bytes / sizeof(Bits); ++i) all = all && test(chunk[i]);
    if (!all) return false;
    data = data.subspan(n_bytes);
  }
  return true;
}

template <class Bits>
bool all_finite_bits(std::span<const std::byte> data, Bits exponent) {
  return all_bits<Bits>(data, [exponent](Bits bits) { return (bits & exponent) != exponent; });
}

template <class Bits>
bool all_zero_bits(std::span<const std::byte> data) {
  constexpr Bits k_sign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  return all_bits<Bits>(data, [](Bits bits) { return (bits | k_sign) == k_sign; });
}

}  // namespace

bool is_factor_type(ggml_type type) {
  return type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16;
}

std::optional<ggml_type> factor_type(std::string_view dtype) {
  if (dtype == "F32") return GGML_TYPE_F32;
  if (dtype == "F16") return GGML_TYPE_F16;
  if (dtype == "BF16") return GGML_TYPE_BF16;
  return std::nullopt;
}

Factor make_factor(ggml_type type, std::array<int64_t, 3> ne, std::vector<std::byte> bytes) {
  return owning_factor(type, ne, std::move(bytes));
}

Factor make_factor(std::array<int64_t, 3> ne, std::vector<float> values) {
  return owning_factor(GGML_TYPE_F32, ne, std::move(values));
}

void to_f32(const Factor &factor, int64_t first, std::span<float> out) {
  const size_t size = ggml_type_size(factor.type);
  auto source = factor.data.subspan(static_cast<size_t>(first) * size, out.size() * size);
  if (factor.type == GGML_TYPE_F32) {
    if (!out.empty()) std::memcpy(out.data(), source.data(), source.size());
    return;
  }
  const auto convert = ggml_get_type_traits(factor.type)->to_float;
  std::array<uint16_t, k_chunk> aligned{};
  while (!out.empty()) {
    const size_t n = std::min(out.size(), aligned.size());
    std::memcpy(aligned.data(), source.data(), n * size);
    convert(aligned.data(), out.data(), static_cast<int64_t>(n));
    source = source.subspan(n * size);
    out = out.subspan(n);
  }
}

std::vector<float> numbers_of(const Factor &factor) {
  std::vector<float> values(static_cast<size_t>(factor.n_elements()));
  to_f32(factor, 0, values);
  return values;
}

Factor transposed(const Factor &matrix) {
  return gather(matrix, {matrix.ne[1], matrix.ne[0], 1}, {matrix.ne[0], 1, 0});
}

Factor scaled_f32(const Factor &factor, float scale) {
  auto values = numbers_of(factor);
  for (float &value : values) value *= scale;
  return make_factor(factor.ne, std::move(values));
}

Factor gather(const Factor &source, std::array<int64_t, 3> ne, std::array<int64_t, 3> stride,
              int64_t first) {
  const size_t size = ggml_type_size(source.type);
  std::vector<std::byte> bytes(static_cast<size_t>(ne[0] * ne[1] * ne[2]) * size);
  std::byte *to = bytes.data();
  for (int64_t i2 = 0; i2 < ne[2]; ++i2) {
    for (int64_t i1 = 0; i1 < ne[1]; ++i1) {
      for (int64_t i0 = 0; i0 < ne[0]; ++i0, to += size) {
        const int64_t index = first + i0 * stride[0] + i1 * stride[1] + i2 * stride[2];
        std::memcpy(to, source.data.data() + static_cast<size_t>(index) * size, size);
      }
    }
  }
  return make_factor(source.type, ne, std::move(bytes));
}

namespace {

/// Whether rows come from the places that the reordering gives them, or go there.
enum class Rotary { reorder, restore };

Factor permuted_rows(const Factor &b, int64_t n_head, Rotary direction) {
  const size_t row_bytes = static_cast<size_t>(b.ne[0]) * ggml_type_size(b.type);
  const int64_t n_rows_head = b.ne[1] / n_head;
  std::vector<std::byte> bytes(b.data.size());
  for (int64_t row = 0; row < b.ne[1]; ++row) {
    const int64_t head = row / n_rows_head;
    const int64_t j = row % n_rows_head / 2;
    const int64_t half = row % 2;
    const int64_t other = head * n_rows_head + half * (n_rows_head / 2) + j;
    const auto from = static_cast<size_t>(direction == Rotary::reorder ? other : row);
    const auto to = static_cast<size_t>(direction == Rotary::reorder ? row : other);
    std::memcpy(bytes.data() + to * row_bytes, b.data.data() + from * row_bytes, row_bytes);
  }
  return make_factor(b.type, b.ne, std::move(bytes));
}

}  // namespace

Factor reorder_rotary_rows(const Factor &b, int64_t n_head) {
  return permuted_rows(b, n_head, Rotary::reorder);
}

Factor restore_rotary_rows(const Factor &b, int64_t n_head) {
  return permuted_rows(b, n_head, Rotary::restore);
}

std::optional<std::vector<float>> f64_to_f32(std::span<const std::byte> data) {
  std::vector<float> values(data.size() / sizeof(double));
  for (size_t i = 0; i < values.size(); ++i) {
    double value = 0;
    std::memcpy(&value, data.data() + i * sizeof(double), sizeof(double));
    if (std::isfinite(value) && std::abs(value) > std::numeric_limits<float>::max()) {
      return std::nullopt;
    }
    values[i] = static_cast<float>(value);
  }
  return values;
}

bool all_finite(const Factor &factor) {
  switch (factor.type) {
    case GGML_TYPE_F16:
      return all_finite_bits<uint16_t>(factor.data, 0x7c00);
    case GGML_TYPE_BF16:
      return all_finite_bits<uint16_t>(factor.data, 0x7f80);
    default:
      return all_finite_bits<uint32_t>(factor.data, 0x7f800000);
  }
}

bool all_zero(const Factor &factor) {
  if (factor.type == GGML_TYPE_F32) return all_zero_bits<uint32_t>(factor.data);
  return all_zero_bits<uint16_t>(factor.data);
}

}  // namespace patchbay
