#pragma once

#include <ggml.h>

namespace patchbay {

/// The transform of Hadamard-folded weights of one input width: F(x (.) signs), where F is the
/// Walsh-Hadamard transform in natural order of every block of an input, times 1 / sqrt(block).
/// F is symmetric and its own inverse. Tensors are views: the RotationStore owns them.
struct Rotation {
  /// F32 [n_inner, n_inner], normalised Walsh-Hadamard. A block is n_inner * n_outer numbers,
  /// number i + n_inner * j of it is turned by `inner` along i and by `outer` along j.
  ggml_tensor *inner = nullptr;
  ggml_tensor *outer = nullptr;  // F32 [n_outer, n_outer]; null when n_outer is 1
  ggml_tensor *signs = nullptr;  // F32 [n_in], +1 or -1; null when all are +1
};

}  // namespace patchbay
