#!/usr/bin/env python3
"""What rounding costs a merged model, beside llama.cpp's own way to one.

    python merge_kl.py --llama-bin DIR [--patchbay build/release/bin/patchbay]

For bases of several types, made of the models in models/: U is the merge in F32, which is not rounded. The figures are
mean KL(U || X) in nats over tokens of kl_texts.py, computed by this program's engine for every X:

    ours    `patchbay merge`, each tensor in the base's type
    alone   U quantised to that type by llama-quantize: what rounding costs without any merging
    theirs  `llama-export-lora`, which always writes F16
    f16     `patchbay merge --type f16`, to compare with theirs

Exit code 1 when ours is above alone times RATIO_LIMIT, or for the F32 base the logits of U are further than EXACT_LIMIT
from those of base and adapter. Needs numpy, and llama.cpp's tools in DIR.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

REPO = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "tests" / "cli"))

from gguf_writer import write_gguf
from kl_texts import TEXTS

SMOLLM2 = REPO / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
GEMMA = REPO / "models" / "gemma-3-270m-q4_k_m.gguf"
RATIO_LIMIT = 1.1
EXACT_LIMIT = 1e-4
N_RANK = 8
SIZE = 0.05  # of the change of each product, beside its input
N_TOKENS, N_TEXTS = 160, 3


class Tools:
    """The two programs."""

    def __init__(self, patchbay, llama_bin, folder):
        self.patchbay, self.llama_bin, self.folder = patchbay, Path(llama_bin), folder

    def run(self, *command):
        """Standard output, and the seconds it took."""
        start = time.monotonic()
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{command[:3]} failed: {done.stderr[-2000:]}")
        return done.stdout, time.monotonic() - start

    def tokens(self, model, text):
        return json.loads(self.run(self.patchbay, "tokenize", "-m", model, "-p", text, "--json")[0])["tokens"]

    def logits(self, model, ids, *options):
        out = self.folder / "logits.npy"
        self.run(self.patchbay, "run", "-m", model, "-n", 0, "--cache-type", "f32", "--tokens", ",".join(map(str, ids)),
                 "--logits", out, *options)
        return np.load(out)

    def merge(self, base, adapter, out, *options):
        return self.run(self.patchbay, "merge", "-m", base, "--lora", adapter, "-o", out, *options)[1]

    def quantize(self, source, out, kind, *options):
        self.run(self.llama_bin / "llama-quantize", "--allow-requantize", *options, source, out, kind, 2)

    def export_lora(self, base, adapter, out):
        return self.run(self.llama_bin / "llama-export-lora", "-m", base, "--lora", adapter, "-o", out)[1]


def write_random_adapter(tools, base, path):
    """On every matrix of every layer, as `patchbay inspect` lists them."""
    report = json.loads(tools.run(tools.patchbay, "inspect", base, "--tensors", "--json")[0])
    rng = np.random.default_rng(1)
    tensors = {}
    for use in report["adaptable"]["uses"]:
        if not use["name"].startswith("blk."):
            continue  # llama-export-lora knows tied heads no more than llama.cpp does
        n_in, n_out = use["shape"][:2]
        tensors[use["name"] + ".lora_a"] = (rng.standard_normal((N_RANK, n_in)) / np.sqrt(n_in)).astype(np.float32)
        tensors[use["name"] + ".lora_b"] = (SIZE * rng.standard_normal((n_out, N_RANK)) / np.sqrt(N_RANK)).astype(np.float32)
    return write_gguf(path, {"general.architecture": report["architecture"], "general.type": "adapter",
                             "adapter.type": "lora", "adapter.lora.alpha": float(N_RANK)}, tensors)


def log_softmax(logits):
    logits = logits.astype(np.float64)
    logits -= logits.max(axis=-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def mean_kl(p_logits, q_logits):
    p, q = log_softmax(p_logits), log_softmax(q_logits)
    return float((np.exp(p) * (p - q)).sum(axis=-1).mean())


def all_logits(tools, model, samples):
    return np.concatenate([tools.logits(model, ids) for ids in samples])


def check_exact(tools, base, adapter, samples):
    """The F32 base: merged against worn."""
    merged = tools.folder / "exact.gguf"
    tools.merge(base, adapter, merged)
    worst = max(float(np.abs(tools.logits(merged, ids) - tools.logits(base, ids, "--lora", adapter)).max())
                for ids in samples)
    print(f"F32 base, merged against worn: logits differ by {worst:.2g} at most", flush=True)
    return worst < EXACT_LIMIT


def check_rounding(tools, name, base, adapter, samples, kind, quantize_options):
    """One row of the table."""
    whole, ours, alone, theirs, f16 = (tools.folder / f"{part}.gguf" for part in ("whole", "ours", "alone", "theirs", "f16"))
    tools.merge(base, adapter, whole, "--type", "f32")
    seconds_ours = tools.merge(base, adapter, ours)
    tools.quantize(whole, alone, kind, *quantize_options)
    seconds_theirs = tools.export_lora(base, adapter, theirs)
    tools.merge(base, adapter, f16, "--type", "f16")
    wanted = all_logits(tools, whole, samples)
    files = {"ours": ours, "alone": alone, "theirs": theirs, "f16": f16}
    kl = {part: mean_kl(wanted, all_logits(tools, model, samples)) for part, model in files.items()}
    figures = ", ".join(f"{part} {kl[part]:.3e} ({path.stat().st_size / 1e6:.0f} MB)" for part, path in files.items())
    print(f"{name:18} KL {figures}; s ours {seconds_ours:.2f}, theirs {seconds_theirs:.2f}", flush=True)
    return kl["ours"] <= RATIO_LIMIT * kl["alone"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patchbay", default=REPO / "build/release/bin/patchbay")
    parser.add_argument("--llama-bin", required=True)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as tmp:
        tools = Tools(arguments.patchbay, arguments.llama_bin, Path(tmp))
        passed = []
        plain, adapter = tools.folder / "plain.gguf", write_random_adapter(tools, SMOLLM2, tools.folder / "smollm2.gguf")
        tools.quantize(SMOLLM2, plain, "F32")
        samples = [tools.tokens(SMOLLM2, text)[:N_TOKENS] for text in TEXTS[:N_TEXTS]]
        passed.append(check_exact(tools, plain, adapter, samples))
        for kind in ("Q8_0", "Q4_1", "Q4_0"):
            base = tools.folder / "base.gguf"
            tools.quantize(plain, base, kind, "--pure")
            passed.append(check_rounding(tools, f"SmolLM2 {kind}", base, adapter, samples, kind, ["--pure"]))
        adapter = write_random_adapter(tools, GEMMA, tools.folder / "gemma.gguf")
        samples = [tools.tokens(GEMMA, text)[:N_TOKENS] for text in TEXTS[:N_TEXTS]]
        passed.append(check_rounding(tools, "Gemma 3 Q4_K_M", GEMMA, adapter, samples, "Q4_K_M", []))
    sys.exit(0 if all(passed) else 1)


if __name__ == "__main__":
    main()
