#pragma once

#include <ggml-backend.h>

#include "model/tensor_table.h"

namespace patchbay {

/// ggml's buffer type that interleaves rows of quantised weights while they are written, or nullptr
/// on a CPU without one.
[[nodiscard]] ggml_backend_buffer_type_t repack_buffer_type();

/// Whether `tensor` (no data yet) can live in repack_buffer_type() and gains by it. Repacked
/// weights can be multiplied and nothing else: no look-ups and no reading back.
[[nodiscard]] bool repack_pays(TensorRole role, const ggml_tensor &tensor);

}  // namespace patchbay
