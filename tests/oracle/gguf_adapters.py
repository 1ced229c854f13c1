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
            a, b = roles["A"], roles["B"]
            if arch == "llama" and module.endswith(("q_proj", "k_proj")):
                key = "num_attention_heads" if module.endswith("q_proj") else "num_key_value_heads"
                b = b[rope_rows(b.shape[0], reader.base_cfg[key])]
            out.append((f"{module_name(module, arch)}.weight", a, b, reader.scale(module, a.shape[0]), a.shape[0]))
    return out


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
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def add(w, name, x, dtype):
    """One tensor in one of the three float types."""
    x = np.ascontiguousarray(x.float().numpy())
    w.add_tensor(name, gguf.quants.quantize(x, RAW[dtype]), raw_dtype=RAW[dtype])
