"""`patchbay merge`, `extract` and `inspect --plot`: what they write, say and refuse, and what they leave behind."""

import json
import os
import resource
import shutil
import signal
import subprocess
import time
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from command import FAILURE, PATCHBAY, ROOT, USAGE, patchbay, refusal
from gguf_writer import write_gguf
from test_inspect import Q, adapter_metadata, adapter_tensors, base_metadata, base_tensors

MODEL = ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf"
PIRATE = ROOT / "examples/adapters/pirate"
needs_model = pytest.mark.skipif(not MODEL.exists(), reason=f"{MODEL} is not there (scripts/setup)")


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def base(tmp_path, rng):
    return write_gguf(tmp_path / "base.gguf", base_metadata(), base_tensors(rng))


@pytest.fixture
def adapter(tmp_path, rng):
    metadata = adapter_metadata()
    del metadata["adapter.alora.invocation_tokens"]
    return write_gguf(tmp_path / "adapter.gguf", metadata, adapter_tensors(rng))


def merge_json(*arguments):
    done = patchbay("merge", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def inspect_json(*arguments):
    done = patchbay("inspect", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def has_nameless_files(folder):
    """Whether the file system can keep a file without a name, as most but not all can."""
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY))
    except OSError:
        return False
    return True


def logits(model, out, *arguments):
    done = patchbay("run", "-m", model, "-n", 0, "-q", "--tokens", "1,5,3,2,7", "--logits", out, "--cache-type", "f32",
                    *arguments)
    assert done.returncode == 0, done.stderr
    return np.load(out)


def test_merged_says_what_the_base_says_with_the_adapter(base, adapter, tmp_path):
    out = tmp_path / "merged.gguf"
    report = merge_json("-m", base, "--lora", f"{adapter}:0.5", "-o", out)
    # A changed look-up alone unties the head: four changed tensors and one new one.
    assert report["n_changed"] == 4
    assert report["n_tensors"] == len(inspect_json(base, "--tensors")["tensors"]) + 1
    assert report["size_bytes"] == out.stat().st_size
    wanted = logits(base, tmp_path / "a.npy", "--lora", f"{adapter}:0.5")
    got = logits(out, tmp_path / "b.npy")
    assert np.abs(got - wanted).max() < 1e-4
    assert np.abs(logits(base, tmp_path / "c.npy") - wanted).max() > 1e-2
    metadata = inspect_json(out)["metadata"]
    assert metadata["general.name"]["value"] == "tiny + adapter:0.5"
    assert metadata["patchbay.merged.names"]["n_items"] == 1


def test_a_type_and_splits_are_honoured(base, adapter, tmp_path):
    report = merge_json("-m", base, "--lora", adapter, "--type", "f16", "--split-max-size", 600, "-o",
                        tmp_path / "out.gguf")
    assert len(report["files"]) > 3
    found = inspect_json(report["files"][0], "--tensors")
    assert found["n_shards"] == len(report["files"])
    assert {tensor["type"] for tensor in found["tensors"] if len(tensor["shape"]) > 1} == {"f16"}


def test_a_dry_run_writes_nothing(base, adapter, tmp_path):
    report = merge_json("-m", base, "--lora", adapter, "-o", tmp_path / "out.gguf", "--dry-run")
    assert report["dry_run"] and report["n_changed"] == 4
    assert names(tmp_path) == ["adapter.gguf", "base.gguf"]


def test_combining_is_not_summing(base, adapter, tmp_path):
    out = tmp_path / "out.gguf"
    reports = [merge_json("-m", base, "--lora", f"a={adapter}", "--lora", f"b={adapter}", "-o", out, *options)
               for options in ([], ["--combine", "linear"], ["--combine", "ties", "--density", "0.5"])]
    changes = [next(one["relative_change"] for one in report["changed"] if one["name"] == Q) for report in reports]
    # Twice the change; (2 A)(2 B) is four times.
    assert changes[1] == pytest.approx(2 * changes[0], rel=1e-4)
    assert changes[2] < changes[1]


@pytest.mark.parametrize("arguments, exit_code, problem", [
    (["--lora", "ADAPTER", "-o", "BASE"], FAILURE, "is read by the same command"),
    (["--lora", "ADAPTER", "-o", "OUT", "--combine", "ties"], USAGE, "needs --density"),
    (["--lora", "ADAPTER", "-o", "OUT", "--density", "0.5"], USAGE, "--density is for"),
    (["--lora", "ADAPTER", "-o", "OUT", "--type", "q4_0"], USAGE, "none of f32, f16, bf16, q8_0"),
    (["-o", "OUT"], FAILURE, "nothing to merge"),
    (["--lora", "ADAPTER:0", "-o", "OUT"], FAILURE, "nothing to merge"),
    (["--lora", "ADAPTER", "-o", "missing/out.gguf"], FAILURE, "cannot be written"),
    (["--lora", "ALORA", "-o", "OUT"], FAILURE, "--allow-alora"),
    (["--lora", "STRANGER", "-o", "OUT"], FAILURE, "has no partner"),
])
def test_refusals_leave_nothing(base, adapter, tmp_path, rng, arguments, exit_code, problem):
    tensors = adapter_tensors(rng)
    write_gguf(tmp_path / "alora.gguf", adapter_metadata(), tensors)
    tensors["blk.7.attn_q.weight.lora_a"] = tensors.pop(f"{Q}.lora_a")
    tensors["blk.7.attn_q.weight.lora_b"] = tensors.pop(f"{Q}.lora_b")
    write_gguf(tmp_path / "stranger.gguf", adapter_metadata(), tensors)
    before = names(tmp_path)
    words = {"ADAPTER": "adapter.gguf", "BASE": "base.gguf", "OUT": "out.gguf", "ALORA": "alora.gguf",
             "STRANGER": "stranger.gguf", "ADAPTER:0": "adapter.gguf:0"}
    done = patchbay("merge", "-m", base, *(words.get(word, word) for word in arguments), cwd=tmp_path)
    assert problem in refusal(done, exit_code)
    assert names(tmp_path) == before


def test_a_full_disk_leaves_nothing(base, adapter, tmp_path):
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    done = patchbay("merge", "-m", base, "--lora", adapter, "-o", tmp_path / "out.gguf", preexec_fn=limit)
    assert "cannot be written" in refusal(done, FAILURE)
    assert names(tmp_path) == ["adapter.gguf", "base.gguf"]


def size_of_open_file(descriptor, folder):
    """0: it is not of this folder, or closed by now."""
    try:
        return os.stat(descriptor).st_size if os.readlink(descriptor).startswith(str(folder)) else 0
    except FileNotFoundError:
        return 0


@needs_model
@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_killed_midway_it_leaves_nothing(tmp_path, which):
    command = [PATCHBAY, "merge", "-m", MODEL, "--lora", PIRATE, "--type", "f32", "-t", "1", "-o", tmp_path / "out.gguf"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        folder = f"/proc/{process.pid}/fd"
        while process.poll() is None:  # until some of it is written
            if any(size_of_open_file(f"{folder}/{fd}", tmp_path) > 1 << 20 for fd in os.listdir(folder)):
                break
            time.sleep(0.001)
        process.send_signal(which)
    assert process.returncode == -which
    assert not (tmp_path / "out.gguf").exists()
    assert names(tmp_path) == [] or not has_nameless_files(tmp_path)


@needs_model
def test_memory_stays_below_three_of_the_largest_tensor(tmp_path):
    largest = 49152 * 576 * 4
    for kind in ("q8_0", "f32"):
        done = subprocess.run(["python3", "-c", "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, "
                               "stdout=subprocess.DEVNULL); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)",
                               PATCHBAY, "merge", "-m", MODEL, "--lora", PIRATE, "--type", kind, "-o", tmp_path / "out.gguf"],
                              capture_output=True, text=True, timeout=120, check=True)
        assert int(done.stdout) * 1024 < 3 * largest + (200 << 20)


def test_extract_gets_back_what_was_merged(base, adapter, tmp_path):
    merged, out = tmp_path / "merged.gguf", tmp_path / "out.gguf"
    merge_json("-m", base, "--lora", adapter, "-o", merged)
    done = patchbay("extract", "--base", base, "--tuned", merged, "--rank", 3, "-o", out, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert {pair["target"]: pair["n_rank"] for pair in report["pairs"]} == {
        Q: 3, "blk.1.attn_q.weight": 3, "blk.1.ffn_down.weight": 3, "token_embd.weight": 3}
    assert min(pair["energy"] for pair in report["pairs"]) > 0.999
    wanted = logits(merged, tmp_path / "a.npy")
    assert np.abs(logits(base, tmp_path / "b.npy", "--lora", out) - wanted).max() < 1e-3


def test_extract_refuses_what_cannot_be_meant(base, tmp_path):
    out = tmp_path / "out.gguf"
    both = ["extract", "--base", base, "--tuned", base]
    assert "nothing to extract" in refusal(patchbay(*both, "--rank", 4, "-o", out), FAILURE)
    assert "needs --energy" in refusal(patchbay(*both, "--rank", "auto", "-o", out), USAGE)
    assert "read by the same command" in refusal(patchbay(*both, "--rank", 4, "-o", base), FAILURE)


def test_no_command_writes_over_what_it_reads(base, adapter, tmp_path):
    wide = tmp_path / "wide.gguf"
    assert patchbay("merge", "-m", base, "--lora", adapter, "-o", wide, "--split-max-size", 600).returncode == 0
    shards = sorted(tmp_path.glob("wide-*.gguf"))
    assert len(shards) > 2
    folder = tmp_path / "folder"
    assert patchbay("convert", adapter, "-o", folder, "--reverse", "-b", base).returncode == 0
    svg = shutil.copy(adapter, tmp_path / "adapter.svg")
    read = [base, adapter, *shards, *folder.iterdir(), Path(svg)]
    before = {path: path.read_bytes() for path in read}
    weights = folder / "adapter_model.safetensors"
    for command in (("merge", "-m", base, "--lora", adapter, "-o", adapter), ("merge", "-m", base, "--lora", folder, "-o", weights),
                    ("merge", "-m", shards[0], "--lora", adapter, "-o", wide, "--split-max-size", 600),
                    ("merge", "-m", shards[0], "--lora", adapter, "-o", shards[1]),
                    ("extract", "-b", base, "--tuned", shards[0], "-r", 1, "-o", shards[2]),
                    ("convert", folder, "-b", base, "-o", base, "--force"), ("convert", folder, "-b", base, "-o", weights, "--force"),
                    ("inspect", svg, "-b", base, "--plot", svg)):
        done = patchbay(*command)
        assert done.returncode == 1 and b"read by the same command" in done.stderr, (command, done.stderr)
    assert {path: path.read_bytes() for path in read} == before


def test_dry_runs_say_what_writing_would(base, adapter, tmp_path):
    there = tmp_path / "there.gguf"
    there.write_bytes(b"x")
    nowhere = tmp_path / "none" / "x.gguf"
    assert patchbay("merge", "-m", base, "--lora", adapter, "-o", nowhere, "--dry-run").returncode == 1
    for output in (there, nowhere):
        assert patchbay("convert", adapter, "-b", base, "-o", output, "--dry-run").returncode == 1
    assert patchbay("convert", adapter, "-b", base, "-o", tmp_path / "new.gguf", "--dry-run").returncode == 0
    assert [path.name for path in tmp_path.iterdir() if path not in (base, adapter)] == ["there.gguf"]


def test_plots_are_pictures(base, adapter, tmp_path):
    png, svg = tmp_path / "norms.png", tmp_path / "norms.SVG"
    for path in (png, svg):
        assert patchbay("inspect", adapter, "--base", base, "--plot", path).returncode == 0
    assert png.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    root = ElementTree.fromstring(svg.read_bytes())
    assert root.tag.endswith("svg")
    # Two layers and what is in none, three modules, a hundred colours of the scale, and the paper.
    assert sum(1 for _ in root.iter("{http://www.w3.org/2000/svg}path")) + sum(
        1 for _ in root.iter("{http://www.w3.org/2000/svg}rect")) >= 3 * 3 + 100


def test_inspect_says_how_far_weights_move(base, adapter, rng):
    report = inspect_json(adapter, "--base", base, "--tensors")
    pair = next(pair for pair in report["pairs"] if pair["target"] == Q)
    assert pair["relative_change"] == pytest.approx(pair["norm_delta"] / pair["norm_weight"])
    weights = base_tensors(np.random.default_rng(7))
    assert pair["norm_weight"] == pytest.approx(np.linalg.norm(weights[Q]), rel=1e-5)
    assert any("of their norm" in line for line in report["fit"]["outlook"])


def test_lengths_and_new_numbers_count_as_they_move_weights(base, tmp_path, rng):
    weights = base_tensors(np.random.default_rng(7))
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((2, weights[Q].shape[1]), (weights[Q].shape[0], 2)))
    lengths = rng.uniform(1, 3, len(weights[Q])).astype(np.float32)
    norm = "blk.0.attn_norm.weight"
    new = rng.standard_normal(weights[norm].shape).astype(np.float32)
    tensors = {Q + ".lora_a": a, Q + ".lora_b": b, Q + ".patchbay_dora_m": lengths, norm + ".patchbay_norm": new}
    metadata = {k: v for k, v in adapter_metadata().items() if "alora" not in k}
    adapter = write_gguf(tmp_path / "dora.gguf", metadata, tensors)
    alone = inspect_json(adapter)
    assert not alone["problems"] and any("2 tensors say what pairs alone cannot" in note for note in alone["notes"])
    report = inspect_json(adapter, "--base", base, "--tensors")
    changed = weights[Q] + 3 * (b @ a)
    changed *= (lengths / np.linalg.norm(changed, axis=1))[:, None]
    moved = {one["tensor"]: one["relative_change"] for one in report["movements"]}
    assert moved == pytest.approx({Q: np.linalg.norm(changed - weights[Q]) / np.linalg.norm(weights[Q]),
                                   norm: np.linalg.norm(new - weights[norm]) / np.linalg.norm(weights[norm])}, rel=1e-4)
    text = patchbay("inspect", adapter, "--base", base, "--tensors").stdout.decode()
    assert "other tensors that move" in text and norm in text


def test_of_experts_the_one_that_moves_most_counts(tmp_path, rng):
    n_expert, n_ff = 3, 16
    metadata = base_metadata() | {"llama.expert_count": n_expert, "llama.expert_used_count": 2}
    tensors = {name: array for name, array in base_tensors(rng).items() if "ffn_" not in name or "norm" in name}
    for il in range(2):
        tensors[f"blk.{il}.ffn_gate_inp.weight"] = rng.standard_normal((n_expert, 8)).astype(np.float32)
        for name, shape in {"gate": (n_ff, 8), "up": (n_ff, 8), "down": (8, n_ff)}.items():
            tensors[f"blk.{il}.ffn_{name}_exps.weight"] = rng.standard_normal((n_expert, *shape)).astype(np.float32)
    base = write_gguf(tmp_path / "base.gguf", metadata, tensors)
    up = "blk.1.ffn_up_exps.weight"
    a = rng.standard_normal((n_expert, 2, 8)).astype(np.float32)
    b = rng.standard_normal((n_expert, n_ff, 2)).astype(np.float32) * np.array([1, 5, 2], np.float32)[:, None, None]
    adapter = write_gguf(tmp_path / "adapter.gguf", adapter_metadata(), {up + ".lora_a": a, up + ".lora_b": b})
    pair = inspect_json(adapter, "--base", base, "--tensors")["pairs"][0]
    changes = [3 * np.linalg.norm(b[i] @ a[i]) / np.linalg.norm(tensors[up][i]) for i in range(n_expert)]
    assert pair["relative_change"] == pytest.approx(max(changes), rel=1e-5)


def test_plots_need_a_base_and_a_known_kind(base, adapter, tmp_path):
    assert "needs --base" in refusal(patchbay("inspect", adapter, "--plot", tmp_path / "a.png"), USAGE)
    done = patchbay("inspect", adapter, "--base", base, "--plot", tmp_path / "a.jpg")
    assert "neither in .png nor in .svg" in refusal(done, USAGE)
