#pragma once

#include <ggml-cpp.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "base/huge_memory.h"
#include "gguf/gguf_file.h"
#include "model/tensor_table.h"
#include "model/weight_plan.h"

namespace patchbay {

/// Called while loading with the bytes done and the bytes in all; from the loading thread.
using LoadProgress = std::function<void(size_t done_bytes, size_t all_bytes)>;

/// Owns the tensors of a model and the memory they live in: the mapped file itself, or a private
/// copy for those that are packed, interleaved, joined with others or that lie misaligned in the
/// file; no packed one is joined. Of what is copied the file's pages are given back.
class WeightStore {
 public:
  /// Plans the weights and binds those of the table. Throws LoadError: as plan_weights(), which
  /// leaves the table's weights as they were, or out_of_memory.
  WeightStore(std::shared_ptr<const GgufFile> file, const TensorTable &table,
              const WeightOptions &options, const LoadProgress &progress);

  [[nodiscard]] const WeightPlan &plan() const { return plan_; }
  [[nodiscard]] size_t mapped_bytes() const { return mapped_bytes_; }
  [[nodiscard]] size_t copied_bytes() const { return copied_bytes_; }

 private:
  using Done = std::function<void(size_t n_bytes)>;

  void pack(const TensorTable &table, const Done &done);

  std::shared_ptr<const GgufFile> file_;
  WeightPlan plan_;
  ggml_context_ptr context_;
  std::vector<ggml_backend_buffer_ptr> buffers_;
  size_t mapped_bytes_ = 0;
  size_t copied_bytes_ = 0;
  HugeMemory tiles_;
  std::deque<PackedWeight> packed_;  // weights point at them
};

}  // namespace patchbay
