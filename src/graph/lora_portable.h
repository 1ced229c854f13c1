#pragma once

#include "graph/lora_inputs.h"
#include "graph/lora_step.h"

namespace patchbay {

/// The low-rank step out of standard ggml operations, for any backend and as the reference of every
/// other form. One product per half whatever the number of adapters: the slots of a weight's
/// adapters are the "experts" of ggml_mul_mat_id, the row's adapters are the chosen ones. Rows
/// without an adapter use the zero slot, so their sum is y + 0 bit for bit.
class PortableLora final : public LoraStep {
 public:
  [[nodiscard]] static LoraShape shape_of(const LoraStacks &stacks, const Routing &routing) {
    return LoraInputs::shape_of(stacks, routing);
  }

  /// `stacks` outlives the object. `n_rows`: rows per RowSet.
  PortableLora(const LoraStacks &stacks, LoraShape shape, std::array<int64_t, k_n_row_sets> n_rows)
      : inputs_(stacks, std::move(shape), n_rows) {}

  [[nodiscard]] std::vector<ggml_tensor *> add_linear(
      Graph &g, ggml_tensor *x, std::span<const BaseProduct> products) override;
  [[nodiscard]] ggml_tensor *add_embed(Graph &g, const Weight &table, ggml_tensor *y) override;
  [[nodiscard]] ggml_tensor *add_experts(Graph &g, const Weight &weight, ggml_tensor *x,
                                         ggml_tensor *experts, ggml_tensor *y) override;
  [[nodiscard]] ggml_tensor *add_norm(Graph &g, const Weight &weight, ggml_tensor *unit,
                                      ggml_tensor *y) override;
  [[nodiscard]] size_t max_nodes_per_weight() const override;
  void upload(const Routing &routing, const OutputRows &rows,
              std::span<const int32_t> tokens) override {
    inputs_.upload(routing, rows, tokens);
  }

 private:
  /// Of one weight: the changes of lanes, low-rank vectors low [n_rank, n_lanes, n_rows] already
  /// times the strengths, null where nobody has a product there. `ids`: matrices of the stacks, I32
  /// [n_lanes, n_rows].
  struct Lanes {
    const StackedTarget *target = nullptr;
    ggml_tensor *low = nullptr;
    ggml_tensor *ids = nullptr;
    ggml_tensor *strengths = nullptr;  // F32 [1, n_lanes, n_rows]
  };
  [[nodiscard]] static ggml_tensor *add_changes(ggml_context *c, const Lanes &lanes,
                                                ggml_tensor *y);
  [[nodiscard]] ggml_tensor *add_to_one(Graph &g, const Weight &weight, ggml_tensor *x,
                                        ggml_tensor *y);

  LoraInputs inputs_;
};

}  // namespace patchbay
