#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "gguf/gguf_file.h"
#include "model/tensor_table.h"
#include "model/weight_layout.h"

namespace patchbay {

struct WeightOptions {
  LayoutOptions layout;
  /// Where rows that TensorTable::join() names are not packed, keep them in one tensor, a copy.
  bool join = true;

  /// Everything stays as it is in the file.
  [[nodiscard]] static WeightOptions as_stored() {
    return {.layout = {.interleave = false, .pack = false}, .join = false};
  }
};

/// How a weight lies in memory and is multiplied.
struct PlannedWeight {
  std::string name;
  size_t i_spec = 0;      ///< its line in the table
  std::string stored_as;  ///< the tensor in the file that has its numbers
  ggml_type type = GGML_TYPE_F32;
  WeightLayout layout = WeightLayout::as_stored;
  std::optional<Isa> isa;  ///< of our product, when packed
};

/// What a WeightStore makes of a file.
struct WeightPlan {
  /// In the table's order. A tied head is among them only where it is packed: else it is its table.
  std::vector<PlannedWeight> weights;
  /// The weights whose rows each tensor holds, by their place in `weights`: one, or those that are
  /// joined. A tied head has no tensor of its own.
  std::vector<std::vector<size_t>> tensors;

  [[nodiscard]] size_t count(WeightLayout layout) const;
};

/// Checks every tensor of `file` against `table` and plans how the weights that it has will lie.
/// The weights themselves stay as they are. Throws LoadError: missing, unknown, wrong shape, a type
/// that the role cannot have.
[[nodiscard]] WeightPlan plan_weights(const GgufFile &file, const TensorTable &table,
                                      const WeightOptions &options);

}  // namespace patchbay
