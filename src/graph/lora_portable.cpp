#include "graph/lora_portable.h"

#include "graph/graph.h"

namespace patchbay {
namespace {

/// y [n, n_rows] + the sum over lanes of delta [n, n_lanes, n_rows].
ggml_tensor *add_lanes(ggml_context *c, ggml_tensor *y, ggml_tensor *delta) {
  for (int64_t lane = 0; lane < delta->ne[1]; ++lane) {
    ggml_tensor *one = ggml_view_2d(c, delta, delta->ne[0], delta->ne[2], delta->nb[2],
                                    static_cast<size_t>(lane) * delta->nb[1]);
    y = ggml_add(c, y, one);
  }
  return y;
}

}  // namespace

std::vector<ggml_tensor *> PortableLora::add_linear(Graph &g, ggml_tensor *x,
                                                    std::span<const BaseProduct> products) {
  std::vector<ggml_tensor *> outputs = split_products(g.context(), products);
  auto output = outputs.begin();
  for (const auto &product : products) {
    for (const Weight *weight : product.weights) {
      *output = add_to_one(g, *weight, x, *output);
      ++output;
    }
  }
  return outputs;
}

ggml_tensor *PortableLora::add_to_one(Graph &g, const Weight &weight, ggml_tensor *x,
                                      ggml_tensor *y) {
  const StackedTarget *target = inputs_.find(weight.name);
  if (target == nullptr) return y;
  ggml_context *c = g.context();
  ggml_tensor *slots = inputs_.slots(c, *target, g.rows());          // [n_lanes, n_rows]
  ggml_tensor *strengths = inputs_.strengths(c, *target, g.rows());  // [1, n_lanes, n_rows]
  ggml_tensor *shared = ggml_reshape_3d(c, x, x->ne[0], 1, x->ne[1]);
  ggml_tensor *low = ggml_mul_mat_id(c, target->a, shared, slots);  // [n_rank, n_lanes, n_rows]
  low = ggml_mul(c, low, strengths);
  return add_lanes(c, y, ggml_mul_mat_id(c, target->b, low, slots));
}

ggml_tensor *PortableLora::add_embed(Graph &g, const Weight &table, ggml_tensor *y) {
  const StackedTarget *target = inputs_.find(table.name);
  if (target == nullptr) return y;
  ggml_context *c = g.context();
  ggml_tensor *slots = inputs_.slots(c, *target, RowSet::all);
  ggml_tensor *strengths = inputs_.strengths(c, *target, RowSet::all);
  ggml_tensor *low = ggml_get_rows(c, target->a, inputs_.embed_rows(c, *target));
  low = ggml_reshape_3d(c, low, target->n_rank, slots->ne[0], slots->ne[1]);
  low = ggml_mul(c, low, strengths);
  return add_lanes(c, y, ggml_mul_mat_id(c, target->b, low, slots));
}

ggml_tensor *PortableLora::add_experts(Graph &g, const Weight &weight, ggml_tensor *x,
                                       ggml_tensor *experts, ggml_tensor *y) {
  const StackedTarget *target = inputs_.find(weight.name);
  if (target == nullptr) return y;
  ggml_context *c = g.context();
  const int64_t n_lanes = inputs_.n_lanes();
  const int64_t n_used = experts->ne[0];
  const int64_t n_rows = experts->ne[1];
  // Lane outside, expert inside: product i then reads input i % n_used, as each expert's own input
  // requires.
  ggml_tensor *ids = inputs_.expert_slots(c, *target, g.rows(),
                                          weight.tensor->ne[2]);  // [n_lanes, n_expert, n_rows]
  ids = ggml_get_rows(c, ids, experts);                           // [n_lanes, n_used, n_rows]
  ids = ggml_cont(c, ggml_permute(c, ids, 1, 0, 2, 3));
  ids = ggml_reshape_2d(c, ids, n_used * n_lanes, n_rows);

  ggml_tensor *low = ggml_mul_mat_id(c, target->a, x, ids);  // [n_rank, n_used * n_lanes, n_rows]
  low = ggml_reshape_4d(c, low, target->n_rank, n_used, n_lanes, n_rows);
  ggml_tensor *strengths = inputs_.strengths(c, *target, g.rows());
  low = ggml_mul(c, low, ggml_reshape_4d(c, strengths, 1, 1, n_lanes, n_rows));
  low = ggml_reshape_3d(c, low, target->n_rank, n_used * n_lanes, n_rows);
  ggml_tensor *delta =
      ggml_mul_mat_id(c, target->b, low, ids);  // [n_out, n_used * n_lanes, n_rows]

  delta = ggml_reshape_3d(c, delta, delta->ne[0] * n_used, n_lanes, n_rows);
  ggml_tensor *flat = ggml_reshape_2d(c, y, y->ne[0] * n_used, n_rows);
  return ggml_reshape_3d(c, add_lanes(c, flat, delta), y->ne[0], n_used, n_rows);
}

size_t PortableLora::max_nodes_per_weight() const {
  // The sum over the lanes of a mixed set costs two nodes per lane (a view and an addition).
  constexpr size_t k_without_lanes = 12;
  return k_without_lanes + 2 * static_cast<size_t>(inputs_.n_lanes());
}

}  // namespace patchbay
