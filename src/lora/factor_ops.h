#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "lora/adapter.h"

namespace patchbay {

/// Whether a factor may have this type as it is: F32, F16 or BF16.
[[nodiscard]] bool is_factor_type(ggml_type type);

/// That type for a dtype of a safetensors file; nullopt for any other dtype.
[[nodiscard]] std::optional<ggml_type> factor_type(std::string_view dtype);

/// A factor that owns its bytes. REQUIRES: `bytes` holds exactly the elements of `ne` in `type`
/// (F32, F16 or BF16).
[[nodiscard]] Factor make_factor(ggml_type type, std::array<int64_t, 3> ne,
                                 std::vector<std::byte> bytes);

/// The same for F32 numbers.
[[nodiscard]] Factor make_factor(std::array<int64_t, 3> ne, std::vector<float> values);

/// All elements of `factor` as F32.
[[nodiscard]] std::vector<float> numbers_of(const Factor &factor);

/// All elements of `factor` times `scale`, as F32.
[[nodiscard]] Factor scaled_f32(const Factor &factor, float scale);

/// A copy with other order: element (i0, i1, i2) of the result is element
/// `first + i0 stride[0] + i1 stride[1] + i2 stride[2]` of `source`. The type is kept.
/// REQUIRES: every such index lies inside `source`.
[[nodiscard]] Factor gather(const Factor &source, std::array<int64_t, 3> ne,
                            std::array<int64_t, 3> stride, int64_t first = 0);

/// A matrix [n, m] as [m, n].
[[nodiscard]] Factor transposed(const Factor &matrix);

/// B [n_rank, n_out] with its rows brought from the rotary layout of Hugging Face (halves of a
/// head) into that of llama-like GGUF files (neighbours): row `h d + 2 j + i` is row `h d + i d/2 +
/// j` of `b`, d rows a head. REQUIRES: n_out is a multiple of 2 n_head.
[[nodiscard]] Factor reorder_rotary_rows(const Factor &b, int64_t n_head);

/// The way back from reorder_rotary_rows().
[[nodiscard]] Factor restore_rotary_rows(const Factor &b, int64_t n_head);

/// Converts little-endian doubles; nullopt when one that is finite does not fit F32.
[[nodiscard]] std::optional<std::vector<float>> f64_to_f32(std::span<const std::byte> data);

[[nodiscard]] bool all_finite(const Factor &factor);
[[nodiscard]] bool all_zero(const Factor &factor);

}  // namespace patchbay
