#include "arch/decoder.h"

#include "graph/blocks.h"
#include "graph/linear.h"

namespace patchbay {

TensorTable make_tensor_table(const Family &family, const HParams &hparams,
                              DecoderWeights &weights) {
  weights.layers.resize(hparams.n_layer);
  TensorTable table;
  family.tensors(hparams, weights, table);
  return table;
}

DecoderOutputs build_decoder(Graph &g, const Family &family, const DecoderWeights &weights) {
  ggml_tensor *x = embed(g, weights.token_embd);
  if (g.hparams().embd_scale != 1) x = ggml_scale(g.context(), x, g.hparams().embd_scale);
  for (uint32_t il = 0; il < g.hparams().n_layer; ++il) x = family.layer(g, weights, il, x);
  DecoderOutputs outputs{.hidden = rms_norm(g, weights.output_norm, x)};
  if (g.sizes().n_hidden > 0) {
    ggml_set_output(outputs.hidden);
    g.expand(outputs.hidden);
  }
  if (g.sizes().n_logits() == 0) return outputs;
  outputs.logits = linear(g, weights.output, g.keep_logits(outputs.hidden));
  ggml_set_output(outputs.logits);
  g.expand(outputs.logits);
  return outputs;
}

ggml_tensor *residual_after_attention(Graph &g, uint32_t il, ggml_tensor *x,
                                      ggml_tensor *attended) {
  ggml_tensor *sum = ggml_add(g.context(), x, attended);
  return il + 1 == g.hparams().n_layer ? g.keep_outputs(sum) : sum;
}

void record_adaptable(const Family &family, const DecoderWeights &weights, BaseInfo &base) {
  const KvCache shapes(base.hparams, {.n_blocks = 1, .n_blocks_swa = 1}, GGML_TYPE_F16,
                       KvLayout::by_token, KvCache::Memory::shapes_only);
  Graph graph(base.hparams, shapes, {});
  graph.record_into(&base);
  (void)build_decoder(graph, family, weights);
}

}  // namespace patchbay
