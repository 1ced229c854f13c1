#include "model/hf_families.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace patchbay {
namespace {

/// Tables are put together from the parts that families share.
template <class Row, size_t... n>
constexpr auto joined(const Row (&...parts)[n]) {
  std::array<Row, (n + ...)> all{};
  size_t i = 0;
  const auto append = [&](const auto &part) {
    for (const Row &row : part) all[i++] = row;
  };
  (append(parts), ...);
  return all;
}

constexpr NameRow k_tables[] = {
    {"embed_tokens", "token_embd.weight"},
    {"lm_head", "output.weight"},
};

constexpr NameRow k_attention[] = {
    {"layers.#.self_attn.q_proj", "blk.#.attn_q.weight"},
    {"layers.#.self_attn.k_proj", "blk.#.attn_k.weight"},
    {"layers.#.self_attn.v_proj", "blk.#.attn_v.weight"},
    {"layers.#.self_attn.o_proj", "blk.#.attn_output.weight"},
};

/// Files of these families hold q and k for ggml's interleaved rotary mode.
constexpr NameRow k_rotary_attention[] = {
    {"layers.#.self_attn.q_proj", "blk.#.attn_q.weight", RowPlan::rotary_q},
    {"layers.#.self_attn.k_proj", "blk.#.attn_k.weight", RowPlan::rotary_kv},
    {"layers.#.self_attn.v_proj", "blk.#.attn_v.weight"},
    {"layers.#.self_attn.o_proj", "blk.#.attn_output.weight"},
};

constexpr NameRow k_mlp[] = {
    {"layers.#.mlp.gate_proj", "blk.#.ffn_gate.weight"},
    {"layers.#.mlp.up_proj", "blk.#.ffn_up.weight"},
    {"layers.#.mlp.down_proj", "blk.#.ffn_down.weight"},
};

// Experts: transformers 5 has one parameter for all of them, transformers 4 one module for each.

constexpr NameRow k_experts[] = {
    {"layers.#.mlp.gate", "blk.#.ffn_gate_inp.weight"},
    {"layers.#.mlp.experts.@.gate_proj", "blk.#.ffn_gate_exps.weight"},
    {"layers.#.mlp.experts.@.up_proj", "blk.#.ffn_up_exps.weight"},
    {"layers.#.mlp.experts.@.down_proj", "blk.#.ffn_down_exps.weight"},
};

constexpr FusedRow k_fused_experts[] = {
    {"layers.#.mlp.experts", "gate_up_proj", "blk.#.ffn_gate_exps.weight",
     "blk.#.ffn_up_exps.weight"},
    {"layers.#.mlp.experts", "down_proj", "blk.#.ffn_down_exps.weight", ""},
};

constexpr NameRow k_mixtral_experts[] = {
    {"layers.#.block_sparse_moe.gate", "blk.#.ffn_gate_inp.weight"},
    {"layers.#.block_sparse_moe.experts.@.w1", "blk.#.ffn_gate_exps.weight"},
    {"layers.#.block_sparse_moe.experts.@.w3", "blk.#.ffn_up_exps.weight"},
    {"layers.#.block_sparse_moe.experts.@.w2", "blk.#.ffn_down_exps.weight"},
};

constexpr NameRow k_qwen2_shared_expert[] = {
    {"layers.#.mlp.shared_expert.gate_proj", "blk.#.ffn_gate_shexp.weight"},
    {"layers.#.mlp.shared_expert.up_proj", "blk.#.ffn_up_shexp.weight"},
    {"layers.#.mlp.shared_expert.down_proj", "blk.#.ffn_down_shexp.weight"},
    {"layers.#.mlp.shared_expert_gate", "blk.#.ffn_gate_inp_shexp.weight"},
};

constexpr NameRow k_granite_experts[] = {
    {"layers.#.block_sparse_moe.router", "blk.#.ffn_gate_inp.weight"},
    {"layers.#.block_sparse_moe.router.layer", "blk.#.ffn_gate_inp.weight"},
    {"layers.#.shared_mlp.output_linear", "blk.#.ffn_down_shexp.weight"},
    // Models without experts.
    {"layers.#.shared_mlp.output_linear", "blk.#.ffn_down.weight"},
};

constexpr FusedRow k_granite_fused_experts[] = {
    {"layers.#.block_sparse_moe.experts", "gate_up_proj", "blk.#.ffn_gate_exps.weight",
     "blk.#.ffn_up_exps.weight"},
    {"layers.#.block_sparse_moe.experts", "down_proj", "blk.#.ffn_down_exps.weight", ""},
    {"layers.#.block_sparse_moe.input_linear", "weight", "blk.#.ffn_gate_exps.weight",
     "blk.#.ffn_up_exps.weight"},
    {"layers.#.block_sparse_moe.output_linear", "weight", "blk.#.ffn_down_exps.weight", ""},
};

constexpr SplitRow k_granite_splits[] = {
    {"layers.#.shared_mlp.input_linear", "blk.#.ffn_gate_shexp.weight",
     "blk.#.ffn_up_shexp.weight"},
    {"layers.#.shared_mlp.input_linear", "blk.#.ffn_gate.weight", "blk.#.ffn_up.weight"},
};

constexpr NameRow k_phi3_blocks[] = {
    {"layers.#.self_attn.qkv_proj", "blk.#.attn_qkv.weight"},
    {"layers.#.self_attn.o_proj", "blk.#.attn_output.weight"},
    {"layers.#.mlp.gate_up_proj", "blk.#.ffn_up.weight"},
    {"layers.#.mlp.down_proj", "blk.#.ffn_down.weight"},
};

constexpr NameRow k_deepseek2_blocks[] = {
    {"layers.#.self_attn.q_proj", "blk.#.attn_q.weight"},
    {"layers.#.self_attn.q_a_proj", "blk.#.attn_q_a.weight"},
    {"layers.#.self_attn.q_b_proj", "blk.#.attn_q_b.weight"},
    {"layers.#.self_attn.kv_a_proj_with_mqa", "blk.#.attn_kv_a_mqa.weight"},
    // Files made before keys and values were kept apart.
    {"layers.#.self_attn.kv_b_proj", "blk.#.attn_kv_b.weight"},
    {"layers.#.self_attn.o_proj", "blk.#.attn_output.weight"},
    {"layers.#.mlp.shared_experts.gate_proj", "blk.#.ffn_gate_shexp.weight"},
    {"layers.#.mlp.shared_experts.up_proj", "blk.#.ffn_up_shexp.weight"},
    {"layers.#.mlp.shared_experts.down_proj", "blk.#.ffn_down_shexp.weight"},
};

constexpr SplitRow k_deepseek2_splits[] = {
    {"layers.#.self_attn.kv_b_proj", "blk.#.attn_k_b.weight", "blk.#.attn_v_b.weight",
     SplitPlan::key_value_heads},
};

constexpr VectorRow k_norms[] = {
    {"norm.weight", "output_norm.weight"},
    {"layers.#.input_layernorm.weight", "blk.#.attn_norm.weight"},
    {"layers.#.post_attention_layernorm.weight", "blk.#.ffn_norm.weight"},
};

constexpr VectorRow k_qk_norms[] = {
    {"layers.#.self_attn.q_norm.weight", "blk.#.attn_q_norm.weight"},
    {"layers.#.self_attn.k_norm.weight", "blk.#.attn_k_norm.weight"},
};

constexpr VectorRow k_olmo2_norms[] = {
    {"norm.weight", "output_norm.weight"},
    {"layers.#.post_attention_layernorm.weight", "blk.#.post_attention_norm.weight"},
    {"layers.#.post_feedforward_layernorm.weight", "blk.#.post_ffw_norm.weight"},
};

/// Gemma multiplies by 1 + w.
constexpr VectorRow k_gemma_norms[] = {
    {"norm.weight", "output_norm.weight", true},
    {"layers.#.input_layernorm.weight", "blk.#.attn_norm.weight", true},
    {"layers.#.post_attention_layernorm.weight", "blk.#.post_attention_norm.weight", true},
    {"layers.#.pre_feedforward_layernorm.weight", "blk.#.ffn_norm.weight", true},
    {"layers.#.post_feedforward_layernorm.weight", "blk.#.post_ffw_norm.weight", true},
};

constexpr VectorRow k_gemma_qk_norms[] = {
    {"layers.#.self_attn.q_norm.weight", "blk.#.attn_q_norm.weight", true},
    {"layers.#.self_attn.k_norm.weight", "blk.#.attn_k_norm.weight", true},
};

constexpr VectorRow k_deepseek2_vectors[] = {
    {"layers.#.self_attn.q_a_layernorm.weight", "blk.#.attn_q_a_norm.weight"},
    {"layers.#.self_attn.kv_a_layernorm.weight", "blk.#.attn_kv_a_norm.weight"},
    {"layers.#.mlp.gate.e_score_correction_bias", "blk.#.exp_probs_b.bias"},
};

constexpr JoinedRow k_joined_rows[] = {
    {.hf_path = "layers.#.self_attn.qkv_proj",
     .target = "blk.#.attn_qkv.weight",
     .part_paths = {"layers.#.self_attn.q_proj", "layers.#.self_attn.k_proj",
                    "layers.#.self_attn.v_proj"},
     .part_targets = {"blk.#.attn_q.weight", "blk.#.attn_k.weight", "blk.#.attn_v.weight"}},
    {.hf_path = "layers.#.mlp.gate_up_proj",
     .target = "blk.#.ffn_up.weight",
     .part_paths = {"layers.#.mlp.gate_proj", "layers.#.mlp.up_proj", ""},
     .part_targets = {"blk.#.ffn_gate.weight", "blk.#.ffn_up.weight", ""}},
};

constexpr auto k_rotary_rows = joined(k_tables, k_rotary_attention, k_mlp);
constexpr auto k_plain_rows = joined(k_tables, k_attention, k_mlp);
constexpr auto k_llama_rows =
    joined(k_tables, k_rotary_attention, k_mlp, k_experts, k_mixtral_experts);
constexpr auto k_qwen2moe_rows = joined(k_tables, k_attention, k_experts, k_qwen2_shared_expert);
constexpr auto k_qwen3moe_rows = joined(k_tables, k_attention, k_experts);
constexpr auto k_phi3_rows = joined(k_tables, k_phi3_blocks);
constexpr auto k_granitemoe_rows = joined(k_tables, k_rotary_attention, k_granite_experts);
constexpr auto k_deepseek2_rows = joined(k_tables, k_deepseek2_blocks, k_mlp, k_experts);
constexpr auto k_qk_normed = joined(k_norms, k_qk_norms);
constexpr auto k_gemma_qk_normed = joined(k_gemma_norms, k_gemma_qk_norms);
constexpr auto k_olmo2_normed = joined(k_olmo2_norms, k_qk_norms);
constexpr auto k_deepseek2_normed = joined(k_norms, k_deepseek2_vectors);

}  // namespace

constexpr HfNames k_hf_llama{.rows = k_llama_rows, .fused = k_fused_experts, .vectors = k_norms};
constexpr HfNames k_hf_gemma3{.rows = k_plain_rows,
                              .fused = {},
                              .vectors = k_gemma_qk_normed,
                              .defaults = {.n_embd_head = 256, .ties_head = true}};

namespace {

/// One line per architecture.
struct HfFamily {
  std::string_view arch;
  HfNames names;
};

constexpr HfFamily k_families[] = {
    {"llama", k_hf_llama},  // with Mistral and Mixtral
    {"qwen2", {.rows = k_plain_rows, .fused = {}, .vectors = k_norms}},
    {"qwen2moe", {.rows = k_qwen2moe_rows, .fused = k_fused_experts, .vectors = k_norms}},
    {"qwen3",
     {.rows = k_plain_rows, .fused = {}, .vectors = k_qk_normed, .defaults = {.n_embd_head = 128}}},
    {"qwen3moe",
     {.rows = k_qwen3moe_rows,
      .fused = k_fused_experts,
      .vectors = k_qk_normed,
      .defaults = {.n_embd_head = 128}}},
    {"gemma2",
     {.rows = k_plain_rows,
      .fused = {},
      .vectors = k_gemma_norms,
      .defaults = {.n_embd_head = 256, .ties_head = true}}},
    {"gemma3", k_hf_gemma3},
    {"phi3", {.rows = k_phi3_rows, .fused = {}, .vectors = k_norms}},
    {"granite", {.rows = k_rotary_rows, .fused = {}, .vectors = k_norms}},
    {"granitemoe",
     {.rows = k_granitemoe_rows,
      .fused = k_granite_fused_experts,
      .splits = k_granite_splits,
      .vectors = k_norms}},
    {"smollm3",
     {.rows = k_rotary_rows, .fused = {}, .vectors = k_norms, .defaults = {.ties_head = true}}},
    {"olmo2",
     {.rows = k_plain_rows,
      .fused = {},
      .vectors = k_olmo2_normed,
      .defaults = {.norms_all_heads = true}}},
    {"deepseek2",
     {.rows = k_deepseek2_rows,
      .fused = k_fused_experts,
      .splits = k_deepseek2_splits,
      .vectors = k_deepseek2_normed}},
};

struct ModelType {
  std::string_view model_type;
  std::string_view arch;
};

constexpr ModelType k_model_types[] = {
    {"llama", "llama"},
    {"mistral", "llama"},
    {"mixtral", "llama"},
    {"qwen2", "qwen2"},
    {"qwen2_moe", "qwen2moe"},
    {"qwen3", "qwen3"},
    {"qwen3_moe", "qwen3moe"},
    {"gemma2", "gemma2"},
    {"gemma3", "gemma3"},
    {"gemma3_text", "gemma3"},
    {"phi3", "phi3"},
    {"granite", "granite"},
    {"granitemoe", "granitemoe"},
    {"granitemoeshared", "granitemoe"},
    {"smollm3", "smollm3"},
    {"olmo2", "olmo2"},
    {"deepseek_v2", "deepseek2"},
    {"deepseek_v3", "deepseek2"},
};

}  // namespace

const HfNames *find_hf_names(std::string_view arch) {
  const auto *found = std::ranges::find(k_families, arch, &HfFamily::arch);
  return found == std::end(k_families) ? nullptr : &found->names;
}

std::span<const JoinedRow> joined_rows() { return k_joined_rows; }

std::string_view arch_of_model_type(std::string_view model_type) {
  const auto *found = std::ranges::find(k_model_types, model_type, &ModelType::model_type);
  return found == std::end(k_model_types) ? std::string_view() : found->arch;
}

}  // namespace patchbay
