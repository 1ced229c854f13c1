#pragma once

#include <ggml-backend.h>

#include "model/tensor_table.h"

namespace patchbay {

/// ggml's buffer type that interleaves rows of quantised weights while they are written, or nullptr
/// on a CPU without one.
[[nodiscard]] ggml_backend_buffer_type_t repack_buffer_type();

/// Whether `tensor` (no data yet), a linear or experts weight, can live in repack_buffer_type().
/// Interleaved weights can be multiplied and nothing else: no look-ups and no reading back.
[[nodiscard]] bool can_interleave(TensorRole role, const ggml_tensor &tensor);

}  // namespace patchbay
