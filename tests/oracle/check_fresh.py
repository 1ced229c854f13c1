#!/usr/bin/env python3
"""Makes all oracle cases afresh and compares them with the committed ones, both ways. Needs torch and peft.

    python check_fresh.py

Exit code 1 when a file is on one side only, a number differs by more than 1e-5 (relative to max(1, |x|)), or a GGUF
adapter does not say the same as its PEFT folder.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
import torch

import make_peft_cases
import safetensors_io
from gguf_bases import ARCH, converted
from reader import Reader

LIMIT = 1e-5
MEASURED = ("maxdiff", "reader")  # record fields that may move in their last digit


def files(root):
    """Relative paths of everything that is stored."""
    return {str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()}


def away(a, b):
    """Largest difference relative to max(1, |x|); infinite when the shapes differ."""
    if a.shape != b.shape:
        return np.inf
    a, b = a.astype(np.float64), b.astype(np.float64)
    return float((np.abs(a - b) / np.maximum(1, np.abs(a))).max(initial=0))


def numbers_of(tensor):
    """Ids of token rows are whole numbers, which gguf does not dequantise."""
    is_whole = tensor.tensor_type == gguf.GGMLQuantizationType.I32
    return tensor.data if is_whole else gguf.quants.dequantize(tensor.data, tensor.tensor_type)


def gguf_values(path):
    """Tensor name -> F32 values in numpy order."""
    reader = gguf.GGUFReader(path)
    return {t.name: numbers_of(t) for t in reader.tensors}


def safetensors_values(path):
    return {k: t.float32() for k, t in safetensors_io.load(path).items()}


def bin_values(path):
    return {k: v.float().numpy() for k, v in torch.load(path, weights_only=True).items()}


def tensor_faults(path, old, new):
    """Differences between two files of named tensors."""
    if set(old) != set(new):
        return [f"{path}: tensors on one side only: {sorted(set(old) ^ set(new))}"]
    return [f"{path}: {k} is {d:.3g} away" for k in old if (d := away(old[k], new[k])) > LIMIT]


def without_measurements(record):
    return {k: v for k, v in record.items() if not any(m in k for m in MEASURED)}


def file_faults(committed, fresh, path):
    """Differences of one file that both sides have."""
    old, new = committed / path, fresh / path
    if path.endswith(".npy"):
        return tensor_faults(path, {"logits": np.load(old)}, {"logits": np.load(new)})
    if path.endswith(".gguf"):
        return tensor_faults(path, gguf_values(old), gguf_values(new))
    if path.endswith(".safetensors"):
        return tensor_faults(path, safetensors_values(old), safetensors_values(new))
    if path.endswith(".bin"):
        return tensor_faults(path, bin_values(old), bin_values(new))
    same = path == "cases.json" or comparable(old) == comparable(new)
    return [] if same else [f"{path} differs"]


def comparable(path):
    """A config with its lists of targets in order: PEFT keeps them as sets, so files differ from run to run."""
    config = json.loads(path.read_text())
    for key in ("target_modules", "target_parameters"):
        if isinstance(config.get(key), list):
            config[key].sort()
    return config


def table_faults(old, new):
    """Differences of the two case tables: records, their order aside."""
    faults = []
    for part in ("bases", "cases", "mixes"):
        left, right = ({r["name"]: without_measurements(r) for r in table[part]} for table in (old, new))
        faults += [f"cases.json: {part}/{n} differs" for n in sorted(set(left) | set(right)) if left.get(n) != right.get(n)]
    return faults


def parts_by_weight(tensors):
    """{base weight: {"lora_a", "lora_b", "dora_m", "rows", ...: values}}"""
    found = {}
    for key, values in tensors.items():
        name, _, role = key.rpartition(".")
        found.setdefault(name, {})[role.removeprefix("patchbay_")] = values
    return found


def apply_parts(weights, name, parts, alpha):
    """Changes one weight, and its bias, as docs/adapters.md says of each role."""
    if "lora_a" in parts:
        a, b = parts["lora_a"], parts["lora_b"]
        is_table = name == "token_embd.weight"
        weights[name] = weights[name] + alpha / b.shape[-1] * (a @ b.T if is_table else b @ a)
        if "dora_m" in parts:
            axis = 0 if is_table else -1
            lengths = np.linalg.norm(weights[name].astype(np.float64), axis=axis, keepdims=True)
            weights[name] = weights[name] / lengths * np.expand_dims(parts["dora_m"], axis)
    bias = name.removesuffix("weight") + "bias"
    if "lora_bias" in parts:
        weights[bias] = weights.get(bias, 0) + alpha / parts["lora_b"].shape[-1] * parts["lora_bias"]
    if "bias" in parts:
        weights[bias] = parts["bias"]
    if "row_ids" in parts:
        weights[name] = weights[name].copy()
        weights[name][parts["row_ids"]] = parts["rows"]
    for role in ("norm", "weight"):
        if role in parts:
            weights[name] = parts[role]


def twin_faults(world, out, case):
    """convert(W + s B A) == convert(W) + alpha/r B A for every tensor of a GGUF adapter, A and B as stored in it."""
    path = out / "adapters_gguf" / f"{case['name']}.gguf"
    base = case["base"]
    config, arch = world.config(base), ARCH[world.config(base)["model_type"]]
    reader = Reader(out / "adapters" / case["name"], config)
    reader.cfg.pop("alora_invocation_tokens", None)  # as always active: the weights are what is compared
    changed = {}
    for name, x in reader.apply(world.weights[base]).items():
        changed.update(converted(name, x.numpy(), world.specs[base][1], arch))
    expected = gguf_values(out / "bases" / f"{base}.gguf")
    if reader.tied:
        expected["output.weight"] = expected["token_embd.weight"].copy()
    alpha = gguf.GGUFReader(path).fields["adapter.lora.alpha"].contents()
    for name, parts in parts_by_weight(gguf_values(path)).items():
        apply_parts(expected, name, parts, alpha)
    return tensor_faults(f"twin {case['name']}", expected, changed)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[1] / "data" / "oracle")
    args = ap.parse_args()
    with tempfile.TemporaryDirectory() as tmp:
        fresh = Path(tmp)
        builder = make_peft_cases.build(fresh)
        faults = list(builder.faults)
        left, right = files(args.data) - {"families.json"}, files(fresh)  # make_family_shapes.py makes that one
        faults += [f"only committed: {p}" for p in sorted(left - right)] + [f"only fresh: {p}" for p in sorted(right - left)]
        for path in sorted(left & right):
            faults += file_faults(args.data, fresh, path)
        tables = [json.loads((root / "cases.json").read_text()) for root in (args.data, fresh)]
        faults += table_faults(*tables)
        twins = [c for c in builder.cases if (args.data / "adapters_gguf" / f"{c['name']}.gguf").exists()]
        for case in twins:
            faults += twin_faults(builder.world, args.data, case)
    print(f"{len(left & right)} files compared, {len(twins)} GGUF adapters checked against their folders")
    sys.exit("\n".join(faults) or 0)


if __name__ == "__main__":
    main()
