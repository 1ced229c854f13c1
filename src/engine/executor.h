#pragma once

#include <ggml-cpp.h>

#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "engine/compute_threads.h"
#include "engine/loaded_model.h"
#include "engine/step_plan.h"
#include "kv/cell_table.h"
#include "kv/kv_cache.h"
#include "lora/lora_pool.h"

namespace patchbay {

/// Computes steps: holds the KV cache, the resident adapters, the compute threads and the graph of
/// the last step, which runs again when the next step has the same shape. Engine thread.
class Executor {
 public:
  struct Options {
    uint32_t n_cells = 4096;  ///< tokens in the KV cache, over all sequences
    ggml_type cache_type = GGML_TYPE_F16;
    uint32_t n_threads = 1;
    ComputeThreads::Waiting waiting = ComputeThreads::Waiting::yielding;
  };

  /// Throws LoadError (out_of_memory).
  Executor(std::shared_ptr<const LoadedModel> model, const Options &options);

  // The graph refers to the cache.
  Executor(const Executor &) = delete;
  Executor &operator=(const Executor &) = delete;

  [[nodiscard]] const LoadedModel &model() const { return *model_; }
  [[nodiscard]] const CellTable &cells() const { return cells_; }

  /// Replaces the resident adapters. Throws LoadError (out_of_memory), the old ones then stay.
  void set_adapters(std::vector<std::shared_ptr<const Adapter>> adapters);
  /// In the order of the pool: Worn::i_adapter is a place in this list.
  [[nodiscard]] const std::vector<std::shared_ptr<const Adapter>> &adapters() const {
    return pool_->adapters();
  }
  [[nodiscard]] size_t pool_bytes() const { return pool_->size_bytes(); }

  /// Computes one step. Returns the logits of the rows that want them, in plan order: F32 [n_vocab,
  /// n_outputs], valid until the next call. On an error nothing of the step stays: invalid_argument
  /// (a row's token, place or adapter is out of range), context_overflow (not enough free cells),
  /// internal (the computation failed, or gave logits that are not finite).
  [[nodiscard]] Expected<std::span<const float>> run(const StepPlan &plan);

  /// Forgets a sequence from position `first_pos` on.
  void release(int32_t seq_id, int32_t first_pos = 0) {
    kv_.clear(cells_.release(seq_id, first_pos));
  }

 private:
  struct Prepared;
  class Claim;
  /// What has to agree for a graph to be run again.
  struct GraphKey {
    GraphSizes sizes;
    LoraInputs::Shape lora;
    bool operator==(const GraphKey &) const = default;
  };

  [[nodiscard]] Expected<void> check(const StepPlan &plan) const;
  [[nodiscard]] Expected<std::span<const float>> compute(const Prepared &step);
  [[nodiscard]] bool build(const GraphKey &key);
  void upload(const Prepared &step);

  std::shared_ptr<const LoadedModel> model_;
  CellTable cells_;
  KvCache kv_;
  std::unique_ptr<const LoraPool> pool_;
  ComputeThreads threads_;
  ggml_gallocr_ptr allocator_;
  GraphKey key_;
  std::unique_ptr<Graph> graph_;
  ggml_tensor *logits_ = nullptr;  // owned by graph_
  std::vector<float> out_;
};

}  // namespace patchbay
