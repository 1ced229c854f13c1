"""Runs the engine over every oracle case and compares its logits with PEFT's. Needs numpy and pytest, no torch.

    PATCHBAY=build/release/bin/patchbay pytest tests/oracle/test_cases.py
"""

import json
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import derive_cases
import gguf_edit

REPO = Path(__file__).resolve().parents[2]
DATA = REPO / "tests" / "data" / "oracle"
BINARY = Path(os.environ.get("PATCHBAY", REPO / "build" / "release" / "bin" / "patchbay"))
TABLE = json.loads((DATA / "cases.json").read_text())
CASES = {c["name"]: c for c in TABLE["cases"]}
BASES = {b["name"]: b for b in TABLE["bases"]}
# F32 against F32 in another order of summing: differences are below 1e-4, while a wrong reading is off by more than 1.
TOLERANCE = 1e-3


def by_name(records):
    return pytest.mark.parametrize("record", records, ids=[r["name"] for r in records])


@pytest.fixture(scope="session")
def derived(tmp_path_factory):
    """Folder with all derived adapter folders."""
    out = tmp_path_factory.mktemp("derived")
    derive_cases.derive_all(DATA, out)
    return out


class Run:
    """One call of the engine: exit code, error text, and the logits file if there is one."""

    def __init__(self, base, out, *lora, form="auto", flags=()):
        out = out / "logits.npy"
        out.unlink(missing_ok=True)
        ids = ",".join(map(str, BASES[base]["ids"]))
        command = [BINARY, "run", "-m", DATA / "bases" / f"{base}.gguf", *lora, "--tokens", ids, "--logits", out, "-n", "0",
                   "--cache-type", "f32", "--lora-form", form, *flags]
        done = subprocess.run([str(x) for x in command], capture_output=True, text=True, timeout=120)
        self.code, self.stderr, self.path = done.returncode, done.stderr, out

    def logits(self):
        assert self.code == 0, self.stderr
        return np.load(self.path)

    def check_close(self, golden):
        """Prints the largest difference when it is too large."""
        want, got = np.load(DATA / "golden" / f"{golden}.npy"), self.logits()
        assert got.dtype == np.float32 and got.shape[1] == want.shape[1]
        difference = np.abs(got[-len(want):] - want).max()
        assert difference < TOLERANCE, f"logits differ by {difference:.3g}"

    def check_refused(self, reasons):
        """A refusal is exit code 1 with every reason in the error text and no logits left behind; a crash is not one."""
        assert self.code == 1, f"exit code {self.code}: {self.stderr}"
        assert not self.path.exists()
        for reason in reasons:
            assert re.search(reason, self.stderr, re.IGNORECASE), f"{reason!r} is not in: {self.stderr}"


def folder_of(case, derived):
    return (derived if case["derive"] else DATA / "adapters") / case["name"]


def check_case(run, case):
    if case["want"] == "refuse" or (case["want"] == "may" and run.code != 0):
        run.check_refused(case["reason"])
    else:
        run.check_close(case["golden"])


@by_name(TABLE["bases"])
def test_base_alone_agrees_with_transformers(record, tmp_path):
    run = Run(record["name"], tmp_path)
    run.check_close(record["golden"])
    assert len(run.logits()) == len(record["ids"])


in_both_forms = pytest.mark.parametrize("lora_form", ["portable", "fused"])


@in_both_forms
@by_name(TABLE["cases"])
def test_peft_folder_agrees_with_peft_or_is_refused(record, lora_form, tmp_path, derived):
    flags = record.get("flags", [])
    check_case(Run(record["base"], tmp_path, "--lora", folder_of(record, derived), form=lora_form, flags=flags), record)


@by_name([c for c in TABLE["cases"] if "--allow-full-modules" in c.get("flags", [])])
def test_whole_matrices_are_refused_with_their_size_unless_allowed(record, tmp_path, derived):
    run = Run(record["base"], tmp_path, "--lora", folder_of(record, derived))
    run.check_refused(["modules_to_save", r"\d MiB", "--allow-full-modules"])


@by_name([c for c in TABLE["cases"] if (DATA / "adapters_gguf" / f"{c['name']}.gguf").exists()])
def test_gguf_adapter_agrees_with_peft(record, tmp_path):
    path = DATA / "adapters_gguf" / f"{record['name']}.gguf"
    Run(record["base"], tmp_path, "--lora", path, flags=record.get("flags", [])).check_close(record["golden"])


def convert(*arguments):
    done = subprocess.run([str(x) for x in (BINARY, "convert", *arguments)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


SUPPORTED = [c for c in TABLE["cases"] if c["want"] == "must"]


@by_name(SUPPORTED)
def test_converted_folder_agrees_with_peft(record, tmp_path, derived):
    base = DATA / "bases" / f"{record['base']}.gguf"
    flags = record.get("flags", [])
    convert(folder_of(record, derived), "-o", tmp_path / "there.gguf", "--base", base, *flags)
    Run(record["base"], tmp_path, "--lora", tmp_path / "there.gguf", flags=flags).check_close(record["golden"])
    convert(tmp_path / "there.gguf", "-o", tmp_path / "back", "--reverse", "--base", base, *flags)
    Run(record["base"], tmp_path, "--lora", tmp_path / "back", flags=flags).check_close(record["golden"])


def scaled(parts, path_of):
    return [x for name, strength in parts for x in ("--lora-scaled", f"{path_of(name)}:{strength}")]


@in_both_forms
@pytest.mark.parametrize("form", ["peft", "gguf"])
@by_name(TABLE["mixes"])
def test_weighted_adapters_agree_with_peft(record, form, lora_form, tmp_path):
    def path_of(name):
        return DATA / "adapters" / name if form == "peft" else DATA / "adapters_gguf" / f"{name}.gguf"
    Run(record["base"], tmp_path, *scaled(record["parts"], path_of), form=lora_form).check_close(record["golden"])


@pytest.mark.parametrize("name", ["plain", "patterns", "embed_head", "tied_both", "moe_fused", "gemma_all", "alora", "dora",
                                  "lora_bias", "bias_all", "mts_norms", "trainable_tokens_tied"])
def test_strength_zero_is_the_base_bit_for_bit(name, tmp_path):
    base = CASES[name]["base"]
    alone = Run(base, tmp_path).logits()
    zero = Run(base, tmp_path, "--lora-scaled", f"{DATA / 'adapters' / name}:0").logits()
    assert alone.tobytes() == zero.tobytes()


def test_order_of_adapters_does_not_matter(tmp_path):
    def path_of(name):
        return DATA / "adapters" / name
    parts = [("plain", 0.5), ("patterns", -1.5)]
    one = Run("base", tmp_path, *scaled(parts, path_of)).logits()
    other = Run("base", tmp_path, *scaled(parts[::-1], path_of)).logits()
    assert one.tobytes() == other.tobytes()


# ------------------------------------------------------------------------------------------ broken GGUF adapters
def set_kv(key, kind, value):
    return lambda f: f.kv.__setitem__(key, (kind, value))


def rename(old, new):
    return lambda f: f.tensors.__setitem__(new, f.tensors.pop(old))


def replace(name, change):
    return lambda f: f.tensors.__setitem__(name, change(f.tensors[name]))


def put(x, value):
    x.flat[7] = value
    return x


Q = "blk.0.attn_q.weight"
BROKEN = {
    "general.type is model": (set_kv("general.type", gguf_edit.STRING, "model"), ["expect general.type to be 'adapter'"]),
    "other architecture": (set_kv("general.architecture", gguf_edit.STRING, "qwen2"), ["model arch and LoRA arch mismatch"]),
    "adapter.type is control_vector": (set_kv("adapter.type", gguf_edit.STRING, "control_vector"),
                                       ["expect adapter.type to be 'lora'"]),
    "unknown suffix": (rename(f"{Q}.lora_a", f"{Q}.lora_x"), ["has unexpected suffix", re.escape(Q)]),
    "half a pair": (lambda f: f.tensors.pop(f"{Q}.lora_b"), ["is missing one component", re.escape(Q)]),
    "wrong input width": (replace(f"{Q}.lora_a", lambda x: x[:, :-1]), ["has incorrect shape", re.escape(Q)]),
    "wrong output width": (replace(f"{Q}.lora_b", lambda x: x[:-1]), ["has incorrect shape", re.escape(Q)]),
    "ranks disagree": (replace(f"{Q}.lora_a", lambda x: x[:-1]), ["is not transposed", re.escape(Q)]),
    "A transposed": (replace(f"{Q}.lora_a", lambda x: x.T), ["has incorrect shape", "is not transposed"]),
    "a third dimension": (replace(f"{Q}.lora_a", lambda x: np.stack([x, x])), ["has incorrect shape", re.escape(Q)]),
    "NaN in B": (replace(f"{Q}.lora_b", lambda x: put(x, np.nan)), ["finite|nan", re.escape(Q)]),
    "infinity in A": (replace(f"{Q}.lora_a", lambda x: put(x, np.inf)), ["finite|inf", re.escape(Q)]),
    "alpha is NaN": (set_kv("adapter.lora.alpha", gguf_edit.FLOAT32, float("nan")), ["adapter.lora.alpha"]),
    "alpha is a word": (set_kv("adapter.lora.alpha", gguf_edit.STRING, "8"), ["adapter.lora.alpha"]),
    "no pair": (lambda f: f.tensors.clear(), ["no .*(pair|tensor)"]),
    "a layer too many": (lambda f: f.tensors.update({f"blk.9.attn_q.weight.lora_{h}": f.tensors[f"{Q}.lora_{h}"]
                                                     for h in "ab"}), ["blk.9.attn_q"]),
    "a pair on rope_freqs": (lambda f: f.tensors.update({f"rope_freqs.weight.lora_{h}": f.tensors[f"{Q}.lora_{h}"]
                                                         for h in "ab"}), ["rope_freqs"]),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_gguf_adapter_is_refused_by_name(name, tmp_path):
    change, reasons = BROKEN[name]
    f = gguf_edit.load(DATA / "adapters_gguf" / "plain.gguf")
    change(f)
    gguf_edit.save(f, tmp_path / "broken.gguf")
    Run("base", tmp_path, "--lora", tmp_path / "broken.gguf").check_refused(reasons)


def test_alpha_zero_of_a_gguf_adapter_means_the_bare_strength(tmp_path):
    f = gguf_edit.load(DATA / "adapters_gguf" / "plain.gguf")
    n_rank = f.tensors[f"{Q}.lora_b"].shape[1]
    scale = f.kv["adapter.lora.alpha"][1] / n_rank
    f.kv["adapter.lora.alpha"] = (gguf_edit.FLOAT32, 0.0)
    gguf_edit.save(f, tmp_path / "zero.gguf")
    Run("base", tmp_path, "--lora-scaled", f"{tmp_path / 'zero.gguf'}:{scale}").check_close("plain")


def test_alpha_as_f64_is_accepted(tmp_path):
    f = gguf_edit.load(DATA / "adapters_gguf" / "plain.gguf")
    f.kv["adapter.lora.alpha"] = (gguf_edit.FLOAT64, f.kv["adapter.lora.alpha"][1])
    gguf_edit.save(f, tmp_path / "f64.gguf")
    Run("base", tmp_path, "--lora", tmp_path / "f64.gguf").check_close("plain")


@pytest.mark.parametrize("n_cut", [1, 1000, 3000, -4, -100])
def test_truncated_gguf_adapter_is_refused(n_cut, tmp_path):
    raw = (DATA / "adapters_gguf" / "plain.gguf").read_bytes()
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(raw[:n_cut])
    Run("base", tmp_path, "--lora", cut).check_refused(["cut.gguf"])


@pytest.mark.parametrize("n_kept", [0, 5, 500, -1])
def test_truncated_safetensors_is_refused(n_kept, tmp_path):
    source = DATA / "adapters" / "plain"
    folder = tmp_path / "cut"
    folder.mkdir()
    (folder / "adapter_config.json").write_text((source / "adapter_config.json").read_text())
    (folder / "adapter_model.safetensors").write_bytes((source / "adapter_model.safetensors").read_bytes()[:n_kept])
    Run("base", tmp_path, "--lora", folder).check_refused(["adapter_model.safetensors"])


@pytest.mark.parametrize("name", ["missing", "a folder", "not json"])
def test_what_is_no_adapter_is_refused_by_path(name, tmp_path):
    path = tmp_path / name
    if name != "missing":
        path.mkdir()
    if name == "not json":
        (path / "adapter_config.json").write_text("{")
    Run("base", tmp_path, "--lora", path).check_refused([re.escape(name)])
