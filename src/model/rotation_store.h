#pragma once

#include <ggml-cpp.h>

#include <cstdint>
#include <map>
#include <string>

#include "model/hadamard.h"
#include "model/rotation.h"
#include "model/tensor_table.h"

namespace patchbay {

/// Owns the transforms of a model's Hadamard-folded weights, one per input width.
class RotationStore {
 public:
  /// Gives every folded weight of `table`, whose tensors are bound, its rotation. `path` is for the
  /// message. Throws LoadError (out_of_memory).
  RotationStore(const std::string &path, const HadamardFolding &folding, const TensorTable &table);

 private:
  void make_tensors(const HadamardFolding &folding);
  void fill(const HadamardFolding &folding) const;
  [[nodiscard]] const Rotation *rotation_of(int64_t width);

  ggml_context_ptr context_;
  ggml_backend_buffer_ptr buffer_;
  Rotation plain_;                        // without signs
  std::map<int64_t, Rotation> by_width_;  // of the widths that have signs
};

}  // namespace patchbay
