"""Writes the tiny random base models as F32 GGUF files, the way llama.cpp's converters lay out each family."""

import math
import re

import gguf
import numpy as np

from reader import rope_rows

TOP = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
COMMON = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}
LLAMA = {**COMMON, "post_attention_layernorm": "ffn_norm", "mlp.gate": "ffn_gate_inp"}
GEMMA3 = {
    **COMMON, "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
ARCH = {"llama": "llama", "mistral": "llama", "mixtral": "llama", "gemma3_text": "gemma3"}  # HF model_type -> GGUF architecture


def module_name(module, arch):
    """HF module -> GGUF tensor stem."""
    if module in TOP:
        return TOP[module]
    layer, rest = re.match(r"model\.layers\.(\d+)\.(.+)$", module).groups()
    return f"blk.{layer}.{(GEMMA3 if arch == 'gemma3' else LLAMA)[rest]}"


def add_hparams(w, cfg, arch):
    """Sizes and constants under the keys that converters write."""
    w.add_context_length(cfg.max_position_embeddings)
    w.add_embedding_length(cfg.hidden_size)
    w.add_block_count(cfg.num_hidden_layers)
    w.add_feed_forward_length(cfg.intermediate_size)
    w.add_head_count(cfg.num_attention_heads)
    w.add_head_count_kv(cfg.num_key_value_heads)
    w.add_layer_norm_rms_eps(cfg.rms_norm_eps)
    head = getattr(cfg, "head_dim", None) or cfg.hidden_size // cfg.num_attention_heads
    w.add_key_length(head)
    w.add_value_length(head)
    w.add_vocab_size(cfg.vocab_size)
    w.add_file_type(gguf.LlamaFileType.ALL_F32)
    if arch == "gemma3":
        w.add_rope_freq_base(float(cfg.rope_parameters["full_attention"]["rope_theta"]))
        w.add_sliding_window(cfg.sliding_window)
        return
    w.add_rope_dimension_count(head)
    w.add_rope_freq_base(float(cfg.rope_parameters["rope_theta"]))
    add_rope_scaling(w, cfg, head)
    if cfg.model_type == "mixtral":
        w.add_expert_count(cfg.num_local_experts)
        w.add_expert_used_count(cfg.num_experts_per_tok)


def add_rope_scaling(w, cfg, head):
    """linear and yarn are keys; llama3 is a tensor of factors and no key at all."""
    rope = cfg.rope_parameters
    kind = rope["rope_type"]
    if kind == "linear":
        w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        w.add_rope_scaling_factor(float(rope["factor"]))
    elif kind == "yarn":
        w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        w.add_rope_scaling_factor(float(rope["factor"]))
        w.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        if "beta_fast" in rope:
            w.add_rope_scaling_yarn_beta_fast(float(rope["beta_fast"]))
            w.add_rope_scaling_yarn_beta_slow(float(rope["beta_slow"]))
    elif kind == "llama3":
        w.add_tensor("rope_freqs.weight", llama3_factors(rope, head))


def llama3_factors(rope, head):
    """F32 [n_rot / 2]: what each frequency is divided by. Long waves are stretched, short ones kept, with a slope between."""
    low, high = (rope["original_max_position_embeddings"] / rope[k] for k in ("low_freq_factor", "high_freq_factor"))
    factors = []
    for i in range(0, head, 2):
        wave = 2 * math.pi * rope["rope_theta"] ** (i / head)
        smooth = (rope["original_max_position_embeddings"] / wave - rope["low_freq_factor"]) / (
            rope["high_freq_factor"] - rope["low_freq_factor"])
        between = 1 / ((1 - smooth) / rope["factor"] + smooth)
        factors.append(1.0 if wave < high else float(rope["factor"]) if wave > low else between)
    return np.array(factors, np.float32)


def add_vocabulary(w, n_vocab):
    """A made-up byte vocabulary; the cases feed token ids, so it only has to be loadable."""
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]
    types = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL] + [gguf.TokenType.BYTE] * 256
    tokens += [f"\u2581t{i}" for i in range(len(tokens), n_vocab)]
    types += [gguf.TokenType.NORMAL] * (n_vocab - len(types))
    w.add_tokenizer_model("llama")
    w.add_tokenizer_pre("default")
    w.add_token_list(tokens)
    w.add_token_scores([0.0] * n_vocab)
    w.add_token_types(types)
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_add_bos_token(False)


def converted(name, x, cfg, arch):
    """HF parameter -> [(GGUF name, values)]: q/k rows reordered, experts stacked and split, Gemma norms plus one."""
    experts = re.match(r"model\.layers\.(\d+)\.mlp\.experts\.(\w+)$", name)
    if experts and experts[2] == "gate_up_proj":
        half = x.shape[1] // 2
        return [(f"blk.{experts[1]}.ffn_gate_exps.weight", x[:, :half]), (f"blk.{experts[1]}.ffn_up_exps.weight", x[:, half:])]
    if experts:
        return [(f"blk.{experts[1]}.ffn_down_exps.weight", x)]
    module, _, leaf = name.rpartition(".")
    if arch == "gemma3" and module.endswith("norm"):
        x = x + 1
    if arch == "llama" and module.endswith(("q_proj", "k_proj")):
        n_head = cfg.num_attention_heads if module.endswith("q_proj") else cfg.num_key_value_heads
        x = x[rope_rows(x.shape[0], n_head)]
    return [(f"{module_name(module, arch)}.{leaf}", x)]


def write_base(path, model):
    """One base model as an F32 GGUF; a tied head is not written."""
    cfg = model.config
    arch = ARCH[cfg.model_type]
    w = gguf.GGUFWriter(str(path), arch)
    add_hparams(w, cfg, arch)
    add_vocabulary(w, cfg.vocab_size)
    for name, p in model.state_dict().items():
        if name == "lm_head.weight" and cfg.tie_word_embeddings:
            continue
        for gguf_name, x in converted(name, p.detach().float().numpy(), cfg, arch):
            w.add_tensor(gguf_name, np.ascontiguousarray(x))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
