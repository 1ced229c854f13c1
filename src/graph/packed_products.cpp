#include "graph/packed_products.h"

#include <algorithm>
#include <array>

namespace patchbay {
namespace {

/// Strips that a thread takes at least: below this much of a weight, taking costs more than
/// waiting.
constexpr int64_t k_min_bytes = 16 << 10;

int64_t least_strips(const PackedWeight &weight) {
  constexpr int64_t k_tiles = k_strip_rows / k_product_tile;
  return std::max<int64_t>(1, k_min_bytes / (k_tiles * tile_bytes(weight.format, weight.n_in)));
}

/// ggml takes data of operations as it is, without const.
void *data_of(InputForm form) {
  static auto forms = [] {
    std::array<InputForm, k_n_input_forms> all{};
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<InputForm>(i);
    return all;
  }();
  return &forms[static_cast<size_t>(form)];
}

ggml_tensor *new_panels(ggml_context *context, std::span<ggml_tensor *> sources, InputForm form,
                        int64_t n_in, int64_t n_tokens, ggml_custom_op_t op) {
  return ggml_custom_4d(context, GGML_TYPE_I8, panel_token_bytes(form, n_in), n_tokens, 1, 1,
                        sources.data(), static_cast<int>(sources.size()), op, GGML_N_TASKS_MAX,
                        data_of(form));
}

}  // namespace

ggml_tensor *PackedProducts::panels_of(ggml_context *context, ggml_tensor *x, InputForm form) {
  ggml_tensor *&panels = panels_[{x, nullptr, form}];
  if (panels != nullptr) return panels;
  std::array sources{x};
  panels = new_panels(context, sources, form, x->ne[0], x->ne[1], quantise_input);
  return panels;
}

PackedProducts::Node PackedProducts::multiply(ggml_context *context,
                                              std::span<const PackedWeight *const> weights,
                                              ggml_tensor *x) {
  std::vector<PackedProduct::Part> parts;
  int64_t n_out = 0;
  for (const PackedWeight *weight : weights) {
    parts.push_back({weight, n_out});
    n_out += weight->n_out;
  }
  const PackedWeight &first = *weights.front();
  const InputForm form = layout_of(first.format).input;
  PackedProduct &product = products_.emplace_back(std::move(parts), least_strips(first));
  const bool is_lone = x->ne[1] == 1 && panel_token_bytes(form, x->ne[0]) <= k_lone_row_bytes;
  std::array sources{is_lone ? x : panels_of(context, x, form)};
  ggml_tensor *y =
      ggml_custom_4d(context, GGML_TYPE_F32, n_out, x->ne[1], 1, 1, sources.data(),
                     static_cast<int>(sources.size()),
                     is_lone ? multiply_packed_row : multiply_packed, GGML_N_TASKS_MAX, &product);
  return {y, &product};
}

void PackedProducts::finish_with(const Node &node, ggml_tensor *source,
                                 const PackedProduct::Finish &finish) {
  node.y->src[1] = source;
  node.product->finish = finish;
}

ggml_tensor *PackedProducts::order_of(ggml_context *context, ggml_tensor *experts,
                                      int64_t n_expert) {
  ggml_tensor *&order = orders_[experts];
  if (order != nullptr) return order;
  std::array sources{experts};
  order = ggml_custom_4d(
      context, GGML_TYPE_I32, expert_order_size(n_expert, ggml_nelements(experts)), 1, 1, 1,
      sources.data(), static_cast<int>(sources.size()), sort_by_expert, GGML_N_TASKS_MAX, nullptr);
  return order;
}

ggml_tensor *PackedProducts::panels_of_experts(ggml_context *context, ggml_tensor *x,
                                               ggml_tensor *order, InputForm form) {
  ggml_tensor *&panels = panels_[{x, order, form}];
  if (panels != nullptr) return panels;
  const int64_t n_pairs = ggml_nelements(order->src[0]);
  std::array sources{x, order};
  panels = new_panels(context, sources, form, x->ne[0], n_pairs, quantise_experts_input);
  return panels;
}

ggml_tensor *PackedProducts::multiply_experts(ggml_context *context, const PackedWeight &weight,
                                              ggml_tensor *x, ggml_tensor *experts) {
  ggml_tensor *order = order_of(context, experts, weight.n_expert);
  const InputForm form = layout_of(weight.format).input;
  PackedProduct &product =
      products_.emplace_back(std::vector<PackedProduct::Part>{{&weight, 0}}, least_strips(weight));
  std::array sources{panels_of_experts(context, x, order, form), order};
  return ggml_custom_4d(context, GGML_TYPE_F32, weight.n_out, experts->ne[0], experts->ne[1], 1,
                        sources.data(), static_cast<int>(sources.size()), multiply_packed_experts,
                        GGML_N_TASKS_MAX, &product);
}

}  // namespace patchbay
