#pragma once

#include <ggml.h>

#include <span>

#include "kernels/attention_plan.h"
#include "kv/block_tables.h"
#include "model/hparams.h"

namespace patchbay {

/// Attention of the layers of one KV pool by block tables: each row walks its own sequence's
/// blocks, without a mask and whatever else is in the pool. CPU only. The graph's nodes refer to
/// the object, whose plan is set for every run.
class PagedAttention {
 public:
  /// `n_swa`: the window of these layers; 0: none.
  PagedAttention(const HParams &hparams, uint32_t n_swa, uint32_t block_size);
  PagedAttention(const PagedAttention &) = delete;
  PagedAttention &operator=(const PagedAttention &) = delete;

  /// Plans a run: where the rows of the step stand. At most `n_threads` threads will compute.
  void set(const BlockTables &tables, std::span<const SeqPos> places, uint32_t n_threads);

  /// q F32 [n_embd_head, n_head, n_tokens] against the cache k, v, laid out by head, which holds
  /// the step's own tokens -> F32 [n_embd_head * n_head, n_tokens].
  [[nodiscard]] ggml_tensor *build(ggml_context *context, ggml_tensor *q, ggml_tensor *k,
                                   ggml_tensor *v);

 private:
  static void compute(ggml_tensor *dst, int i_thread, int n_threads, void *self);

  AttentionPlan plan_;
};

}  // namespace patchbay
