#include "graph/lora_portable.h"

#include <cmath>

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

/// Rows `ids` [n_lanes, n_rows] of a stack [n, ...]: F32 [n, n_lanes, n_rows].
ggml_tensor *rows_of(ggml_context *c, ggml_tensor *stack, ggml_tensor *ids) {
  ggml_tensor *flat = ggml_reshape_1d(c, ids, ggml_nelements(ids));
  return ggml_reshape_3d(c, ggml_get_rows(c, stack, flat), stack->ne[0], ids->ne[0], ids->ne[1]);
}

/// DoraTerms::gain() of each lane: F32 [n_out, n_lanes, n_rows].
ggml_tensor *gains_of(ggml_context *c, const StackedTarget::Dora &dora, ggml_tensor *ids,
                      ggml_tensor *strengths) {
  constexpr float k_least = 1e-30F;
  ggml_tensor *length2 = ggml_mul(c, rows_of(c, dora.delta, ids), strengths);
  length2 = ggml_mul(c, ggml_add(c, length2, rows_of(c, dora.cross, ids)), strengths);
  length2 = ggml_add(c, length2, rows_of(c, dora.base, ids));
  length2 = ggml_clamp(c, length2, k_least, INFINITY);
  return ggml_div(c, rows_of(c, dora.magnitude, ids), ggml_sqrt(c, length2));
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

ggml_tensor *PortableLora::add_changes(ggml_context *c, const Lanes &lanes, ggml_tensor *y) {
  const auto &[target, low, ids, strengths] = lanes;
  ggml_tensor *delta = low == nullptr ? nullptr : ggml_mul_mat_id(c, target->b, low, ids);
  if (target->dora.magnitude != nullptr) {
    ggml_tensor *gains = gains_of(c, target->dora, ids, strengths);
    delta = ggml_mul(c, delta, gains);
    ggml_tensor *more = ggml_scale_bias(c, gains, 1, -1);
    ggml_tensor *base = ggml_reshape_3d(c, ggml_cont(c, y), y->ne[0], 1, y->ne[1]);
    y = add_lanes(c, y, ggml_mul(c, more, base));
  }
  if (delta != nullptr) y = add_lanes(c, y, delta);
  if (target->bias != nullptr)
    y = add_lanes(c, y, ggml_mul(c, rows_of(c, target->bias, ids), strengths));
  return y;
}

ggml_tensor *PortableLora::add_to_one(Graph &g, const Weight &weight, ggml_tensor *x,
                                      ggml_tensor *y) {
  const StackedTarget *target = inputs_.find(weight.name);
  if (target == nullptr) return y;
  ggml_context *c = g.context();
  Lanes lanes{.target = target,
              .ids = inputs_.slots(c, target->i_slots, g.rows()),
              .strengths = inputs_.strengths(c, target->i_slots, g.rows())};
  if (target->n_rank > 0) {
    ggml_tensor *shared = ggml_reshape_3d(c, x, x->ne[0], 1, x->ne[1]);
    ggml_tensor *low = ggml_mul_mat_id(c, target->a, shared, lanes.ids);
    lanes.low = ggml_mul(c, low, lanes.strengths);
  }
  return add_changes(c, lanes, y);
}

ggml_tensor *PortableLora::add_embed(Graph &g, const Weight &table, ggml_tensor *y) {
  const StackedTarget *target = inputs_.find(table.name);
  if (target == nullptr) return y;
  ggml_context *c = g.context();
  Lanes lanes{.target = target,
              .ids = inputs_.slots(c, target->i_slots, RowSet::all),
              .strengths = inputs_.strengths(c, target->i_slots, RowSet::all)};
  ggml_tensor *low = ggml_get_rows(c, target->a, inputs_.embed_rows(c, *target));
  low = ggml_reshape_3d(c, low, target->n_rank, lanes.ids->ne[0], lanes.ids->ne[1]);
  lanes.low = ggml_mul(c, low, lanes.strengths);
  return add_changes(c, lanes, y);
}

ggml_tensor *PortableLora::add_norm(Graph &g, const Weight &weight, ggml_tensor *unit,
                                    ggml_tensor *y) {
  const StackedNorm *norm = inputs_.find_norm(weight.name);
  if (norm == nullptr) return y;
  ggml_context *c = g.context();
  ggml_tensor *slots = inputs_.slots(c, norm->i_slots, g.rows());
  ggml_tensor *deltas =
      ggml_mul(c, rows_of(c, norm->delta, slots), inputs_.strengths(c, norm->i_slots, g.rows()));
  const int64_t n = unit->ne[0];
  const int64_t n_rows = g.n_rows();
  const int64_t n_heads = ggml_nelements(unit) / (n * n_rows);
  ggml_tensor *heads = ggml_reshape_3d(c, unit, n, n_heads, n_rows);
  ggml_tensor *sum = ggml_reshape_3d(c, y, n, n_heads, n_rows);
  for (int64_t lane = 0; lane < deltas->ne[1]; ++lane) {
    ggml_tensor *one = ggml_view_3d(c, deltas, n, 1, n_rows, deltas->nb[1], deltas->nb[2],
                                    static_cast<size_t>(lane) * deltas->nb[1]);
    sum = ggml_add(c, sum, ggml_mul(c, heads, one));
  }
  return ggml_reshape_4d(c, sum, y->ne[0], y->ne[1], y->ne[2], y->ne[3]);
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
  ggml_tensor *ids = inputs_.expert_slots(c, target->i_slots, g.rows(),
                                          weight.tensor->ne[2]);  // [n_lanes, n_expert, n_rows]
  ids = ggml_get_rows(c, ids, experts);                           // [n_lanes, n_used, n_rows]
  ids = ggml_cont(c, ggml_permute(c, ids, 1, 0, 2, 3));
  ids = ggml_reshape_2d(c, ids, n_used * n_lanes, n_rows);

  ggml_tensor *low = ggml_mul_mat_id(c, target->a, x, ids);  // [n_rank, n_used * n_lanes, n_rows]
  low = ggml_reshape_4d(c, low, target->n_rank, n_used, n_lanes, n_rows);
  ggml_tensor *strengths = inputs_.strengths(c, target->i_slots, g.rows());
  low = ggml_mul(c, low, ggml_reshape_4d(c, strengths, 1, 1, n_lanes, n_rows));
  low = ggml_reshape_3d(c, low, target->n_rank, n_used * n_lanes, n_rows);
  ggml_tensor *delta =
      ggml_mul_mat_id(c, target->b, low, ids);  // [n_out, n_used * n_lanes, n_rows]
  const int64_t n_out = y->ne[0];
  const auto by_lane = [&](ggml_tensor *lanes) {
    return ggml_reshape_3d(c, lanes, n_out * n_used, n_lanes, n_rows);
  };
  ggml_tensor *flat = ggml_reshape_2d(c, y, n_out * n_used, n_rows);
  ggml_tensor *sum = flat;
  if (target->dora.magnitude != nullptr) {
    // Each product's strength is its lane's.
    ggml_tensor *shape = ggml_new_tensor_4d(c, GGML_TYPE_F32, 1, n_used, n_lanes, n_rows);
    ggml_tensor *repeated =
        ggml_repeat(c, ggml_reshape_4d(c, strengths, 1, 1, n_lanes, n_rows), shape);
    repeated = ggml_reshape_3d(c, repeated, 1, n_used * n_lanes, n_rows);
    ggml_tensor *gains = gains_of(c, target->dora, ids, repeated);
    delta = ggml_mul(c, delta, gains);
    ggml_tensor *more = by_lane(ggml_scale_bias(c, gains, 1, -1));
    sum = add_lanes(c, sum, ggml_mul(c, more, ggml_reshape_3d(c, flat, n_out * n_used, 1, n_rows)));
  }
  return ggml_reshape_3d(c, add_lanes(c, sum, by_lane(delta)), n_out, n_used, n_rows);
}

size_t PortableLora::max_nodes_per_weight() const {
  // The sums over the lanes of a mixed set cost two nodes per lane (a view and an addition): those
  // of the products, of what DoRA adds to the base, of biases.
  constexpr size_t k_without_lanes = 48;
  return k_without_lanes + 6 * static_cast<size_t>(inputs_.n_lanes());
}

}  // namespace patchbay
