#pragma once

#include <ggml-cpp.h>

#include <memory>
#include <span>
#include <vector>

#include "arch/decoder.h"
#include "base/error.h"
#include "engine/compute_threads.h"
#include "engine/loaded_model.h"
#include "engine/step_plan.h"
#include "kv/kv_cache.h"
#include "kv/kv_geometry.h"
#include "kv/kv_invariants.h"
#include "kv/kv_tables.h"
#include "lora/lora_pool.h"
#include "patchbay/engine.hpp"

namespace patchbay {

/// How attention is computed.
enum class AttentionForm {
  automatic,  ///< paged: every engine computes on the CPU so far
  portable,   ///< ggml's own, masked over all cells in use: runs on every backend
  paged,      ///< ours, by block tables; a row's result does not depend on what else is in the step
};

/// Computes steps: holds the KV cache, the resident adapters, the compute threads and the graph of
/// the last step, which runs again when the next step has the same shape. Engine thread.
class Executor {
 public:
  struct Options {
    KvDemand kv;  ///< how large the KV cache is
    ggml_type cache_type = GGML_TYPE_F16;
    uint32_t n_threads = 1;
    LoraForm lora_form = LoraForm::automatic;
    AttentionForm attention = AttentionForm::automatic;
    size_t cache_memory_bytes = 0;  ///< for blocks that the KV cache has to evict; 0: no host tier
    ComputeThreads::Waiting waiting = ComputeThreads::Waiting::yielding;
  };

  /// Throws LoadError: out_of_memory, or a cache type that does not fit the model's heads.
  Executor(std::shared_ptr<const LoadedModel> model, const Options &options);

  // The graph refers to the cache.
  Executor(const Executor &) = delete;
  Executor &operator=(const Executor &) = delete;

  [[nodiscard]] const LoadedModel &model() const { return *model_; }

  // The resident adapters, see LoraPool. Adding one throws LoadError, and the others stay.
  int32_t add_adapter(std::shared_ptr<const Adapter> adapter,
                      std::shared_ptr<const PackedAdapter> packed = nullptr) {
    return pool_.add(std::move(adapter), std::move(packed));
  }
  void remove_adapter(int32_t i_adapter) { pool_.remove(i_adapter); }
  [[nodiscard]] AdapterSet canonical(std::span<const Worn> worn) const {
    return pool_.canonical(worn);
  }
  [[nodiscard]] bool is_resident(const AdapterDigest &digest) const {
    return pool_.find(digest) >= 0;
  }
  /// Whether steps read adapters packed.
  [[nodiscard]] bool reads_packed() const { return fused_; }
  [[nodiscard]] size_t pool_bytes() const { return pool_.size_bytes(); }
  [[nodiscard]] PrefixCacheStats prefix_cache_stats() const;
  [[nodiscard]] HostTierStats host_tier_stats() const;

  /// Computes one step. Returns the logits of the rows that want them, in plan order: F32 [n_vocab,
  /// n_logits], valid until the next call; they may be not finite, row by row, where weights or an
  /// adapter at its strength are too large. A sequence's rows follow on what it holds, in any
  /// order. On an error nothing of the step stays: invalid_argument (a row's token, place or
  /// adapter is out of range), context_overflow (not enough free blocks, or a sequence longer than
  /// n_ctx), out_of_memory (for the adapters as the step reads them), internal (the computation
  /// failed).
  [[nodiscard]] Expected<std::span<const float>> run(const StepPlan &plan);
  /// Of the last run(): the hidden states of the rows that want them, in plan order: F32 [n_embd,
  /// n_hidden], valid until the next one; they may be not finite as well.
  [[nodiscard]] std::span<const float> hidden() const;

  /// What keys and values of tokens that wear these depend on, see LoraPool.
  [[nodiscard]] Sha256Digest kv_digest(std::span<const WornAdapter> worn) const {
    std::vector<Wearing> wearing;
    for (const auto &[adapter, strength] : worn) wearing.push_back({adapter.get(), strength});
    return pool_.kv_digest(std::move(wearing));
  }
  /// How much of a tenant's new sequence of this content is in the prefix cache.
  [[nodiscard]] PrefixCache::Match match(std::string_view tenant, const ContentView &known) const {
    return tables_.prefixes().match(tenant, PrefixContent(known));
  }
  /// A new sequence of this tenant: it may adopt, and what is computed of it is kept for others. A
  /// sequence that was not begun does neither.
  void begin(int32_t seq_id, const std::string &tenant) {
    tables_.prefixes().begin(seq_id, tenant);
  }
  /// The sequence, whose tokens `known` begins with, goes on with what the prefix cache has of the
  /// rest. Returns how many tokens it holds now.
  uint32_t adopt(int32_t seq_id, const ContentView &known);

  [[nodiscard]] KvGeometry kv_geometry() const;
  /// What the prefix cache holds of a tenant's content, and the opposite, see PrefixCache.
  [[nodiscard]] SavedPrefix save(std::string_view tenant, const ContentView &content) const {
    return tables_.prefixes().save(tenant, PrefixContent(content));
  }
  uint32_t load(const std::string &tenant, const ContentView &content, const PrefixBlocks &blocks);

  /// `to` becomes a copy of `from` that shares its memory until one of them grows; what `to` held
  /// is released.
  void fork(int32_t from, int32_t to) { tables_.fork(from, to); }

  /// Forgets a sequence.
  void release(int32_t seq_id) { tables_.release(seq_id); }

  /// Tokens that a sequence holds; 0 when there is no such sequence.
  [[nodiscard]] uint32_t n_tokens(int32_t seq_id) const { return tables_.n_tokens(seq_id); }
  /// Tokens that fit into the blocks that no sequence holds; those of a sequence's last block come
  /// on top.
  [[nodiscard]] uint32_t n_free_tokens() const {
    const BlockPool &pool = tables_.full().pool();
    return (pool.n_free() + pool.n_idle()) * block_size();
  }
  /// The most tokens that one sequence may hold.
  [[nodiscard]] uint32_t n_ctx() const { return n_ctx_; }
  /// Tokens that the cache holds over all sequences, in whole blocks.
  [[nodiscard]] uint32_t n_kv_tokens() const {
    return tables_.full().pool().n_blocks() * tables_.full().block_size();
  }
  /// Tokens per block of the cache.
  [[nodiscard]] uint32_t block_size() const { return tables_.full().block_size(); }
  /// Steps that could not run the graph of the one before.
  [[nodiscard]] uint64_t n_graphs_built() const { return n_graphs_built_; }
  [[nodiscard]] KvSnapshot kv_snapshot() const { return snapshot_of(tables_); }

 private:
  struct Prepared;
  /// What has to agree for a graph to be run again.
  struct GraphKey {
    GraphSizes sizes;
    LoraShape lora;
    bool operator==(const GraphKey &) const = default;
  };

  [[nodiscard]] Expected<void> check(const StepPlan &plan) const;
  [[nodiscard]] Expected<void> check_places(int32_t seq_id, std::vector<int32_t> &positions) const;
  [[nodiscard]] Expected<KvTables::Reservation> reserve(const Prepared &step);
  [[nodiscard]] GraphSizes sizes_of(const Prepared &step) const;
  [[nodiscard]] Expected<void> compute(const Prepared &step);
  [[nodiscard]] std::span<const float> read_logits() const;
  [[nodiscard]] LoraShape lora_shape(const Routing &routing);
  [[nodiscard]] std::unique_ptr<LoraStep> make_lora_step(const GraphKey &key);
  [[nodiscard]] bool build(const GraphKey &key);
  void upload(const Prepared &step);
  void upload(const Prepared &step, const BlockTables &tables, uint32_t n_swa,
              const CellInputs &inputs);

  std::shared_ptr<const LoadedModel> model_;
  uint32_t n_threads_;
  AttentionForm attention_;
  uint32_t n_ctx_;
  KvTables tables_;
  KvCache kv_;
  bool fused_;
  LoraPool pool_;
  ComputeThreads threads_;
  ggml_gallocr_ptr allocator_;
  GraphKey key_;
  uint64_t n_graphs_built_ = 0;
  std::unique_ptr<Graph> graph_;
  DecoderOutputs outputs_;  // owned by graph_
};

}  // namespace patchbay
