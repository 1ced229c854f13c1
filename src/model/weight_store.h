#pragma once

#include <ggml-cpp.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/huge_memory.h"
#include "gguf/gguf_file.h"
#include "model/tensor_table.h"
#include "model/weight_layout.h"

namespace patchbay {

struct WeightOptions {
  LayoutOptions layout;
  bool join = true;  ///< keep rows that TensorTable::join() names in one tensor, a copy

  /// Everything stays as it is in the file.
  [[nodiscard]] static WeightOptions as_stored() {
    return {.layout = {.interleave = false, .pack = false}, .join = false};
  }
};

/// Called while loading with the bytes done and the bytes in all; from the loading thread.
using LoadProgress = std::function<void(size_t done_bytes, size_t all_bytes)>;

/// How a weight would lie in memory and be multiplied.
struct PlannedWeight {
  std::string name;
  std::string stored_as;  ///< the tensor in the file that has its numbers
  ggml_type type = GGML_TYPE_F32;
  WeightLayout layout = WeightLayout::as_stored;
  std::optional<Isa> isa;  ///< of our product, when packed
};

/// The weights that WeightStore would make of `file`, in the order of `table`, whose weights get
/// their names and nothing else. A tied head is among them only where it is packed: else it is its
/// table. Throws LoadError as WeightStore does.
[[nodiscard]] std::vector<PlannedWeight> plan_weights(const GgufFile &file,
                                                      const TensorTable &table,
                                                      const WeightOptions &options);

/// Owns the tensors of a model and the memory they live in: the mapped file itself, or a private
/// copy for those that are packed, interleaved, joined with others or that lie misaligned in the
/// file. Of what is copied the file's pages are given back.
class WeightStore {
 public:
  /// Checks every tensor of `file` against `table` and binds the table's weights. Throws LoadError:
  /// missing, unknown, wrong shape, a type that the role cannot have.
  WeightStore(std::shared_ptr<const GgufFile> file, const TensorTable &table,
              const WeightOptions &options, const LoadProgress &progress);

  [[nodiscard]] size_t mapped_bytes() const { return mapped_bytes_; }
  [[nodiscard]] size_t copied_bytes() const { return copied_bytes_; }
  /// Weights by their layout.
  [[nodiscard]] size_t n_interleaved() const { return n_interleaved_; }
  [[nodiscard]] size_t n_packed() const { return packed_.size(); }

 private:
  std::shared_ptr<const GgufFile> file_;
  ggml_context_ptr context_;
  std::vector<ggml_backend_buffer_ptr> buffers_;
  size_t mapped_bytes_ = 0;
  size_t copied_bytes_ = 0;
  size_t n_interleaved_ = 0;
  HugeMemory tiles_;
  std::deque<PackedWeight> packed_;  // weights point at them
};

}  // namespace patchbay
