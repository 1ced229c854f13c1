#pragma once

#include <ggml.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "gguf/gguf_file.h"
#include "tools/row_chunks.h"

namespace patchbay {

/// The numbers of `chunk` as F32. REQUIRES: out.size() is n_rows * ne[0]; is_readable(tensor.type).
void read_rows(const GgufTensor &tensor, RowChunk chunk, std::span<float> out);

/// The bytes of `chunk` as they are in the file.
[[nodiscard]] std::span<const std::byte> raw_rows(const GgufTensor &tensor, RowChunk chunk);

/// Whether numbers of this type can be turned into F32.
[[nodiscard]] bool is_readable(ggml_type type);

/// Whether F32 can be turned into this type without more knowledge than the numbers.
[[nodiscard]] bool is_writable(ggml_type type);

/// Rounds rows of n_per_row numbers to `type`; false when one does not fit into it (infinity and
/// NaN fit into none). REQUIRES: is_writable(type), n_per_row is a multiple of its block, and
/// `out` has the bytes of so many rows.
[[nodiscard]] bool write_rows(ggml_type type, int64_t n_per_row, std::span<const float> rows,
                              std::span<std::byte> out);

}  // namespace patchbay
