#pragma once

#include <array>
#include <deque>
#include <memory>

#include "graph/lora_fused_ops.h"
#include "graph/lora_step.h"
#include "lora/lora_pool.h"

namespace patchbay {

/// The low-rank step for the CPU: per input that some worn adapter reads, one node computes the
/// low-rank vectors of all rows, and one node per base product adds their expansion to it in place,
/// or the product does so itself. One node per norm that some worn adapter changes.
/// Who wears what is data that the nodes look up while they run, so the graph knows neither how
/// many adapters there are nor which. A row's result does not depend on what else is in the step.
class FusedLora final : public LoraStep {
 public:
  [[nodiscard]] static LoraShape shape_of(const LoraPool &pool, const Routing &routing);

  /// `pool`, of the packed form, outlives the object, which lets it hold gains of DoRA.
  FusedLora(LoraPool &pool, LoraShape shape);

  [[nodiscard]] std::vector<ggml_tensor *> add_linear(
      Graph &g, ggml_tensor *x, std::span<const BaseProduct> products) override;
  [[nodiscard]] ggml_tensor *add_embed(Graph &g, const Weight &table, ggml_tensor *y) override;
  [[nodiscard]] ggml_tensor *add_experts(Graph &g, const Weight &weight, ggml_tensor *x,
                                         ggml_tensor *experts, ggml_tensor *y) override;
  [[nodiscard]] ggml_tensor *add_norm(Graph &g, const Weight &weight, ggml_tensor *unit,
                                      ggml_tensor *y) override;
  [[nodiscard]] size_t max_nodes_per_weight() const override { return 4; }
  void upload(const Routing &routing, const OutputRows &rows,
              std::span<const int32_t> tokens) override;

 private:
  [[nodiscard]] bool is_worn(const Weight &weight) const;
  /// The data of the nodes for one input; lives as long as the graph.
  [[nodiscard]] const LoraInput &new_input(RowSet rows, std::vector<size_t> uses);
  [[nodiscard]] LoraOutput &new_output(const LoraInput &input);
  [[nodiscard]] ggml_tensor *new_low(Graph &g, std::span<ggml_tensor *const> sources,
                                     int64_t n_used, int64_t n_rows, ggml_custom_op_t op,
                                     const LoraInput &input) const;

  LoraPool &pool_;
  LoraShape shape_;
  std::array<LoraMix, k_n_row_sets> mixes_;  // by RowSet
  std::deque<LoraInput> inputs_;
  std::deque<LoraOutput> outputs_;
  std::deque<LoraNorm> norms_;
};

}  // namespace patchbay
