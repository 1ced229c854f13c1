#!/usr/bin/env python3
"""How far the engine's next-token distribution is from torch's on real models: for the base and with each real adapter.

    python kl.py [--patchbay build/release/bin/patchbay] [--tables 2 3] [--only sentiment ...] [--tokens 8000]

torch runs the weights of the GGUF file dequantised to F32, PEFT the adapters over them. The figure is the divergence
KL(torch || engine) of each token, in nats. Four tables; exit code 1 when a limit of one is passed:

1. Exactness. The engine runs the same weights from an F32 GGUF file with an F32 cache, so only the order of additions
   differs: about 1e-11. An adapter strength wrong by a thousandth would give 1e-7, an F16 cache 4e-7, a missing adapter
   0.1 or more. Every mean stays below EXACT_LIMIT.
2. Conversations. The engine runs the quantised file; each adapter meets held-out examples of its own task, and the base
   runs the very same tokens. The mean with the adapter is at most RATIO_LIMIT times the base's. The 99th percentile of so
   few tokens is good to a tenth or two: above RATIO_LIMIT it is marked, and fails when N_SETTLED tokens or more are
   counted; of fewer it fails above P99_LIMIT (docs/decisions/0003-divergence-of-adapters.md). The last column is the range of the ratio of the percentiles over
   resampled tokens, 5 to 95 %.
3. Generic texts. The same on texts that no adapter was trained for.
4. Gemma 3, the base alone, past its sliding window. Limit of the mean: GEMMA_LIMIT.

--tokens counts that many tokens in each row of tables 2 and 3, as far as there are held-out examples; from N_SETTLED on the
percentiles count too (8000 take 20 minutes). Generic texts beyond our own are then taken from the manual that Python
carries, so they depend a little on its version.

About eight minutes on two quiet cores: engine and torch run at the same time with one thread each. Needs torch,
transformers, peft and gguf, the models in models/, and 600 MB for a temporary file.
"""

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

REPO = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "examples" / "train"))

import gguf
import make_data
import numpy as np
import torch
from peft import PeftModel
from train import encode, load_base
from transformers import AutoModelForCausalLM, AutoTokenizer

from kl_texts import TEXTS

DEFAULT_MODEL = REPO / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
GEMMA_MODEL = REPO / "models" / "gemma-3-270m-q4_k_m.gguf"
ADAPTERS = REPO / "examples" / "adapters"
N_TOKENS = 220  # of each generic text
N_TEXTS_EXACT, N_TOKENS_EXACT = 2, 128
N_COUNTED = 1000  # at least, of each adapter's conversations
N_TOKENS_GEMMA = 640  # more than the window of its sliding layers (512)
N_RESAMPLES = 2000  # for the range of a ratio of percentiles
N_CONTEXT_ALORA = 20  # tokens before the invocation sequence in a generic text
EXACT_LIMIT = 1e-9
RATIO_LIMIT = 1.10
N_SETTLED = 4000  # tokens; of so many a tenth of the 99th percentile is more than chance
P99_LIMIT = 1.5  # of fewer; set after seeing 1.26 and 1.15 where another build had 1.07 and 1.07
GEMMA_LIMIT = 0.05  # a wrong window, norm or rope base gives several nats


@dataclass
class Sample:
    """One input of both engines; the tokens before `first` are run but not counted."""

    ids: list
    first: int = 0


@dataclass
class Divergence:
    """KL of every counted token, and the largest difference between two logits."""

    kl: np.ndarray
    logit_diff: float

    @property
    def mean(self):
        return float(self.kl.mean())

    @property
    def p99(self):
        return float(np.percentile(self.kl, 99))


class Engine:
    """The program under test with one model file."""

    def __init__(self, program, model, *options):
        # One thread: torch computes at the same time, and ggml's threads spin while they wait for each other.
        self.command = [program, "run", "-m", str(model), "-n", "0", "-t", "1", *options]

    def start(self, ids, adapter, out):
        """A running process that will write F32 [n_tokens, n_vocab] to the file `out`."""
        lora = ["--lora", str(adapter)] if adapter else []
        return subprocess.Popen([*self.command, *lora, "--tokens", ",".join(map(str, ids)), "--logits", str(out)],
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


@torch.no_grad()
def torch_logits(model, ids):
    """F32 [n_tokens, n_vocab]."""
    return model(input_ids=torch.tensor([ids])).logits[0].float().numpy()


def both_logits(engine, model, ids, adapter):
    """(torch's, the engine's) logits, F32 [n_tokens, n_vocab] each, computed side by side."""
    with tempfile.TemporaryDirectory() as tmp:
        out = Path(tmp) / "logits.npy"
        process = engine.start(ids, adapter, out)
        wanted = torch_logits(model, ids)
        _, complaint = process.communicate()
        if process.returncode != 0:
            raise RuntimeError(f"{' '.join(process.args[:4])} failed: {complaint}")
        return wanted, np.load(out)


def token_kl(p_logits, q_logits):
    """KL(p || q) of each token; row by row, so that a large vocabulary needs no F64 copy of the whole."""
    out = []
    for p_row, q_row in zip(p_logits, q_logits, strict=True):
        p, q = (torch.log_softmax(torch.from_numpy(x).double(), 0) for x in (p_row, q_row))
        out.append(float((p.exp() * (p - q)).sum()))
    return out


def measure(engine, model, samples, adapter=None):
    """The divergence over the counted tokens of all samples."""
    kl, logit_diff = [], 0.0
    for sample in samples:
        wanted, got = (x[sample.first:] for x in both_logits(engine, model, sample.ids, adapter))
        kl += token_kl(wanted, got)
        logit_diff = max(logit_diff, float(np.abs(wanted - got).max()))
    return Divergence(np.array(kl), logit_diff)


def measure_adapters(engine, base, names, inputs):
    """Yields (adapter name, divergence of the base, divergence with the adapter) on inputs(name, invocation tokens).

    The base is measured once for equal inputs.
    """
    known = {}
    for name in names:
        folder = ADAPTERS / name
        model = PeftModel.from_pretrained(base, folder).eval()
        samples = inputs(name, model.peft_config["default"].alora_invocation_tokens)
        key = tuple((tuple(s.ids), s.first) for s in samples)
        if key not in known:
            with model.disable_adapter():
                known[key] = measure(engine, model, samples)
        yield name, known[key], measure(engine, model, samples, folder)
        base = model.unload()


def generic_samples(tok, texts, n_tokens, invocation):
    """The start of each generic text. An aLoRA finds its invocation sequence early, so that it acts on most tokens."""
    samples = []
    for text in texts:
        ids = tok(text, add_special_tokens=False).input_ids
        if invocation:
            ids = ids[:N_CONTEXT_ALORA] + invocation + ids[N_CONTEXT_ALORA:]
        samples.append(Sample(ids[:n_tokens]))
    return samples


def manual_texts():
    """Passages of Python's manual, longest entries first, each long enough for N_TOKENS tokens."""
    n_chars = 6 * N_TOKENS
    for entry in sorted(topics.values(), key=len, reverse=True):
        yield from (entry[i:i + n_chars] for i in range(0, len(entry) - n_chars, n_chars))


def find(ids, part):
    """Where the sequence `part` starts in `ids`."""
    return next(i for i in range(len(ids)) if ids[i:i + len(part)] == part)


def generic_texts(n_tokens):
    """Our own texts, and as much of the manual as n_tokens tokens need."""
    n_texts = max(len(TEXTS), n_tokens // N_TOKENS)
    return TEXTS + list(itertools.islice(manual_texts(), n_texts - len(TEXTS)))


def conversation_samples(tok, name, invocation, n_wanted):
    """Held-out examples of one adapter's task, as many as give n_wanted tokens or as there are.

    All conversations start with the same system message, so a token counts only where its whole prefix is new: the same
    number is not averaged many times over. For an aLoRA only the tokens it acts on count.
    """
    samples, seen, n_counted = [], set(), 0
    for example in make_data.make(name, "held_out", n_wanted):
        prompt, answer = encode(tok, example)
        ids = prompt + answer
        prefixes = [tuple(ids[:i + 1]) for i in range(len(ids))]
        first = sum(p in seen for p in prefixes)
        seen.update(prefixes)
        if invocation:
            first = max(first, find(ids, invocation))
        if first < len(ids):
            samples.append(Sample(ids, first))
            n_counted += len(ids) - first
        if n_counted >= n_wanted:
            return samples
    if n_counted < N_COUNTED:
        raise RuntimeError(f"{name}: only {n_counted} held-out tokens")
    return samples


def write_f32(source, path):
    """The same model with every tensor as F32; all other metadata stays, and so does a head tied to the embeddings."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(path, reader.fields["general.architecture"].contents())
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type"):
            continue
        element = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), field.types[0], element)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32, copy=False))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def check_exact(program, tok, base, names):
    """Table 1. Returns the faults."""
    print("\n1. F32 weights, F32 cache, generic texts")
    print(f"{'':12s} tokens   {'mean KL':>9s} {'max KL':>9s} {'max logit diff':>14s}")
    rows = {}
    with tempfile.TemporaryDirectory() as tmp:
        path = Path(tmp) / "f32.gguf"
        write_f32(DEFAULT_MODEL, path)
        engine = Engine(program, path, "--cache-type", "f32")
        for name, plain, adapted in measure_adapters(
                engine, base, names, lambda _, invocation: generic_samples(tok, TEXTS[:N_TEXTS_EXACT], N_TOKENS_EXACT, invocation)):
            rows |= {f"{name} off": plain, f"{name} on": adapted}
            for label in (f"{name} off", f"{name} on"):
                r = rows[label]
                print(f"{label:12s} {len(r.kl):7d}  {r.mean:9.1e} {r.kl.max():9.1e} {r.logit_diff:14.1e}", flush=True)
    return [f"F32, {label}: mean KL is {r.mean:.1e}" for label, r in rows.items() if not r.mean <= EXACT_LIMIT]


def p99_ratio_range(plain, adapted):
    """The ratio of the 99th percentiles over resampled tokens, 5 and 95 %: how much the choice of tokens decides."""
    rng = np.random.default_rng(1)
    drawn = [rng.integers(len(plain.kl), size=len(plain.kl)) for _ in range(N_RESAMPLES)]
    ratios = [np.percentile(adapted.kl[i], 99) / np.percentile(plain.kl[i], 99) for i in drawn]
    return np.percentile(ratios, [5, 95])


def check_ratios(title, engine, base, names, inputs):
    """Tables 2 and 3. Returns the faults."""
    print(f"\n{title}\n{'':12s}         {'mean KL':^28s}  {'p99 KL':^28s}")
    print(f"{'':12s} tokens " + 2 * f"  {'off':>9s} {'on':>9s} {'ratio':>8s}")
    faults = []
    for name, plain, adapted in measure_adapters(engine, base, names, inputs):
        columns = [(plain.mean, adapted.mean), (plain.p99, adapted.p99)]
        cells = [f"  {off:9.6f} {on:9.6f} {on / off:8.3f}" for off, on in columns]
        missed = any(on / off > RATIO_LIMIT for off, on in columns)
        low, high = p99_ratio_range(plain, adapted)
        print(f"{name:12s} {len(plain.kl):6d} " + "".join(cells) + f"  {low:.2f} to {high:.2f}" +
              f"  above {RATIO_LIMIT}" * missed, flush=True)
        p99_limit = RATIO_LIMIT if len(plain.kl) >= N_SETTLED else P99_LIMIT
        for figure, limit, (off, on) in zip(("mean", "p99"), (RATIO_LIMIT, p99_limit), columns):
            if not on / off <= limit:
                faults.append(f"{title}, {name}: {figure} KL is {on / off:.3f} times the base's, limit {limit}")
    return faults


def check_gemma(program):
    """Table 4. Returns the faults."""
    where = dict(pretrained_model_name_or_path=str(GEMMA_MODEL.parent), gguf_file=GEMMA_MODEL.name)
    tok = AutoTokenizer.from_pretrained(**where)
    model = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32).eval()
    ids = tok("\n\n".join(TEXTS)).input_ids[:N_TOKENS_GEMMA]
    result = measure(Engine(program, GEMMA_MODEL), model, [Sample(ids)])
    print(f"\n4. Gemma 3 without adapter\n{'':12s} tokens   {'mean KL':>9s} {'p99 KL':>9s}")
    print(f"{'base':12s} {len(result.kl):6d}   {result.mean:9.6f} {result.p99:9.6f}", flush=True)
    return [f"gemma: mean KL is {result.mean:.4f}"] if not result.mean <= GEMMA_LIMIT else []


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--patchbay", default=os.environ.get("PATCHBAY", str(REPO / "build" / "release" / "bin" / "patchbay")))
    ap.add_argument("--tables", nargs="+", type=int, default=[1, 2, 3, 4])
    ap.add_argument("--only", nargs="+", default=sorted(p.name for p in ADAPTERS.iterdir() if p.is_dir()))
    ap.add_argument("--tokens", type=int, default=N_COUNTED)
    args = ap.parse_args()
    torch.set_num_threads(1)
    base, tok = load_base(DEFAULT_MODEL)
    quantised = Engine(args.patchbay, DEFAULT_MODEL)
    tables = {
        1: lambda: check_exact(args.patchbay, tok, base, args.only),
        2: lambda: check_ratios("2. Quantised, each adapter's own conversations", quantised, base, args.only,
                                lambda name, invocation: conversation_samples(tok, name, invocation, args.tokens)),
        3: lambda: check_ratios("3. Quantised, generic texts", quantised, base, args.only,
                                lambda _, invocation: generic_samples(tok, generic_texts(args.tokens), N_TOKENS, invocation)),
        4: lambda: check_gemma(args.patchbay),
    }
    faults = [fault for number in args.tables for fault in tables[number]()]
    sys.exit("\n".join(faults) or 0)


if __name__ == "__main__":
    main()
