#!/usr/bin/env python3
"""How far the engine's next-token distribution is from torch's on real models: for the base and with each real adapter.

    python kl.py [--patchbay build/release/bin/patchbay] [--ratio 1.10] [--skip-gemma]

torch runs the weights of the GGUF file dequantised to F32, PEFT the adapters over them. The engine multiplies quantised
blocks with quantised activations, so its base is a little off; an adapter may not add to that. Exit code 1 when an
adapter raises the mean or the 99th percentile of KL(torch || engine) over the base's by more than `--ratio`, or Gemma's
mean is above its limit. About three minutes on two cores. Needs torch, transformers and peft, and the models in models/.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import numpy as np
import torch
from peft import PeftModel
from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence
from transformers import AutoModelForCausalLM, AutoTokenizer

from kl_texts import TEXTS

REPO = Path(__file__).resolve().parents[2]
DEFAULT_MODEL = REPO / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
GEMMA_MODEL = REPO / "models" / "gemma-3-270m-q4_k_m.gguf"
ADAPTERS = REPO / "examples" / "adapters"
N_TOKENS = 220  # per text, six texts
N_TOKENS_GEMMA = 640  # more than the window of its sliding layers (512)
N_CONTEXT_ALORA = 20  # tokens before the invocation sequence
GEMMA_LIMIT = 0.05  # nats; a wrong window, norm or rope base gives several


def load_tokenizer(path):
    """transformers drops the rule that splits numbers into digits when it reads a BPE vocabulary from a GGUF."""
    tok = AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name)
    if path == DEFAULT_MODEL:
        tok.backend_tokenizer.pre_tokenizer = Sequence(
            [Digits(individual_digits=True), ByteLevel(add_prefix_space=False, use_regex=True)])
    return tok


def load_model(path):
    """The GGUF's weights, dequantised to F32."""
    return AutoModelForCausalLM.from_pretrained(str(path.parent), gguf_file=path.name, dtype=torch.float32).eval()


def engine_logits(args, model, ids, adapter):
    """F32 [n_tokens, n_vocab]."""
    lora = ["--lora", str(adapter)] if adapter else []
    with tempfile.TemporaryDirectory() as tmp:
        out = Path(tmp) / "logits.npy"
        subprocess.run([args.patchbay, "run", "-m", str(model), *lora, "--tokens", ",".join(map(str, ids)), "--logits",
                        str(out), "-n", "0"], check=True, capture_output=True, text=True)
        return np.load(out)


@torch.no_grad()
def torch_logits(model, ids):
    """F32 [n_tokens, n_vocab]."""
    return model(input_ids=torch.tensor([ids])).logits[0].float().numpy()


def token_kl(p_logits, q_logits):
    """KL(p || q) of each token, in nats; row by row, so that a large vocabulary needs no F64 copy of the whole."""
    out = []
    for p_row, q_row in zip(p_logits, q_logits, strict=True):
        p, q = (torch.log_softmax(torch.from_numpy(x).double(), 0) for x in (p_row, q_row))
        out.append(float((p.exp() * (p - q)).sum()))
    return out


def measure(args, path, model, sequences, adapter=None):
    """(mean, 99th percentile) over all tokens of all sequences."""
    kl = [k for ids in sequences for k in token_kl(torch_logits(model, ids), engine_logits(args, path, ids, adapter))]
    return float(np.mean(kl)), float(np.percentile(kl, 99)), len(kl)


def with_invocation(sequences, invocation):
    """The invocation sequence near the start of each text, so that an aLoRA acts on most tokens."""
    return [(ids[:N_CONTEXT_ALORA] + invocation + ids[N_CONTEXT_ALORA:])[:N_TOKENS] for ids in sequences]


def report(name, result, base=None):
    """One line of the table; the ratios to the base's numbers."""
    mean, p99, n = result
    ratios = [mean / base[0], p99 / base[1]] if base else []
    print(f"{name:28s} {mean:10.6f} {p99:10.6f} {n:6d} " + " ".join(f"{r:7.3f}" for r in ratios), flush=True)
    return ratios


def check_adapters(args):
    """The default model and each adapter of examples/adapters. An aLoRA is compared with the base on its own input."""
    tok, base = load_tokenizer(DEFAULT_MODEL), load_model(DEFAULT_MODEL)
    sequences = [tok(t, add_special_tokens=False).input_ids[:N_TOKENS] for t in TEXTS]
    plain = measure(args, DEFAULT_MODEL, base, sequences)
    report("base", plain)
    faults = []
    for folder in sorted(p for p in ADAPTERS.iterdir() if p.is_dir()):
        model = PeftModel.from_pretrained(base, folder).eval()
        invocation = model.peft_config["default"].alora_invocation_tokens
        inputs, reference = sequences, plain
        if invocation:
            inputs = with_invocation(sequences, invocation)
            with model.disable_adapter():
                reference = measure(args, DEFAULT_MODEL, model, inputs)
            report(f"base on {folder.name}'s input", reference)
        ratios = report(folder.name, measure(args, DEFAULT_MODEL, model, inputs, folder), reference)
        if max(ratios) > args.ratio:
            faults.append(f"{folder.name}: KL is {max(ratios):.3f} times the base's")
        base = model.unload()
    return faults


def check_gemma(args):
    """The base alone, past its sliding window."""
    tok, model = load_tokenizer(GEMMA_MODEL), load_model(GEMMA_MODEL)
    ids = tok("\n\n".join(TEXTS)).input_ids[:N_TOKENS_GEMMA]
    result = measure(args, GEMMA_MODEL, model, [ids])
    report("gemma base", result)
    return [f"gemma: mean KL is {result[0]:.4f}"] if result[0] > GEMMA_LIMIT else []


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--patchbay", default=os.environ.get("PATCHBAY", str(REPO / "build" / "release" / "bin" / "patchbay")))
    ap.add_argument("--ratio", type=float, default=1.10)
    ap.add_argument("--skip-gemma", action="store_true")
    args = ap.parse_args()
    torch.set_num_threads(2)
    print(f"{'':28s} {'mean KL':>10s} {'p99 KL':>10s} {'tokens':>6s}   ratios to base")
    faults = check_adapters(args)
    if not args.skip_gemma:
        faults += check_gemma(args)
    sys.exit("\n".join(faults) or 0)


if __name__ == "__main__":
    main()
