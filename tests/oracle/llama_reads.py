#!/usr/bin/env python3
"""What `patchbay convert` writes, as llama-server reads it: the same numbers where the file is plain, a refusal where it is not.

    LLAMA_SERVER=/path/to/llama-server python tests/oracle/llama_reads.py

The plain adapters of examples/adapters, which PEFT has written, become GGUF files and are served by both servers over one F32 base,
made of the default model; compared are the log-probabilities of the 50 likeliest tokens after three prompts. Then every kind of
tensor that plain pairs cannot say is added to one of them, and llama-server must not start. Exit code 1 when something differs.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tests" / "server"), str(ROOT / "tests" / "cli")]

import gguf_edit  # noqa: E402
from command import PATCHBAY  # noqa: E402
from llama_peer import LLAMA_SERVER, LlamaServerProcess, environment, llama_version  # noqa: E402
from server_process import ServerProcess  # noqa: E402

MODEL = ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf"
NAMES = ("pirate", "json", "sentiment")
PROMPTS = ("The sea is", "Write this order as JSON:", "<|im_start|>user\nTell me about cats.<|im_end|>\n<|im_start|>assistant\n")
N_EMBD, N_Q = 576, 576
# Of each role that docs/adapters.md lists, one tensor that would fit the base.
EXTRAS = {
    "dora_m": {"blk.20.attn_q.weight.patchbay_dora_m": np.ones(N_Q, np.float32)},
    "lora_bias": {"blk.20.attn_q.weight.patchbay_lora_bias": np.ones(N_Q, np.float32)},
    "bias": {"blk.0.attn_q.weight.patchbay_bias": np.ones(N_Q, np.float32)},
    "norm": {"blk.0.attn_norm.weight.patchbay_norm": np.ones(N_EMBD, np.float32)},
    "rows": {"token_embd.weight.patchbay_rows": np.ones((1, N_EMBD), np.float32),
             "token_embd.weight.patchbay_row_ids": np.array([5], np.int32)},
    "weight": {"blk.0.attn_q.weight.patchbay_weight": np.ones((N_Q, N_EMBD), np.float32)},
}
TOLERANCE = 5e-3  # logits of size 10 to 20, summed in another order


def patchbay(*arguments):
    subprocess.run([PATCHBAY, *map(str, arguments)], check=True, capture_output=True, timeout=300)


def likeliest(server, prompt):
    """{token: log-probability}"""
    wish = {"prompt": prompt, "n_predict": 1, "temperature": 0, "n_probs": 50, "cache_prompt": False}
    status, _, body = server.post("/completion", wish)
    assert status == 200, body
    return {one["id"]: one["logprob"] for one in body["completion_probabilities"][0]["top_logprobs"]}


def difference(one, other):
    """Of tokens that both name; the last few may swap places with others that are as likely."""
    common = set(one) & set(other)
    assert len(common) > 45, (one, other)
    return max(abs(one[token] - other[token]) for token in common)


def compare(base, adapter):
    """How far apart the servers are, and how far the adapter moves ours."""
    flags = ("--lora", adapter, "-c", 512)
    with ServerProcess(base, *flags, "--cache-type", "f32", n_threads=2) as ours, \
            LlamaServerProcess(base, *flags, "-ctk", "f32", "-ctv", "f32", "-fa", "off") as theirs:
        answers = [(likeliest(ours, prompt), likeliest(theirs, prompt)) for prompt in PROMPTS]
    with ServerProcess(base, "-c", 512, "--cache-type", "f32", n_threads=2) as bare:
        moved = [max(abs(likeliest(bare, prompt).get(token, -20) - logprob) for token, logprob in mine.items())
                 for prompt, (mine, _) in zip(PROMPTS, answers)]
    return max(difference(*pair) for pair in answers), max(moved)


def refusal(base, adapter):
    command = [LLAMA_SERVER, "-m", base, "--lora", adapter, "--port", "1"]
    done = subprocess.run(list(map(str, command)), env=environment(), capture_output=True, text=True, timeout=120)
    lines = [line for line in done.stderr.splitlines() if "unexpected suffix" in line]
    return lines[0] if done.returncode != 0 and lines else None


def main():
    if not LLAMA_SERVER:
        sys.exit("LLAMA_SERVER names no program")
    faults = []
    with tempfile.TemporaryDirectory() as tmp:
        folder = Path(tmp)
        base = folder / "base.gguf"
        patchbay("merge", "-m", MODEL, "--lora", f"{ROOT}/examples/adapters/pirate:0.001", "--type", "f32", "-o", base)
        print(f"llama-server {llama_version()}; largest differences of log-probabilities")
        for name in NAMES:
            adapter = folder / f"{name}.gguf"
            patchbay("convert", ROOT / "examples/adapters" / name, "-o", adapter, "--base", base, "--type", "f32")
            apart, moved = compare(base, adapter)
            print(f"{name}: {apart:.2g} between the servers, {moved:.2g} from the base")
            if not apart < TOLERANCE < moved / 10:
                faults.append(name)
        for role, tensors in EXTRAS.items():
            f = gguf_edit.load(folder / "pirate.gguf")
            f.tensors |= tensors
            gguf_edit.save(f, folder / "extra.gguf")
            said = refusal(base, folder / "extra.gguf")
            print(f"{role}: {said}")
            if said is None:
                faults.append(role)
    sys.exit(f"not as it has to be: {faults}" if faults else 0)


if __name__ == "__main__":
    main()
