#!/usr/bin/env python3
"""Families with a graph here, end to end: PEFT's logits against the engine's with the converted adapter.

    PATCHBAY=build/release/bin/patchbay python check_families.py

Needs torch, transformers and peft. Every module and parameter that can have a pair has one, with ranks and alphas of its
own; the adapter is converted for the GGUF base and for the Hugging Face folder. Exit code 1 when logits differ by 1e-3
or the adapter hardly moves them.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers
from peft import LoraConfig, get_peft_model

import gguf_bases
import make_family_shapes as shapes
from make_peft_cases import IDS, N_VOCAB, make_model

REPO = Path(__file__).resolve().parents[2]
BINARY = os.environ.get("PATCHBAY", str(REPO / "build" / "release" / "bin" / "patchbay"))
TOLERANCE = 1e-3  # as in test_cases.py
# Mistral's window went with its second version, and the graph has none.
CHANGES = {"mistral": dict(sliding_window=None), "gemma3": dict(query_pre_attn_scalar=16, sliding_window=8)}


def adapted(model):
    """The model in PEFT, with factors far from their tame beginnings."""
    lora = LoraConfig(r=4, lora_alpha=8, target_modules=shapes.target_modules(model), use_rslora=True,
                      target_parameters=shapes.target_parameters(model) or None, task_type="CAUSAL_LM",
                      rank_pattern={"v_proj": 2, "o_proj": 3}, alpha_pattern={"o_proj": 5, "down_proj": 6})
    peft_model = get_peft_model(model, lora).eval()
    with torch.no_grad():
        for name, p in peft_model.named_parameters():
            if "lora_" in name:
                p.copy_(0.1 * torch.randn_like(p))
    return peft_model


def run(*arguments):
    subprocess.run([BINARY, *map(str, arguments)], check=True, capture_output=True, timeout=60)


@torch.no_grad()
def logits_of(model):
    return model(input_ids=torch.tensor([IDS])).logits[0].float().numpy()


def compare(name, folder):
    """How far the engine's logits are from PEFT's, and how far the adapter moves them."""
    class_name, settings = shapes.FAMILIES[name]
    config = getattr(transformers, class_name)(**settings | dict(vocab_size=N_VOCAB, initializer_range=0.2) | CHANGES.get(name, {}))
    model = make_model(0, transformers.AutoModelForCausalLM._model_mapping[type(config)], config)
    gguf_bases.write_base(folder / "base.gguf", model)
    config.save_pretrained(folder / "hf")
    alone = logits_of(model)
    peft_model = adapted(model)
    want = logits_of(peft_model)
    peft_model.save_pretrained(folder / "peft", save_embedding_layers=False)
    worst = 0.0
    for base in ("base.gguf", "hf"):
        run("convert", folder / "peft", "-o", folder / "out.gguf", "--force", "--base", folder / base)
        run("run", "-m", folder / "base.gguf", "--lora", folder / "out.gguf", "--tokens", ",".join(map(str, IDS)), "-n", 0,
            "--cache-type", "f32", "--logits", folder / "logits.npy")
        worst = max(worst, float(np.abs(np.load(folder / "logits.npy") - want).max()))
    return worst, float(np.abs(want - alone).max())


def main():
    failed = False
    for name in ("llama", "mistral", "mixtral", "gemma3"):
        with tempfile.TemporaryDirectory() as folder:
            difference, effect = compare(name, Path(folder))
        failed |= not difference < TOLERANCE < effect / 100
        print(f"{name}: logits differ by {difference:.2g}, the adapter moves them by {effect:.2g}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
