#include "arch/block_tensors.h"

namespace patchbay {

void attention_tensors(const HParams &hp, const std::string &blk, AttentionWeights &attn,
                       TensorTable &table) {
  table.linear(attn.q, blk + "attn_q", hp.n_embd, hp.n_embd_q());
  table.linear(attn.k, blk + "attn_k", hp.n_embd, hp.n_embd_kv());
  table.linear(attn.v, blk + "attn_v", hp.n_embd, hp.n_embd_kv());
  table.join({&attn.q.weight, &attn.k.weight, &attn.v.weight});
  table.linear(attn.output, blk + "attn_output", hp.n_embd_q(), hp.n_embd);
}

void ffn_tensors(const HParams &hp, const std::string &blk, FfnWeights &ffn, TensorTable &table) {
  table.linear(ffn.gate, blk + "ffn_gate", hp.n_embd, hp.n_ff);
  table.linear(ffn.up, blk + "ffn_up", hp.n_embd, hp.n_ff);
  table.join({&ffn.gate.weight, &ffn.up.weight});
  table.linear(ffn.down, blk + "ffn_down", hp.n_ff, hp.n_embd);
}

}  // namespace patchbay
