#include "graph/graph.h"

#include <algorithm>

namespace patchbay {
namespace {

/// An upper bound of the nodes of a step: what a layer's blocks need, plus the transforms of its at
/// most five inputs where weights are folded, plus their quantising for our own products, plus the
/// LoRA steps of its at most nine weights and six norms.
size_t max_nodes(const HParams &hparams, const LoraStep *lora) {
  constexpr size_t k_per_layer = 96;
  constexpr size_t k_inputs = 5;
  constexpr size_t k_per_rotation = 9;
  constexpr size_t k_per_input_form = 4;  // one per form, and the order of experts
  constexpr size_t k_lora_weights = 15;
  const size_t per_lora = lora == nullptr ? 0 : lora->max_nodes_per_weight();
  const size_t per_expert_sum = 2 * static_cast<size_t>(hparams.n_expert_used);
  return (hparams.n_layer + 2) * (k_per_layer + k_inputs * (k_per_rotation + k_per_input_form) +
                                  per_expert_sum + k_lora_weights * per_lora);
}

}  // namespace

Graph::Graph(const HParams &hparams, const KvCache &kv, GraphSizes sizes,
             std::unique_ptr<LoraStep> lora)
    : hparams_(hparams), kv_(kv), sizes_(sizes), lora_(std::move(lora)) {
  const size_t n_nodes = max_nodes(hparams_, lora_.get());
  const size_t n_bytes =
      2 * n_nodes * ggml_tensor_overhead() + ggml_graph_overhead_custom(n_nodes, false);
  memory_ = std::make_unique_for_overwrite<std::byte[]>(n_bytes);
  context_.reset(ggml_init({.mem_size = n_bytes, .mem_buffer = memory_.get(), .no_alloc = true}));
  cgraph_ = ggml_new_graph_custom(context_.get(), n_nodes, false);
  make_inputs();
}

void Graph::make_inputs() {
  inputs_.tokens = make_input(GGML_TYPE_I32, sizes_.n_tokens);
  inputs_.positions = make_input(GGML_TYPE_I32, sizes_.n_tokens);
  if (!sizes_.is_all_in_order()) inputs_.output_rows = make_input(GGML_TYPE_I32, sizes_.n_outputs);
  inputs_.full = make_cell_inputs(sizes_.n_kv, 0);
  if (hparams_.n_swa > 0) inputs_.window = make_cell_inputs(sizes_.n_kv_swa, hparams_.n_swa);
}

ggml_tensor *Graph::make_input(ggml_type type, int64_t ne0, int64_t ne1) {
  ggml_tensor *tensor = ggml_new_tensor_2d(context(), type, ne0, ne1);
  ggml_set_input(tensor);
  return tensor;
}

CellInputs Graph::make_cell_inputs(int64_t n_kv, uint32_t n_swa) {
  const bool is_paged = sizes_.n_kv == 0;
  const int64_t n_rows = is_paged ? hparams_.n_head_kv * sizes_.n_tokens : sizes_.n_tokens;
  CellInputs inputs{.cells = make_input(GGML_TYPE_I64, n_rows)};
  if (is_paged) {
    inputs.paged = std::make_unique<PagedAttention>(hparams_, n_swa, kv_.block_size());
  } else {
    inputs.mask = make_input(GGML_TYPE_F16, n_kv, sizes_.n_tokens);
  }
  return inputs;
}

ggml_tensor *Graph::keep_outputs(ggml_tensor *x) {
  if (inputs_.output_rows == nullptr) return x;
  rows_ = RowSet::outputs;
  return ggml_get_rows(context(), x, inputs_.output_rows);
}

ggml_tensor *Graph::keep_logits(ggml_tensor *x) {
  if (sizes_.n_hidden == 0) return x;
  rows_ = RowSet::logits;
  return ggml_view_2d(context(), x, x->ne[0], sizes_.n_logits(), x->nb[1], 0);
}

void Graph::note_use(const Weight &weight, UseKind kind, int32_t i_input) {
  if (recorded_ == nullptr) return;
  const int64_t *ne = weight.tensor->ne;
  recorded_->uses.push_back(
      {.name = weight.name, .kind = kind, .ne = {ne[0], ne[1], ne[2]}, .i_input = i_input});
}

void Graph::note_norm(const Weight &weight) {
  if (recorded_ != nullptr)
    recorded_->norms.push_back({.name = weight.name, .n = weight.tensor->ne[0]});
}

void Graph::note_kv(const Weight &k, const Weight &v) {
  if (recorded_ == nullptr) return;
  auto &uses = recorded_->uses;
  const auto is_k = [&](const AdaptableUse &use) { return use.name == k.name; };
  // The queries' weight reads the same input and is not what goes into the cache.
  const int32_t i_input = std::ranges::find_if(uses, is_k)->i_input;
  for (auto &use : uses) {
    if (use.i_input != i_input || use.name == k.name || use.name == v.name) use.feeds_kv = true;
  }
  for (auto &norm : recorded_->norms) norm.feeds_kv = true;
}

}  // namespace patchbay
