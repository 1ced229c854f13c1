"""Writes a PEFT folder as a GGUF adapter with the `gguf` package: an independent twin of `patchbay convert`.

One alpha is all a GGUF file can say, so where PEFT means another scale the ratio is folded into B.
"""

import re

import gguf
import numpy as np
import torch

from gguf_bases import ARCH, module_name
from reader import Reader, rope_rows

RAW = {torch.float32: gguf.GGMLQuantizationType.F32, torch.float16: gguf.GGMLQuantizationType.F16,
       torch.bfloat16: gguf.GGMLQuantizationType.BF16}


def pair_tensors(reader, weights, arch):
    """[(base tensor name, A, B, scale, rank)] of a readable folder, in GGUF's row order."""
    out = []
    groups = reader.groups()
    for module, roles in groups.items():
        if ".experts" in module:
            out += expert_pairs(reader, weights, module, groups, roles)
        elif "EA" in roles:
            a = roles["EA"].T  # one row per token, so that a look-up finds it
            out.append((f"{module_name(module, arch)}.weight", a, roles["EB"], reader.scale(module, a.shape[1]), a.shape[1]))
        elif "A" in roles:
            a, b = reader.full_pair(module, roles["A"], roles["B"], weights[f"{module}.weight"].shape[1])
            b = q_or_k_rows(reader, module, b)
            out.append((f"{module_name(module, arch)}.weight", a, b, reader.scale(reader.pattern_name(module), a.shape[0]),
                        a.shape[0]))
    return out


def q_or_k_rows(reader, module, x):
    """Rows of q and k as llama GGUF files have them; all other modules' as they are."""
    if ARCH[reader.base_cfg["model_type"]] != "llama" or not module.endswith(("q_proj", "k_proj")):
        return x
    key = "num_attention_heads" if module.endswith("q_proj") else "num_key_value_heads"
    return x[rope_rows(x.shape[0], reader.base_cfg[key])]


def extra_tensors(reader, arch, alpha):
    """[(name, values)] of what plain pairs can not say, as *.patchbay_<role>."""
    out = []
    for module, roles in reader.groups().items():
        if ".experts" in module:
            continue
        name = f"{module_name(module, arch)}.weight"
        if "magnitude" in roles:
            out.append((f"{name}.patchbay_dora_m", q_or_k_rows(reader, module, roles["magnitude"])))
        if "lora_bias" in roles:
            rank = roles["A"].shape[0]
            fold = reader.scale(module, rank) * rank / alpha
            out.append((f"{name}.patchbay_lora_bias", q_or_k_rows(reader, module, roles["lora_bias"]) * fold))
        if "bias" in roles:
            out.append((f"{name}.patchbay_bias", q_or_k_rows(reader, module, roles["bias"])))
        if "rows" in roles:
            out += row_tensors(reader, module, name, roles["rows"])
        if "weight" in roles and "norm" in module:
            out.append((f"{name}.patchbay_norm", roles["weight"] + (1 if arch == "gemma3" else 0)))
        elif "weight" in roles:
            out.append((f"{name}.patchbay_weight", q_or_k_rows(reader, module, roles["weight"])))
    return out


def row_tensors(reader, module, name, rows):
    """New rows of a table, in ascending order; of both uses of a tied one."""
    index = reader.cfg["trainable_token_indices"]
    index = torch.tensor(index[module.rsplit(".", 1)[-1]] if isinstance(index, dict) else index)
    order = index.argsort()
    both = reader.base_cfg.get("tie_word_embeddings") and name == "token_embd.weight"
    return [(f"{table}.patchbay_{role}", x) for table in [name] + ["output.weight"] * bool(both)
            for role, x in (("rows", rows[order]), ("row_ids", index[order].int()))]


def expert_pairs(reader, weights, module, groups, roles):
    """Stacked factors: A [E, r, in], B [E, out, r]; gate and up share A and take halves of B."""
    fused = {m: r for m, r in groups.items() if ".experts" in m}
    parameter, weight = reader.fused_parameter(weights, module, fused)
    a, b = reader.natural_pair(module, weight, roles["A"], roles["B"])
    s, rank = reader.scale(parameter, a.shape[1]), a.shape[1]
    layer = re.match(r"model\.layers\.(\d+)\.", module)[1]
    half = b.shape[1] // 2
    parts = {"gate": b[:, :half], "up": b[:, half:]} if parameter.endswith("gate_up_proj") else {"down": b}
    return [(f"blk.{layer}.ffn_{name}_exps.weight", a, rows, s, rank) for name, rows in parts.items()]


def write_adapter(path, folder, base_config, weights):
    """One GGUF adapter. Factors keep the folder's type where nothing has to be folded, else they are F32."""
    reader = Reader(folder, base_config)
    arch = ARCH[base_config["model_type"]]
    stored = {v.dtype for v in reader.tensors.values()}
    alpha = float(reader.cfg["lora_alpha"]) or float(reader.cfg["r"])
    w = gguf.GGUFWriter(str(path), arch)
    w.add_type(gguf.GGUFType.ADAPTER)
    w.add_string(gguf.Keys.Adapter.TYPE, "lora")
    w.add_float32(gguf.Keys.Adapter.LORA_ALPHA, alpha)
    if reader.cfg.get("alora_invocation_tokens"):
        w.add_key_value("adapter.alora.invocation_tokens", reader.cfg["alora_invocation_tokens"],
                        gguf.GGUFValueType.ARRAY, gguf.GGUFValueType.UINT32)
    for name, a, b, scale, rank in pair_tensors(reader, weights, arch):
        fold = scale * rank / alpha
        dtype = stored.copy().pop() if len(stored) == 1 and fold == 1 else torch.float32
        add(w, f"{name}.lora_a", a, dtype)
        add(w, f"{name}.lora_b", (b.double() * fold).float(), dtype)
    for name, x in extra_tensors(reader, arch, alpha):
        if x.dtype == torch.int32:
            w.add_tensor(name, x.numpy())
        else:
            add(w, name, x, torch.float32)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def add(w, name, x, dtype):
    """One tensor in one of the three float types."""
    x = np.ascontiguousarray(x.float().numpy())
    w.add_tensor(name, gguf.quants.quantize(x, RAW[dtype]), raw_dtype=RAW[dtype])
