#include "graph/linear.h"

#include "graph/lora_portable.h"
#include "graph/rotate.h"

namespace patchbay {

ggml_tensor *linear(Graph &g, const Weight &weight, ggml_tensor *x) {
  g.note_use(weight, UseKind::linear);
  ggml_tensor *y = ggml_mul_mat(g.context(), weight.tensor, input_of(g, weight, x));
  return g.lora() == nullptr ? y : add_lora_linear(g, weight, x, y);
}

ggml_tensor *linear(Graph &g, const LinearWeights &layer, ggml_tensor *x) {
  ggml_tensor *y = linear(g, layer.weight, x);
  return layer.bias ? ggml_add(g.context(), y, layer.bias.tensor) : y;
}

ggml_tensor *embed(Graph &g, const Weight &table) {
  g.note_use(table, UseKind::embed);
  ggml_tensor *stored = ggml_get_rows(g.context(), table.tensor, g.inputs().tokens);
  ggml_tensor *rows = plain_rows(g, table, stored);
  return g.lora() == nullptr ? rows : add_lora_embed(g, table, rows);
}

ggml_tensor *linear_experts(Graph &g, const Weight &weight, ggml_tensor *x, ggml_tensor *experts) {
  g.note_use(weight, UseKind::experts);
  ggml_tensor *y = ggml_mul_mat_id(g.context(), weight.tensor, input_of(g, weight, x), experts);
  return g.lora() == nullptr ? y : add_lora_experts(g, weight, x, experts, y);
}

}  // namespace patchbay
