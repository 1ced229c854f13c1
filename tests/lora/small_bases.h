#pragma once

#include <cstdint>
#include <string>

#include "model/base_info.h"

namespace patchbay {

// Two layers, n_embd 8, two query heads and one key head of 4, vocabulary 10, n_ff 12.

inline void add_linear(BaseInfo &base, const std::string &name, int64_t n_in, int64_t n_out) {
  base.uses.push_back({.name = name + ".weight", .kind = UseKind::linear, .ne = {n_in, n_out, 1}});
}

inline void add_attention(BaseInfo &base, const std::string &layer) {
  add_linear(base, layer + "attn_q", 8, 8);
  add_linear(base, layer + "attn_k", 8, 4);
  add_linear(base, layer + "attn_v", 8, 4);
  add_linear(base, layer + "attn_output", 8, 8);
}

// Tables such as the families have: names of one rotated family, with all spellings of its experts,
// and of one whose rows are as they were.

inline constexpr NameRow k_rotary_rows[] = {
    {"embed_tokens", "token_embd.weight"},
    {"lm_head", "output.weight"},
    {"layers.#.self_attn.q_proj", "blk.#.attn_q.weight", RowPlan::rotary_q},
    {"layers.#.self_attn.k_proj", "blk.#.attn_k.weight", RowPlan::rotary_kv},
    {"layers.#.self_attn.v_proj", "blk.#.attn_v.weight"},
    {"layers.#.self_attn.o_proj", "blk.#.attn_output.weight"},
    {"layers.#.mlp.gate_proj", "blk.#.ffn_gate.weight"},
    {"layers.#.mlp.up_proj", "blk.#.ffn_up.weight"},
    {"layers.#.mlp.down_proj", "blk.#.ffn_down.weight"},
    {"layers.#.mlp.gate", "blk.#.ffn_gate_inp.weight"},
    {"layers.#.block_sparse_moe.gate", "blk.#.ffn_gate_inp.weight"},
    {"layers.#.block_sparse_moe.experts.@.w1", "blk.#.ffn_gate_exps.weight"},
    {"layers.#.block_sparse_moe.experts.@.w2", "blk.#.ffn_down_exps.weight"},
    {"layers.#.block_sparse_moe.experts.@.w3", "blk.#.ffn_up_exps.weight"},
    {"layers.#.mlp.experts.@.gate_proj", "blk.#.ffn_gate_exps.weight"},
    {"layers.#.mlp.experts.@.up_proj", "blk.#.ffn_up_exps.weight"},
    {"layers.#.mlp.experts.@.down_proj", "blk.#.ffn_down_exps.weight"},
};

inline constexpr FusedRow k_fused_rows[] = {
    {"layers.#.mlp.experts", "gate_up_proj", "blk.#.ffn_gate_exps.weight",
     "blk.#.ffn_up_exps.weight"},
    {"layers.#.mlp.experts", "down_proj", "blk.#.ffn_down_exps.weight", ""},
};

inline constexpr VectorRow k_norm_rows[] = {
    {"norm.weight", "output_norm.weight"},
    {"layers.#.input_layernorm.weight", "blk.#.attn_norm.weight"},
};

inline constexpr VectorRow k_plus_one_rows[] = {
    {"norm.weight", "output_norm.weight", true},
    {"layers.#.input_layernorm.weight", "blk.#.attn_norm.weight", true},
};

inline constexpr NameRow k_plain_rows[] = {
    {"layers.#.self_attn.q_proj", "blk.#.attn_q.weight"},
    {"layers.#.self_attn.k_proj", "blk.#.attn_k.weight"},
    {"layers.#.self_attn.v_proj", "blk.#.attn_v.weight"},
    {"layers.#.self_attn.o_proj", "blk.#.attn_output.weight"},
    {"layers.#.mlp.gate_proj", "blk.#.ffn_gate.weight"},
    {"layers.#.mlp.up_proj", "blk.#.ffn_up.weight"},
    {"layers.#.mlp.down_proj", "blk.#.ffn_down.weight"},
};

/// Null for any other architecture.
inline const HfNames *small_names(const std::string &arch) {
  static constexpr HfNames k_rotary{
      .rows = k_rotary_rows, .fused = k_fused_rows, .vectors = k_norm_rows};
  static constexpr HfNames k_plain{.rows = k_plain_rows, .fused = {}, .vectors = k_plus_one_rows};
  if (arch == "llama") return &k_rotary;
  return arch == "gemma3" ? &k_plain : nullptr;
}

inline BaseInfo base_without_ffn(const std::string &arch) {
  BaseInfo base;
  base.arch = arch;
  base.name = "Tiny 8m";
  base.hf_names = small_names(arch);
  base.hparams.n_vocab = 10;
  base.hparams.n_embd = 8;
  base.hparams.n_layer = 2;
  base.hparams.n_head = 2;
  base.hparams.n_head_kv = 1;
  base.hparams.n_embd_head = 4;
  base.uses.push_back({.name = "token_embd.weight", .kind = UseKind::embed, .ne = {8, 10, 1}});
  add_linear(base, "output", 8, 10);
  base.norms = {{.name = "output_norm.weight", .n = 8},
                {.name = "blk.0.attn_norm.weight", .n = 8},
                {.name = "blk.1.attn_norm.weight", .n = 8}};
  return base;
}

inline std::string layer_prefix(int il) { return "blk." + std::to_string(il) + "."; }

inline BaseInfo dense_base(const std::string &arch = "llama", bool tied_head = false) {
  BaseInfo base = base_without_ffn(arch);
  base.tied_head = tied_head;
  base.hparams.n_ff = 12;
  for (int il = 0; il < 2; ++il) {
    add_attention(base, layer_prefix(il));
    add_linear(base, layer_prefix(il) + "ffn_gate", 8, 12);
    add_linear(base, layer_prefix(il) + "ffn_up", 8, 12);
    add_linear(base, layer_prefix(il) + "ffn_down", 12, 8);
  }
  return base;
}

/// Three experts. With n_ff = 4 the fused gate and up weight of an expert is square.
inline BaseInfo expert_base(int64_t n_ff = 12) {
  BaseInfo base = base_without_ffn("llama");
  base.hparams.n_ff = static_cast<uint32_t>(n_ff);
  base.hparams.n_expert = 3;
  base.hparams.n_expert_used = 2;
  for (int il = 0; il < 2; ++il) {
    const auto layer = layer_prefix(il);
    const auto add_experts = [&](const char *name, int64_t n_in, int64_t n_out) {
      base.uses.push_back({.name = layer + name, .kind = UseKind::experts, .ne = {n_in, n_out, 3}});
    };
    add_attention(base, layer);
    add_linear(base, layer + "ffn_gate_inp", 8, 3);
    add_experts("ffn_gate_exps.weight", 8, n_ff);
    add_experts("ffn_up_exps.weight", 8, n_ff);
    add_experts("ffn_down_exps.weight", n_ff, 8);
  }
  return base;
}

}  // namespace patchbay
