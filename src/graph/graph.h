#pragma once

#include <ggml-cpp.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "graph/lora_step.h"
#include "graph/packed_products.h"
#include "graph/paged_attention.h"
#include "kv/kv_cache.h"
#include "model/base_info.h"
#include "model/weights.h"

namespace patchbay {

/// The sizes of a step's graph.
struct GraphSizes {
  int64_t n_tokens = 1;
  int64_t n_outputs = 1;  ///< tokens whose logits or hidden states are wanted
  int64_t n_kv = 1;       ///< cells that masked attention looks at; 0: attention is paged
  int64_t n_kv_swa = 1;   ///< the same in sliding-window layers, which have cells of their own
  int64_t n_hidden = 0;   ///< of the outputs the last ones, whose hidden states are wanted

  [[nodiscard]] int64_t n_logits() const { return n_outputs - n_hidden; }
  /// The outputs are all tokens in their order.
  [[nodiscard]] bool is_all_in_order() const {
    return n_outputs == n_tokens && (n_hidden == 0 || n_hidden == n_outputs);
  }
  bool operator==(const GraphSizes &) const = default;
};

/// What the layers of one KV pool are fed.
struct CellInputs {
  ggml_tensor *cells =
      nullptr;                  // I64, row of the cache that each token, or each head of it, writes
  ggml_tensor *mask = nullptr;  // F16 [n_kv, n_tokens], of masked attention
  std::unique_ptr<PagedAttention> paged;  // set for every run, of paged attention
};

/// What a step feeds its graph. Filled for every run: the allocator reuses the memory of an input
/// after its last reader.
struct GraphInputs {
  ggml_tensor *tokens = nullptr;       // I32 [n_tokens]
  ggml_tensor *positions = nullptr;    // I32 [n_tokens]
  ggml_tensor *output_rows = nullptr;  // I32 [n_outputs], unless GraphSizes::is_all_in_order()
  CellInputs full;                     // of layers that see everything
  CellInputs window;                   // of sliding-window layers; models that have them only
};

/// A graph under construction: what the blocks of this folder need and nothing about requests. One
/// step builds one, or runs an earlier one of the same shape again.
class Graph {
 public:
  /// `kv` and `lora` outlive the graph. `lora` is null when no token of the step wears an adapter.
  /// Throws std::bad_alloc.
  Graph(const HParams &hparams, const KvCache &kv, GraphSizes sizes,
        std::unique_ptr<LoraStep> lora = nullptr);

  [[nodiscard]] const HParams &hparams() const { return hparams_; }
  [[nodiscard]] const KvCache &kv() const { return kv_; }
  [[nodiscard]] const GraphSizes &sizes() const { return sizes_; }
  [[nodiscard]] const GraphInputs &inputs() const { return inputs_; }
  [[nodiscard]] const CellInputs &cell_inputs(uint32_t il) const {
    return hparams_.is_swa(il) ? inputs_.window : inputs_.full;
  }
  [[nodiscard]] ggml_context *context() const { return context_.get(); }
  [[nodiscard]] ggml_cgraph *cgraph() const { return cgraph_; }
  [[nodiscard]] LoraStep *lora() const { return lora_.get(); }

  /// Makes a node part of the graph now, where order matters and no later node reads it.
  void expand(ggml_tensor *node) { ggml_build_forward_expand(cgraph_, node); }

  /// From here on only the rows of which something is wanted are computed: x [n, n_tokens] -> [n,
  /// n_outputs]. Called once, when nothing that is still to come needs the other rows.
  [[nodiscard]] ggml_tensor *keep_outputs(ggml_tensor *x);
  /// From here on only those whose logits are: x [n, n_outputs] -> [n, n_logits]. Called once,
  /// before the head.
  [[nodiscard]] ggml_tensor *keep_logits(ggml_tensor *x);
  [[nodiscard]] RowSet rows() const { return rows_; }
  /// Rows of the set that is computed now.
  [[nodiscard]] int64_t n_rows() const {
    return rows_ == RowSet::all       ? sizes_.n_tokens
           : rows_ == RowSet::outputs ? sizes_.n_outputs
                                      : sizes_.n_logits();
  }

  /// The input `x` as weights of this rotation read it; null until one of them was met. Weights
  /// that share input and width share the node.
  [[nodiscard]] ggml_tensor *&rotated(const ggml_tensor *x, const Rotation &rotation) {
    return rotated_[{x, &rotation}];
  }

  [[nodiscard]] PackedProducts &products() { return products_; }

  /// Recording: every (weight, use) pair and every norm that a graph reads is appended to those of
  /// `*base` while it is built.
  void record_into(BaseInfo *base) { recorded_ = base; }
  /// `i_input`: as in AdaptableUse.
  void note_use(const Weight &weight, UseKind kind, int32_t i_input = -1);
  void note_norm(const Weight &weight);
  /// Keys and values of a layer were computed by these weights, and from all that was read before.
  void note_kv(const Weight &k, const Weight &v);
  /// A number for an input that several weights read.
  [[nodiscard]] int32_t new_input() { return n_inputs_++; }

 private:
  void make_inputs();
  [[nodiscard]] ggml_tensor *make_input(ggml_type type, int64_t ne0, int64_t ne1 = 1);
  [[nodiscard]] CellInputs make_cell_inputs(int64_t n_kv, uint32_t n_swa);

  const HParams &hparams_;
  const KvCache &kv_;
  GraphSizes sizes_;
  std::unique_ptr<LoraStep> lora_;
  std::unique_ptr<std::byte[]> memory_;  // of the context: ggml ends the process where it has none
  ggml_context_ptr context_;
  ggml_cgraph *cgraph_ = nullptr;  // owned by context_
  GraphInputs inputs_;
  RowSet rows_ = RowSet::all;
  std::map<std::pair<const ggml_tensor *, const Rotation *>, ggml_tensor *> rotated_;
  PackedProducts products_;
  BaseInfo *recorded_ = nullptr;
  int32_t n_inputs_ = 0;
};

}  // namespace patchbay
