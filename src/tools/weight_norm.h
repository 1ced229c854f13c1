#pragma once

#include <cstdint>

#include "gguf/gguf_file.h"

namespace patchbay {

/// The Frobenius norm of a tensor over all of its experts, read by `n_threads` threads. REQUIRES:
/// is_readable(tensor.type).
[[nodiscard]] double weight_norm(const GgufTensor &tensor, uint32_t n_threads);

}  // namespace patchbay
