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


OPS = {
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
