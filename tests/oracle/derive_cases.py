"""Makes the renamed, re-typed and broken adapter folders out of the committed ones. Needs numpy only.

    python derive_cases.py DATA_DIR OUT_DIR      # OUT_DIR/<case>/ for every derived case of DATA_DIR/cases.json

A derived case stores nothing in the repository: cases.json names the folder it comes from and the change by name. Every
change takes and gives back (tensors, config).
"""

import json
import re
import sys
from pathlib import Path

import numpy as np

import safetensors_io as st

P = "base_model.model.model.layers."
N_EXPERT = 4


# ------------------------------------------------------------------------------ same numbers in another form
def mixed_dtype(t, c):
    """A in F16, B in BF16, the pairs of one MLP left in F32."""
    def dtype(key):
        return "F32" if "layers.1.mlp" in key else "F16" if "lora_A" in key else "BF16"
    return {k: st.from_float32(v.float32(), dtype(k)) for k, v in t.items()}, c


def names_default(t, c):
    """The adapter's name inside the key, as PEFT up to 0.2 and hand-made state dicts have it."""
    return {re.sub(r"lora_(A|B)\.", r"lora_\1.default.", k): v for k, v in t.items()}, c


def names_double_prefix(t, c):
    """A PEFT model that was wrapped a second time."""
    return {"base_model.model." + k: v for k, v in t.items()}, c


def names_no_prefix(t, c):
    """Keys of the bare model."""
    return {k.removeprefix("base_model.model."): v for k, v in t.items()}, c


def split_experts(t, key):
    """One fused pair to per-expert factors: A [E, r, in], B [E, out, r]. Rows of A are e*r+k, columns of B are k*E+e."""
    a, b = t[key].data, t[key.replace(".lora_A.", ".lora_B.")].data
    rank = a.shape[0] // N_EXPERT
    return a.reshape(N_EXPERT, rank, -1), b.reshape(b.shape[0], rank, N_EXPERT).transpose(2, 0, 1)


def expert_pairs(t):
    """Keys of the A halves of fused expert pairs."""
    return [k for k in t if ".experts" in k and ".lora_A." in k]


def moe_fused_legacy(t, c):
    """The layout of PEFT 0.17 to 0.18, which took dimension 1 of a stacked weight for its input."""
    new = {k: v for k, v in t.items() if ".experts" not in k}
    for key in expert_pairs(t):
        a, b = split_experts(t, key)
        swapped_a, swapped_b = b.transpose(0, 2, 1), a.transpose(0, 2, 1)  # [E, r, out], [E, in, r]
        n_rank, n_in = swapped_a.shape[1], swapped_b.shape[1]
        new[key] = st.Tensor("F32", swapped_a.reshape(N_EXPERT * n_rank, -1))
        columns = swapped_b.transpose(1, 2, 0).reshape(n_in, n_rank * N_EXPERT)
        new[key.replace(".lora_A.", ".lora_B.")] = st.Tensor("F32", columns)
    return new, {**c, "peft_version": "0.18.1"}


def moe_per_expert(t, c):
    """One pair per expert under the names of transformers v4."""
    new = {k: v for k, v in t.items() if ".experts" not in k}
    for key in expert_pairs(t):
        a, b = split_experts(t, key)
        layer = re.match(r"(.+layers\.\d+)\.", key)[1]
        half = b.shape[1] // 2
        parts = {"w1": b[:, :half], "w3": b[:, half:]} if ".base_layer." in key else {"w2": b}
        for e in range(N_EXPERT):
            for weight, rows in parts.items():
                module = f"{layer}.block_sparse_moe.experts.{e}.{weight}"
                new[f"{module}.lora_A.weight"] = st.Tensor("F32", a[e])
                new[f"{module}.lora_B.weight"] = st.Tensor("F32", rows[e])
    modules = sorted({k.split(".")[-3] for k in new} - {"w1", "w2", "w3"})
    return new, {**c, "target_parameters": None, "target_modules": modules + ["w1", "w2", "w3"], "peft_version": "0.17.1"}


def moe_one_expert(t, c):
    """As moe_per_expert with everything but expert 2 and the attention left out."""
    t, c = moe_per_expert(t, c)
    return {k: v for k, v in t.items() if ".experts." not in k or ".experts.2." in k}, c


# ---------------------------------------------------------------------------------------------- broken files
def drop(key):
    """One tensor is not there."""
    return lambda t, c: ({k: v for k, v in t.items() if k != key}, c)


def change(key, f):
    """One tensor has other values or another shape."""
    return lambda t, c: ({k: st.Tensor(v.dtype, f(v.data.copy())) if k == key else v for k, v in t.items()}, c)


def add(more):
    """Tensors that should not be there, as {key: shape}, filled with ones."""
    return lambda t, c: ({**t, **{k: st.Tensor("F32", np.ones(s, "<f4")) for k, s in more.items()}}, c)


def config(**kw):
    """The config says something else."""
    return lambda t, c: (t, {**c, **kw})


def with_value(x, index, value):
    """x with one element replaced."""
    x[index] = value
    return x


def vocab_resized(t, c):
    """Both whole embedding matrices three rows longer than the base's."""
    def longer(k, v):
        return st.Tensor(v.dtype, np.concatenate([v.data, v.data[:3]])) if v.data.shape[0] == 320 else v
    return {k: longer(k, v) for k, v in t.items()}, c


def no_tensors(t, c):
    """A file with a header and nothing else."""
    return {}, c


def rekey(f):
    """The same tensors under other names."""
    return lambda t, c: ({f(k): v for k, v in t.items()}, c)


def qalora(t, c):
    """A of attention over groups of eight inputs: the first of each group's columns."""
    def grouped(k, v):
        return st.Tensor(v.dtype, v.data[:, ::8] / 4) if "self_attn" in k and "lora_A" in k else v
    return {k: grouped(k, v) for k, v in t.items()}, {**c, "use_qalora": True, "qalora_group_size": 8}


def moe_gaps(t, c):
    """Expert 1 without w3, expert 3 without w1, expert 0 of rank 1, expert 2 not at all."""
    t, c = moe_per_expert(t, c)
    def gone(k):
        return ".experts.2." in k or ".experts.1.w3" in k or ".experts.3.w1" in k
    def narrow(k, v):
        if ".experts.0." not in k:
            return v
        return st.Tensor(v.dtype, v.data[:1] if "lora_A" in k else v.data[:, :1])
    t = {k: narrow(k, v) for k, v in t.items() if not gone(k)}
    return t, {**c, "rank_pattern": {"experts.0.w1": 1, "experts.0.w2": 1, "experts.0.w3": 1}}


def moe_v5_names(t, c):
    """Per expert under the names of qwen-like models."""
    t, c = moe_per_expert(t, c)
    new = {"w1": "gate_proj", "w2": "down_proj", "w3": "up_proj"}
    t = {re.sub(r"block_sparse_moe\.(experts\.\d+)\.(w\d)", lambda m: f"mlp.{m[1]}.{new[m[2]]}", k): v for k, v in t.items()}
    return t, {**c, "target_modules": [new.get(m, m) for m in c["target_modules"]]}


def moe_resaved(t, c):
    """gate_up_proj as PEFT writes adapters of transformers v4 again: A of both below each other, B block-diagonal."""
    new, r = dict(t), c["r"]
    for key in [k for k in expert_pairs(t) if ".base_layer." in k]:
        a, b = split_experts(t, key)
        half = b.shape[1] // 2
        wide_a = np.concatenate([a, 2 * a[:, ::-1]], axis=1)  # E, 2r, in
        wide_b = np.zeros((N_EXPERT, 2 * half, 2 * r), np.float32)
        wide_b[:, :half, :r], wide_b[:, half:, r:] = b[:, :half], b[:, half:]
        new[key] = st.Tensor("F32", wide_a.reshape(N_EXPERT * 2 * r, -1))
        columns = wide_b.transpose(1, 2, 0).reshape(2 * half, -1)
        new[key.replace(".lora_A.", ".lora_B.")] = st.Tensor("F32", columns)
    pattern = r".*\.experts\.gate_up_proj"
    return new, {**c, "rank_pattern": {pattern: 2 * r}, "alpha_pattern": {pattern: 2 * c["lora_alpha"]}}


def two_adapters_in_one(t, c):
    """Every pair under two names."""
    def named(name):
        return {re.sub(r"lora_(A|B)\.", rf"lora_\1.{name}.", k): v for k, v in t.items()}
    return {**named("first"), **named("second")}, c


def f64(t, c):
    """Everything in F64."""
    return {k: st.Tensor("F64", v.float32().astype("<f8")) for k, v in t.items()}, c


def without_level(t, c):
    """Keys without the level model."""
    return {k.replace("model.model.layers", "model.layers"): v for k, v in t.items()}, c


MAGNITUDE = P + "0.self_attn.q_proj.lora_magnitude_vector"
TOKENS = "trainable_token_indices"

OPS = {
    "qalora": qalora, "moe_gaps": moe_gaps, "moe_v5_names": moe_v5_names, "moe_resaved": moe_resaved,
    "two_adapters_in_one": two_adapters_in_one, "f64": f64, "names_no_model": without_level,
    "feature_extraction": lambda t, c: (without_level(t, c)[0], {**c, "task_type": "FEATURE_EXTRACTION"}),
    "names_compiled": rekey(lambda k: k.replace("model.layers", "_orig_mod.model.layers")),
    "names_ddp": rekey(lambda k: "module." + k),
    "names_fsdp": rekey(lambda k: re.sub(r"(layers\.\d+)\.", r"\1._fsdp_wrapped_module.", k)),
    "names_vlm": rekey(lambda k: k.replace("model.model.layers", "model.model.language_model.layers")),
    "names_old_vlm": rekey(lambda k: k.replace("model.model.layers", "model.language_model.model.layers")),
    "names_smolvlm": rekey(lambda k: k.replace("model.model.layers", "model.model.text_model.layers")),
    "names_loralib": rekey(lambda k: k.removesuffix(".weight")),
    "mlx_names": rekey(lambda k: k.replace("lora_A.weight", "lora_a").replace("lora_B.weight", "lora_b")),
    "down_up_names": rekey(lambda k: k.replace("lora_A", "lora_down").replace("lora_B", "lora_up")),
    "vision": add({"base_model.model.model.visual.blocks.0.attn.q_proj.lora_A.weight": (4, 32),
                   "base_model.model.model.visual.blocks.0.attn.q_proj.lora_B.weight": (32, 4)}),
    "alpha_tensors": add({P + "0.self_attn.q_proj.alpha": (1,)}),
    "velora_buffers": add({P + "0.self_attn.q_proj.lora_velora_embed": (4,)}),
    "monteclora_buffers": add({P + f"0.self_attn.q_proj.lora_monteclora_sampler.{name}": (4,) for name in (
        "expert_weights", "expert_weights_prior", "gaussian_var_prior", "std_prior")}),
    "kasa": config(kasa_config={"beta": 0.0001}),
    "kasa_tensor": add({P + "0.self_attn.q_proj.lora_diag": (4,)}),
    "arrow": config(arrow_config={"top_k": 2}),
    "moe_expert_beyond": lambda t, c: rekey(lambda k: k.replace(".experts.3.", ".experts.9."))(*moe_per_expert(t, c)),
    "tokens_one_too_few": config(**{TOKENS: [3, 300]}), "tokens_beyond": config(**{TOKENS: [3, 300, 320]}),
    "tokens_not_named": config(**{TOKENS: None}),
    "norm_of_other_width": change("base_model.model.model.norm.weight", lambda x: x[:-1]),
    "norm_nan": change("base_model.model.model.norm.weight", lambda x: with_value(x, 3, np.nan)),
    "bias_of_other_width": change(P + "0.mlp.up_proj.bias", lambda x: np.concatenate([x, x[:1]])),
    "lora_bias_not_said": config(lora_bias=False), "lora_bias_missing": config(lora_bias=True),
    "replication_of_nothing": config(layer_replication=[[0, 1], [1, 2]]),
    "dora_old_name": rekey(lambda k: k + ".default.weight" if k.endswith("lora_magnitude_vector") else k),
    "dora_not_said": config(use_dora=False), "dora_missing": config(use_dora=True),
    "dora_short": change(MAGNITUDE, lambda x: x[:-1]), "dora_nan": change(MAGNITUDE, lambda x: with_value(x, 0, np.nan)),
    "dora_lora_bias": config(use_dora=True), "dora_alora": config(use_dora=True),
    "enable_lora": config(enable_lora=[True, False]), "no_alpha": lambda t, c: (t, {k: v for k, v in c.items() if k != "lora_alpha"}),
    "no_rank": lambda t, c: (t, {k: v for k, v in c.items() if k != "r"}),
    "alpha_as_float": config(lora_alpha=8.0), "fan_in_fan_out": config(fan_in_fan_out=True),
    "megatron": config(megatron_core="megatron.core"), "targets_by_regex": config(target_modules=r".*\.(q|k|v|o)_proj"),
    "unknown_option": config(use_next_thing=True), "other_base_name": config(base_model_name_or_path="meta/other-7b"),
    **{f"init_{x}": config(init_lora_weights=x) for x in (
        "eva", "mica", "gaussian", "orthogonal", "pissa_niter_4", "olora", "corda", "lora_ga")},
    **{f"type_{x}": config(peft_type=x.upper()) for x in (
        "loha", "lokr", "vera", "ia3", "oft", "boft", "fourierft", "randlora", "miss", "shira", "hra", "ln_tuning",
        "prompt_tuning", "xlora")},
    "mixed_dtype": mixed_dtype, "names_default": names_default, "names_double_prefix": names_double_prefix,
    "names_no_prefix": names_no_prefix, "moe_fused_legacy": moe_fused_legacy, "moe_per_expert": moe_per_expert,
    "moe_one_expert": moe_one_expert, "vocab_resized": vocab_resized, "no_tensors": no_tensors,
    "missing_b": drop(P + "0.self_attn.q_proj.lora_B.weight"),
    "missing_a": drop(P + "1.mlp.up_proj.lora_A.weight"),
    "wrong_in": change(P + "0.mlp.down_proj.lora_A.weight", lambda x: x[:, :-1]),
    "wrong_out": change(P + "0.self_attn.k_proj.lora_B.weight", lambda x: np.concatenate([x, x])),
    "wrong_rank": change(P + "0.self_attn.v_proj.lora_B.weight", lambda x: x[:, :2]),
    "nan": change(P + "0.self_attn.o_proj.lora_B.weight", lambda x: with_value(x, (3, 1), np.nan)),
    "inf_fp16": change(P + "1.self_attn.o_proj.lora_A.weight", lambda x: with_value(x, (0, 0), np.inf)),
    "empty_tensor": change(P + "0.self_attn.q_proj.lora_A.weight", lambda x: x.reshape(-1)[:0]),
    "junk": add({P + "0.self_attn.q_proj.lora_wow": (3,)}),
    "no_such_module": add({P + "7.self_attn.q_proj.lora_A.weight": (4, 32),
                           P + "7.self_attn.q_proj.lora_B.weight": (32, 4)}),
    "rank_mismatch": config(r=16),
    "adalora_type": config(peft_type="ADALORA"),
    "loftq_init": config(init_lora_weights="loftq"),
    "alpha_not_a_number": config(lora_alpha="many"),
}


def derive(source, folder, op):
    """Writes `folder` as the adapter folder `source` changed by the operation of that name."""
    source, folder = Path(source), Path(folder)
    tensors = st.load(source / "adapter_model.safetensors")
    cfg = json.loads((source / "adapter_config.json").read_text())
    tensors, cfg = OPS[op](tensors, cfg)
    folder.mkdir(parents=True, exist_ok=True)
    st.save(tensors, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps(cfg, indent=2))


def derive_all(data, out):
    """Every derived case of data/cases.json, as out/<case>/."""
    for case in json.loads((Path(data) / "cases.json").read_text())["cases"]:
        if case["derive"]:
            derive(Path(data) / "adapters" / case["derive"]["from"], Path(out) / case["name"], case["derive"]["op"])


if __name__ == "__main__":
    derive_all(sys.argv[1], sys.argv[2])
