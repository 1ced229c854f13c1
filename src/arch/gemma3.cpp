#include <fmt/format.h>

#include <cmath>

#include "arch/block_tensors.h"
#include "arch/decoder.h"
#include "arch/metadata.h"
#include "graph/blocks.h"
#include "graph/linear.h"
#include "model/hf_families.h"

namespace patchbay {
namespace {

// Constants of the family that its GGUF files do not carry (Gemma 3 technical report, arXiv
// 2503.19786, section 2).
constexpr uint32_t k_global_every = 6;
constexpr float k_local_freq_base = 10000;
constexpr uint32_t k_n_layer_27b = 62;

HParams hparams(const GgufFile &file) {
  const ArchMetadata metadata(file, k_gemma3.name);
  HParams hp = read_common_hparams(metadata);
  hp.embd_scale = std::sqrt(static_cast<float>(hp.n_embd));
  // The 27B model alone scales queries by the width per head of the residual stream.
  if (hp.n_layer == k_n_layer_27b) {
    hp.attn_scale = std::sqrt(static_cast<float>(hp.n_head) / static_cast<float>(hp.n_embd));
  }
  hp.rope.neox = true;
  hp.rope_swa = {.neox = true, .freq_base = k_local_freq_base, .n_ctx_orig = hp.n_ctx_train};
  hp.n_swa = metadata.count("attention.sliding_window", hp.n_ctx_train);
  for (uint32_t il = 0; il < hp.n_layer; ++il) hp.swa.push_back((il + 1) % k_global_every != 0);
  return hp;
}

void tensors(const HParams &hp, DecoderWeights &w, TensorTable &t) {
  t.table(w.token_embd, "token_embd.weight", hp.n_embd, hp.n_vocab);
  t.vector(w.output_norm, "output_norm.weight", hp.n_embd);
  t.head(w.output, w.token_embd, hp.n_embd, hp.n_vocab);
  for (uint32_t il = 0; il < hp.n_layer; ++il) {
    const std::string blk = fmt::format("blk.{}.", il);
    DecoderLayer &layer = w.layers[il];
    t.vector(layer.attn_norm, blk + "attn_norm.weight", hp.n_embd);
    attention_tensors(hp, blk, layer.attn, t);
    t.vector(layer.attn.q_norm, blk + "attn_q_norm.weight", hp.n_embd_head);
    t.vector(layer.attn.k_norm, blk + "attn_k_norm.weight", hp.n_embd_head);
    t.vector(layer.post_attn_norm, blk + "post_attention_norm.weight", hp.n_embd);
    t.vector(layer.ffn_norm, blk + "ffn_norm.weight", hp.n_embd);
    ffn_tensors(hp, blk, layer.ffn, t);
    t.vector(layer.post_ffn_norm, blk + "post_ffw_norm.weight", hp.n_embd);
  }
}

ggml_tensor *layer(Graph &g, const DecoderWeights &weights, uint32_t il, ggml_tensor *x) {
  const DecoderLayer &w = weights.layers[il];
  ggml_tensor *attended = attention(g, w.attn, rms_norm(g, w.attn_norm, x), {.il = il});
  x = residual_after_attention(g, il, x, rms_norm(g, w.post_attn_norm, attended));
  ggml_tensor *fed = ffn(g, w.ffn, rms_norm(g, w.ffn_norm, x), Activation::gelu);
  return ggml_add(g.context(), x, rms_norm(g, w.post_ffn_norm, fed));
}

}  // namespace

/// Gemma 3, text: five sliding-window layers to each global one, norms before and after each block,
/// q/k norms, scaled embeddings, tied head.
const Family k_gemma3{.name = "gemma3",
                      .hparams = hparams,
                      .tensors = tensors,
                      .layer = layer,
                      .hf_names = &k_hf_gemma3};

}  // namespace patchbay
