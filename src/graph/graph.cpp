#include "graph/graph.h"

namespace patchbay {
namespace {

/// An upper bound of the nodes of a step: what a layer's blocks need, plus the transforms of its at
/// most five inputs where weights are folded, plus the LoRA steps of its at most nine weights.
size_t max_nodes(const HParams &hparams, const LoraStep *lora) {
  constexpr size_t k_per_layer = 96;
  constexpr size_t k_rotated_inputs = 5;
  constexpr size_t k_per_rotation = 9;
  constexpr size_t k_lora_weights = 9;
  const size_t per_lora = lora == nullptr ? 0 : lora->max_nodes_per_weight();
  const size_t per_expert_sum = 2 * static_cast<size_t>(hparams.n_expert_used);
  return (hparams.n_layer + 2) * (k_per_layer + k_rotated_inputs * k_per_rotation + per_expert_sum +
                                  k_lora_weights * per_lora);
}

}  // namespace

Graph::Graph(const HParams &hparams, const KvCache &kv, GraphSizes sizes,
             std::unique_ptr<LoraStep> lora)
    : hparams_(hparams), kv_(kv), sizes_(sizes), lora_(std::move(lora)) {
  const size_t n_nodes = max_nodes(hparams_, lora_.get());
  context_.reset(ggml_init({.mem_size = 2 * n_nodes * ggml_tensor_overhead() +
                                        ggml_graph_overhead_custom(n_nodes, false),
                            .mem_buffer = nullptr,
                            .no_alloc = true}));
  cgraph_ = ggml_new_graph_custom(context_.get(), n_nodes, false);
  make_inputs();
}

void Graph::make_inputs() {
  const auto input = [this](ggml_type type, int64_t ne0, int64_t ne1 = 1) {
    ggml_tensor *tensor = ggml_new_tensor_2d(context(), type, ne0, ne1);
    ggml_set_input(tensor);
    return tensor;
  };
  inputs_.tokens = input(GGML_TYPE_I32, sizes_.n_tokens);
  inputs_.positions = input(GGML_TYPE_I32, sizes_.n_tokens);
  inputs_.full = {.cells = input(GGML_TYPE_I64, sizes_.n_tokens),
                  .mask = input(GGML_TYPE_F16, sizes_.n_kv, sizes_.n_tokens)};
  if (hparams_.n_swa > 0) {
    inputs_.window = {.cells = input(GGML_TYPE_I64, sizes_.n_tokens),
                      .mask = input(GGML_TYPE_F16, sizes_.n_kv_swa, sizes_.n_tokens)};
  }
  if (sizes_.n_outputs < sizes_.n_tokens)
    inputs_.output_rows = input(GGML_TYPE_I32, sizes_.n_outputs);
}

ggml_tensor *Graph::keep_outputs(ggml_tensor *x) {
  if (inputs_.output_rows == nullptr) return x;
  rows_ = RowSet::outputs;
  return ggml_get_rows(context(), x, inputs_.output_rows);
}

void Graph::note_use(const Weight &weight, UseKind kind, int32_t i_input) {
  if (uses_ == nullptr) return;
  const int64_t *ne = weight.tensor->ne;
  uses_->push_back(
      {.name = weight.name, .kind = kind, .ne = {ne[0], ne[1], ne[2]}, .i_input = i_input});
}

}  // namespace patchbay
