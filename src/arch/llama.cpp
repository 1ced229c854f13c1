#include <fmt/format.h>

#include "arch/block_tensors.h"
#include "arch/decoder.h"
#include "arch/metadata.h"
#include "graph/blocks.h"
#include "graph/linear.h"
#include "model/hf_families.h"

namespace patchbay {
namespace {

HParams hparams(const GgufFile &file) {
  const ArchMetadata metadata(file, k_llama.name);
  HParams hp = read_common_hparams(metadata);
  constexpr uint32_t k_max_experts = 1024;
  if (file.get_u64("llama.expert_count").value_or(0) > 0) {
    hp.n_expert = metadata.count("expert_count", k_max_experts);
    hp.n_expert_used = metadata.count("expert_used_count", hp.n_expert);
  }
  return hp;
}

void tensors(const HParams &hp, DecoderWeights &w, TensorTable &t) {
  t.table(w.token_embd, "token_embd.weight", hp.n_embd, hp.n_vocab);
  t.vector(w.output_norm, "output_norm.weight", hp.n_embd);
  t.head(w.output, w.token_embd, hp.n_embd, hp.n_vocab);
  t.vector(w.rope_freqs, "rope_freqs.weight", hp.n_rot / 2, /*required=*/false);
  for (uint32_t il = 0; il < hp.n_layer; ++il) {
    const std::string blk = fmt::format("blk.{}.", il);
    DecoderLayer &layer = w.layers[il];
    t.vector(layer.attn_norm, blk + "attn_norm.weight", hp.n_embd);
    attention_tensors(hp, blk, layer.attn, t);
    t.vector(layer.ffn_norm, blk + "ffn_norm.weight", hp.n_embd);
    if (hp.n_expert == 0) {
      ffn_tensors(hp, blk, layer.ffn, t);
    } else {
      t.linear(layer.moe.router, blk + "ffn_gate_inp", hp.n_embd, hp.n_expert);
      t.experts(layer.moe.gate, blk + "ffn_gate_exps.weight", hp.n_embd, hp.n_ff, hp.n_expert);
      t.experts(layer.moe.up, blk + "ffn_up_exps.weight", hp.n_embd, hp.n_ff, hp.n_expert);
      t.experts(layer.moe.down, blk + "ffn_down_exps.weight", hp.n_ff, hp.n_embd, hp.n_expert);
    }
  }
}

ggml_tensor *layer(Graph &g, const DecoderWeights &weights, uint32_t il, ggml_tensor *x) {
  const DecoderLayer &w = weights.layers[il];
  ggml_tensor *attended = attention(g, w.attn, rms_norm(g, w.attn_norm, x),
                                    {.il = il, .rope_freqs = &weights.rope_freqs});
  x = residual_after_attention(g, il, x, attended);
  ggml_tensor *normed = rms_norm(g, w.ffn_norm, x);
  ggml_tensor *fed = w.moe.router.weight ? moe(g, w.moe, normed, Activation::silu)
                                         : ffn(g, w.ffn, normed, Activation::silu);
  return ggml_add(g.context(), x, fed);
}

}  // namespace

/// Llama 2 and 3, Mistral, SmolLM2; Mixtral with experts. q and k rows are stored for the
/// interleaved rotary layout.
const Family k_llama{.name = "llama",
                     .hparams = hparams,
                     .tensors = tensors,
                     .layer = layer,
                     .hf_names = &k_hf_llama};

}  // namespace patchbay
