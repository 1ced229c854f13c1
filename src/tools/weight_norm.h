#pragma once

#include <cstdint>

#include "gguf/gguf_file.h"
#include "tools/row_chunks.h"

namespace patchbay {

/// The Frobenius norm of some rows of a tensor, read by `n_threads` threads. REQUIRES:
/// is_readable(tensor.type).
[[nodiscard]] double weight_norm(const GgufTensor &tensor, RowChunk rows, uint32_t n_threads);

}  // namespace patchbay
