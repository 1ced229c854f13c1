#include "graph/linear.h"

#include <algorithm>

#include "graph/rotate.h"

namespace patchbay {
namespace {

using Weights = std::span<const Weight *const>;

/// The tensor whose rows are exactly those of `weights` in their order, or nullptr. Rows of other
/// rotations cannot share a product.
ggml_tensor *joined_rows(Weights weights) {
  const Weight &first = *weights.front();
  if (weights.size() < 2 || first.tensor->view_src == nullptr) return nullptr;
  ggml_tensor *whole = first.tensor->view_src;
  size_t offset = 0;
  for (const Weight *weight : weights) {
    const ggml_tensor &rows = *weight->tensor;
    if (rows.view_src != whole || rows.view_offs != offset || weight->rotation != first.rotation)
      return nullptr;
    offset += static_cast<size_t>(rows.ne[1]) * whole->nb[1];
  }
  return offset == ggml_nbytes(whole) ? whole : nullptr;
}

/// The rows of `tensor`, all of one rotation, times x.
ggml_tensor *ggml_product(Graph &g, ggml_tensor *tensor, const Weight &rotated_like,
                          ggml_tensor *x) {
  return ggml_mul_mat(g.context(), tensor, input_of(g, rotated_like, x));
}

/// The longest beginning of `weights` that one of our products can take: packed for the same input.
Weights packed_together(Weights weights) {
  const Weight &first = *weights.front();
  const auto takes_another_input = [&](const Weight *weight) {
    return weight->packed == nullptr || weight->rotation != first.rotation ||
           layout_of(weight->packed->format).input != layout_of(first.packed->format).input;
  };
  if (first.packed == nullptr) return weights.first(0);
  const auto end = std::ranges::find_if(weights, takes_another_input);
  return weights.first(static_cast<size_t>(end - weights.begin()));
}

BaseProduct packed_product(Graph &g, Weights weights, ggml_tensor *x) {
  std::vector<const PackedWeight *> packed;
  for (const Weight *weight : weights) packed.push_back(weight->packed);
  const auto [y, product] =
      g.products().multiply(g.context(), packed, input_of(g, *weights.front(), x));
  return {weights, y, product};
}

std::vector<BaseProduct> multiply(Graph &g, Weights weights, ggml_tensor *x) {
  if (ggml_tensor *whole = joined_rows(weights))
    return {{weights, ggml_product(g, whole, *weights.front(), x)}};
  std::vector<BaseProduct> products;
  while (!weights.empty()) {
    if (const Weights together = packed_together(weights); !together.empty()) {
      products.push_back(packed_product(g, together, x));
    } else {
      const Weights one = weights.first(1);
      products.push_back({one, ggml_product(g, one[0]->tensor, *one[0], x)});
    }
    weights = weights.subspan(products.back().weights.size());
  }
  return products;
}

std::vector<ggml_tensor *> multiply_and_add(Graph &g, Weights weights, ggml_tensor *x) {
  const int32_t i_input = weights.size() > 1 ? g.new_input() : -1;
  for (const Weight *weight : weights) g.note_use(*weight, UseKind::linear, i_input);
  const auto products = multiply(g, weights, x);
  return g.lora() == nullptr ? split_products(g.context(), products)
                             : g.lora()->add_linear(g, x, products);
}

}  // namespace

ggml_tensor *linear(Graph &g, const Weight &weight, ggml_tensor *x) {
  const Weight *const one = &weight;
  return multiply_and_add(g, Weights(&one, 1), x).front();
}

ggml_tensor *linear(Graph &g, const LinearWeights &layer, ggml_tensor *x) {
  const LinearWeights *const one = &layer;
  return linear_group(g, std::span(&one, 1), x).front();
}

std::vector<ggml_tensor *> linear_group(Graph &g, std::span<const LinearWeights *const> layers,
                                        ggml_tensor *x) {
  std::vector<const Weight *> weights;
  for (const LinearWeights *layer : layers) weights.push_back(&layer->weight);
  auto outputs = multiply_and_add(g, weights, x);
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i]->bias) outputs[i] = ggml_add(g.context(), outputs[i], layers[i]->bias.tensor);
  }
  return outputs;
}

ggml_tensor *embed(Graph &g, const Weight &table) {
  g.note_use(table, UseKind::embed);
  ggml_tensor *stored = ggml_get_rows(g.context(), table.tensor, g.inputs().tokens);
  ggml_tensor *rows = plain_rows(g, table, stored);
  return g.lora() == nullptr ? rows : g.lora()->add_embed(g, table, rows);
}

ggml_tensor *linear_experts(Graph &g, const Weight &weight, ggml_tensor *x, ggml_tensor *experts) {
  g.note_use(weight, UseKind::experts);
  ggml_tensor *input = input_of(g, weight, x);
  ggml_tensor *y = weight.packed == nullptr
                       ? ggml_mul_mat_id(g.context(), weight.tensor, input, experts)
                       : g.products().multiply_experts(g.context(), *weight.packed, input, experts);
  return g.lora() == nullptr ? y : g.lora()->add_experts(g, weight, x, experts, y);
}

}  // namespace patchbay
