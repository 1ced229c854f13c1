#pragma once

#include <ggml-cpp.h>
#include <ggml-cpu.h>

#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "kernels/product_pack.h"
#include "kernels/product_support.h"
#include "model/packed_weight.h"

namespace patchbay {

/// ggml's types that have a product of ours.
inline std::vector<ggml_type> packable_types() {
  std::vector<ggml_type> types;
  for (int type = 0; type < GGML_TYPE_COUNT; ++type) {
    if (weight_format(static_cast<ggml_type>(type))) types.push_back(static_cast<ggml_type>(type));
  }
  return types;
}

/// Random weights [n_in, n_out, n_expert], as a file has them and as our products read them.
class PackedRows {
 public:
  PackedRows(ggml_type type, int64_t n_in, int64_t n_out, int64_t n_expert = 1, uint32_t seed = 1)
      : type_(type),
        rows_(ggml_row_size(type, n_in) * static_cast<size_t>(n_out * n_expert)),
        packed_{
            .format = *weight_format(type), .n_in = n_in, .n_out = n_out, .n_expert = n_expert} {
    const auto numbers = normal_numbers(n_in * n_out * n_expert, seed);
    ggml_quantize_chunk(type, numbers.data(), rows_.data(), 0, n_out * n_expert, n_in, nullptr);
    tiles_.resize(packed_.size_bytes(), 0xAA);
    packed_.tiles = tiles_.data();
    const size_t row_bytes = ggml_row_size(type, n_in);
    for (int64_t expert = 0; expert < n_expert; ++expert) {
      const auto *rows = rows_.data() + static_cast<size_t>(expert * n_out) * row_bytes;
      pack_tiles({packed_.format, rows, row_bytes, n_in, n_out}, 0, packed_.n_tiles(),
                 tiles_.data() + expert * packed_.n_tiles() * tile_bytes(packed_.format, n_in));
    }
  }
  PackedRows(const PackedRows &) = delete;
  PackedRows &operator=(const PackedRows &) = delete;

  [[nodiscard]] const PackedWeight &packed() const { return packed_; }

  /// The same as a tensor of ggml's [n_in, n_out, n_expert].
  [[nodiscard]] ggml_tensor *tensor(ggml_context *context) const {
    ggml_tensor *tensor =
        ggml_new_tensor_3d(context, type_, packed_.n_in, packed_.n_out, packed_.n_expert);
    std::memcpy(tensor->data, rows_.data(), rows_.size());
    return tensor;
  }

 private:
  ggml_type type_;
  std::vector<std::byte> rows_;
  std::vector<uint8_t> tiles_;
  PackedWeight packed_;
};

/// A context that holds the data of its tensors.
inline ggml_context_ptr data_context() {
  constexpr size_t k_bytes = size_t{64} << 20U;
  return ggml_context_ptr(
      ggml_init({.mem_size = k_bytes, .mem_buffer = nullptr, .no_alloc = false}));
}

/// Root mean square of the differences, relative to that of `wanted`.
inline double relative_rms(std::span<const float> got, std::span<const float> wanted) {
  double difference = 0;
  double size = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    difference += std::pow(static_cast<double>(got[i]) - static_cast<double>(wanted[i]), 2);
    size += std::pow(static_cast<double>(wanted[i]), 2);
  }
  return std::sqrt(difference / size);
}

}  // namespace patchbay
