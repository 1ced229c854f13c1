"""What making a GGUF file does to the weights of each family, written from the rules alone: numpy in, numpy out.

Shared by the tests of `patchbay convert`. It is a second implementation on purpose and shares nothing with the first. Its
names are compared with gguf's own table by check_names.py.
"""

import re

import numpy as np

ARCH = {"llama": "llama", "mistral": "llama", "mixtral": "llama", "qwen2": "qwen2", "qwen2_moe": "qwen2moe", "qwen3": "qwen3",
        "qwen3_moe": "qwen3moe", "gemma2": "gemma2", "gemma3_text": "gemma3", "phi3": "phi3", "granite": "granite",
        "granitemoe": "granitemoe", "granitemoeshared": "granitemoe", "smollm3": "smollm3", "olmo2": "olmo2",
        "deepseek_v2": "deepseek2"}
REORDERED = {"llama", "granite", "granitemoe", "smollm3"}
STEMS = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "self_attn.qkv_proj": "attn_qkv", "self_attn.q_a_proj": "attn_q_a", "self_attn.q_b_proj": "attn_q_b",
    "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "self_attn.q_a_layernorm": "attn_q_a_norm", "self_attn.kv_a_layernorm": "attn_kv_a_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.gate_up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "mlp.gate": "ffn_gate_inp", "block_sparse_moe.router": "ffn_gate_inp", "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
    "shared_mlp.output_linear": "ffn_down_shexp", "input_layernorm": "attn_norm",
    "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm",
}
for part in ("gate", "up", "down"):
    STEMS[f"mlp.shared_expert.{part}_proj"] = STEMS[f"mlp.shared_experts.{part}_proj"] = f"ffn_{part}_shexp"


def reorder(w, n_head):
    """Rows of each head from halves to neighbours: ggml's interleaved rotary mode."""
    halves = w.reshape(n_head, 2, w.shape[0] // n_head // 2, -1)
    return halves.swapaxes(1, 2).reshape(w.shape)


def converted(name, w, cfg):
    """{GGUF name: values} of one Hugging Face parameter, both outermost dimension first."""
    arch = ARCH[cfg["model_type"]]
    top = {"model.embed_tokens.weight": "token_embd.weight", "lm_head.weight": "output.weight", "model.norm.weight": "output_norm.weight"}
    plus = 1 if arch.startswith("gemma") and w.ndim == 1 else 0
    if name in top:
        return {top[name]: w + plus}
    layer, rest = re.match(r"model\.layers\.(\d+)\.(.+)$", name).groups()
    blk = f"blk.{layer}."
    if rest.endswith("experts.gate_up_proj"):
        gate, up = np.split(w, 2, axis=1)
        return {blk + "ffn_gate_exps.weight": gate, blk + "ffn_up_exps.weight": up}
    if rest.endswith("experts.down_proj"):
        return {blk + "ffn_down_exps.weight": w}
    if rest == "shared_mlp.input_linear.weight":
        gate, up = np.split(w, 2)
        return {blk + "ffn_gate_shexp.weight": gate, blk + "ffn_up_shexp.weight": up}
    if rest == "self_attn.kv_b_proj.weight":
        heads = w.reshape(cfg["num_attention_heads"], -1, w.shape[1])
        keys, values = np.split(heads, [cfg["qk_nope_head_dim"]], axis=1)
        return {blk + "attn_k_b.weight": keys.swapaxes(1, 2), blk + "attn_v_b.weight": values}
    stem, leaf = rest.rsplit(".", 1)
    if stem == "post_attention_layernorm":
        stem = "post_attention_norm" if arch in ("gemma2", "gemma3", "olmo2") else "ffn_norm"
    else:
        stem = STEMS[stem]
    if arch in REORDERED and stem in ("attn_q", "attn_k"):
        w = reorder(w, cfg["num_attention_heads" if stem == "attn_q" else "num_key_value_heads"])
    return {f"{blk}{stem}.{leaf}": w + plus}
