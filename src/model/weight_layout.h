#pragma once

#include <ggml.h>

#include <string_view>

#include "kernels/isa.h"
#include "model/tensor_table.h"

namespace patchbay {

/// How a weight lies in memory, and with it whose product multiplies it.
enum class WeightLayout : uint8_t {
  as_stored,    ///< as in the file; ggml's
  interleaved,  ///< rows interleaved by ggml while it copies them; ggml's
  packed,       ///< in tiles; ours
};

[[nodiscard]] std::string_view to_string(WeightLayout layout);

struct LayoutOptions {
  bool interleave = true;
  bool pack = true;
  Isa isa = best_isa();  ///< of our products
};

/// The fastest of the allowed layouts for a weight, by the gains that were measured over ggml's
/// product of the weight as stored. `tensor` has type and shape, but no data yet. Weights whose
/// rows are looked up and vectors stay as stored.
[[nodiscard]] WeightLayout choose_layout(TensorRole role, const ggml_tensor &tensor,
                                         const LayoutOptions &options);

}  // namespace patchbay
