#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/loaded_model.h"
#include "tools/tensor_change.h"

namespace patchbay {

/// One tensor of a merged model.
struct MergedTensor {
  std::string name;
  ggml_type type = GGML_TYPE_F32;
  int n_dims = 1;
  std::array<int64_t, 4> ne{1, 1, 1, 1};
  const GgufTensor *source = nullptr;        ///< what it is made of; null: zeros
  const TensorChange *change = nullptr;      ///< null: none
  const HadamardFolding *folding = nullptr;  ///< null: its rows are not folded

  /// Whether its bytes are those of the source.
  [[nodiscard]] bool is_copy() const {
    return change == nullptr && source != nullptr && source->type == type;
  }
};

/// What a merged model will hold. Views into the base and the adapters, which must outlive it.
struct MergePlan {
  TensorChanges changes;
  std::optional<HadamardFolding> folding;
  std::vector<MergedTensor> tensors;  ///< the base's in their order, then new ones
  std::vector<std::string> notes;     ///< what deserves a word
};

/// Plans how the changes go into the tensors of `base`; nothing is computed yet. `type`: that of
/// all matrices, where rows are whole blocks of it; none: each keeps its own. Throws LoadError:
/// nothing is changed, a change has no place in this family's graph, a type cannot be read or made.
[[nodiscard]] std::unique_ptr<const MergePlan> plan_merge(const LoadedModel &base,
                                                          TensorChanges changes,
                                                          std::optional<ggml_type> type);

}  // namespace patchbay
