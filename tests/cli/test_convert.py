"""`patchbay convert`: what it says, writes and refuses. What the numbers become: tests/oracle/test_families.py."""

import hashlib
import json
import os
import resource
import signal

import numpy as np
import pytest

from command import FAILURE, USAGE, patchbay, refusal
from test_inspect import N_EMBD, adapter_metadata, adapter_tensors, base_metadata, base_tensors, peft_tensors, write_peft
from gguf_writer import write_gguf


@pytest.fixture
def base(tmp_path):
    return write_gguf(tmp_path / "tiny.gguf", base_metadata(), base_tensors(np.random.default_rng(1)))


@pytest.fixture
def folder(tmp_path):
    return write_peft(tmp_path / "pirate", peft_tensors(np.random.default_rng(2)), peft_version="0.21.2")


def converted(*arguments):
    done = patchbay("convert", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return json.loads(done.stdout)


def inspected(path, base):
    return json.loads(patchbay("inspect", path, "--base", base, "--json").stdout)


def test_a_folder_becomes_a_file_that_loads(folder, base, tmp_path):
    report = converted(folder, "-o", tmp_path / "out.gguf", "--base", base)
    source = (folder / "adapter_model.safetensors").read_bytes()
    assert report["n_pairs"] == 2 and report["alpha"] == 6.0 and report["n_folded"] == 0
    assert report["ranks"] == [{"n_rank": 2, "n_pairs": 2}]
    assert report["source_sha256"] == hashlib.sha256(source).hexdigest()
    assert report["types"] == [{"type": "f32", "n_tensors": 4, "size_bytes": report["size_bytes"]}]
    shown = inspected(tmp_path / "out.gguf", base)
    assert shown["fit"]["fits"] and shown["alpha"] == 6.0 and shown["base_name"] == "someone/tiny"
    metadata = {key: entry["value"] for key, entry in shown["metadata"].items() if "value" in entry}
    assert metadata["patchbay.source.sha256"] == report["source_sha256"]
    assert metadata["patchbay.source.peft_version"] == "0.21.2"
    assert metadata["patchbay.converter"].startswith("patchbay ")


def test_the_summary_is_for_people(folder, base, tmp_path):
    done = patchbay("convert", folder, "-o", tmp_path / "out.gguf", "--base", base, "--type", "f16")
    text = done.stdout.decode()
    for part in ("converted", "llama", "2 (2 pairs)", "3 (2 pairs)", "f16 (4 tensors"):
        assert part in text, text
    assert not done.stderr


def test_q8_0_says_what_stayed_f16(folder, base, tmp_path):
    report = converted(folder, "-o", tmp_path / "out.gguf", "--base", base, "--type", "q8_0")
    assert report["types"][0]["type"] == "f16"
    assert any("q8_0: 4 of 4 tensors are f16" in note for note in report["notes"])


def test_there_and_back(folder, base, tmp_path):
    converted(folder, "-o", tmp_path / "out.gguf", "--base", base)
    converted(tmp_path / "out.gguf", "-o", tmp_path / "back", "--reverse", "--base", base)
    config = json.loads((tmp_path / "back" / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], config["use_rslora"]) == (2, 6, False)
    assert config["base_model_name_or_path"] == "someone/tiny"
    assert inspected(tmp_path / "back", base)["fit"]["fits"]


def test_a_gguf_adapter_with_an_invocation_goes_back_too(base, tmp_path):
    tensors = {k: v for k, v in adapter_tensors(np.random.default_rng(3)).items() if "token_embd" not in k}
    adapter = write_gguf(tmp_path / "in.gguf", adapter_metadata(), tensors)
    converted(adapter, "-o", tmp_path / "back", "--reverse", "--base", base)
    config = json.loads((tmp_path / "back" / "adapter_config.json").read_text())
    assert config["alora_invocation_tokens"] == [3, 4]
    assert config["rank_pattern"] == {"model.layers.1.mlp.down_proj": 3}


def test_dry_run_checks_and_writes_nothing(folder, base, tmp_path):
    before = sorted(tmp_path.iterdir())
    report = converted(folder, "--base", base, "--dry-run")
    assert report["dry_run"] and report["output"] is None and report["n_pairs"] == 2
    assert sorted(tmp_path.iterdir()) == before


def test_what_is_there_is_replaced_only_with_force(folder, base, tmp_path):
    out = tmp_path / "out.gguf"
    out.write_bytes(b"precious")
    error = refusal(patchbay("convert", folder, "-o", out, "--base", base), FAILURE)
    assert "is there already" in error and "--force" in error and out.read_bytes() == b"precious"
    converted(folder, "-o", out, "--base", base, "--force")
    assert out.read_bytes()[:4] == b"GGUF"


def test_without_a_base_the_adapter_says_which_one(folder, base, tmp_path):
    error = refusal(patchbay("convert", folder, "-o", tmp_path / "out.gguf"), USAGE)
    assert "--base is required" in error and "someone/tiny" in error


def test_the_folder_that_the_adapter_names_is_the_base(tmp_path):
    hf = tmp_path / "hf"
    hf.mkdir()
    (hf / "config.json").write_text(json.dumps({
        "model_type": "llama", "vocab_size": 12, "hidden_size": N_EMBD, "num_hidden_layers": 2, "num_attention_heads": 2,
        "num_key_value_heads": 1, "intermediate_size": 16}))
    folder = write_peft(tmp_path / "in", peft_tensors(np.random.default_rng(2)), base_model_name_or_path=str(hf))
    assert converted(folder, "-o", tmp_path / "out.gguf")["base"]["path"] == str(hf / "config.json")


@pytest.mark.parametrize("config, reason", [
    ({"model_type": "unheard_of"}, "has no table of names"), ({"model_type": "llama"}, "vocab_size is missing"),
    ({"model_type": "llama", "vocab_size": -1}, "is no size")])
def test_configs_that_describe_no_base_are_refused(config, reason, folder, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(config))
    error = refusal(patchbay("convert", folder, "-o", tmp_path / "out.gguf", "--base", tmp_path), FAILURE)
    assert reason in error


def test_multimodal_configs_describe_their_text_model(folder, tmp_path):
    text = {"model_type": "gemma3_text", "vocab_size": 12, "hidden_size": N_EMBD, "num_hidden_layers": 2,
            "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "intermediate_size": 16}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gemma3", "text_config": text}))
    assert converted(folder, "--base", tmp_path, "--dry-run")["base"]["architecture"] == "gemma3"


def test_an_adapter_of_another_base_is_refused_before_anything_is_written(folder, tmp_path):
    wide = base_metadata() | {"llama.embedding_length": 16}
    other = write_gguf(tmp_path / "wide.gguf", wide, base_tensors(np.random.default_rng(1), n_embd=16))
    error = refusal(patchbay("convert", folder, "-o", tmp_path / "out.gguf", "--base", other), FAILURE)
    assert "has incorrect shape" in error and not (tmp_path / "out.gguf").exists()


def test_numbers_too_large_for_the_type_are_refused(base, tmp_path):
    tensors = {k: v * np.float32(1e6) for k, v in peft_tensors(np.random.default_rng(2)).items()}
    folder = write_peft(tmp_path / "large", tensors)
    error = refusal(patchbay("convert", folder, "-o", tmp_path / "out.gguf", "--base", base, "--type", "f16"), FAILURE)
    assert "overflows f16" in error and "blk.0.attn_q.weight.lora_a" in error
    assert [p.name for p in tmp_path.iterdir() if "out" in p.name or p.name.startswith(".")] == []


def test_a_full_disk_is_told_and_leaves_nothing(folder, base, tmp_path):
    """Files above 100 bytes fail as on a full disk; the message is the system's."""
    out = tmp_path / "out" / "out.gguf"
    out.parent.mkdir()

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    done = patchbay("convert", folder, "-o", out, "--base", base, preexec_fn=limit)
    assert "cannot be written" in refusal(done, FAILURE)
    assert list(out.parent.iterdir()) == []
    done = patchbay("convert", folder, "-o", out, "--reverse", "--base", base, preexec_fn=limit)
    assert f"{out}: cannot be written" in refusal(done, FAILURE)
    assert list(out.parent.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_nothing(number, folder, base, tmp_path):
    """The signal is pending when the program starts: it is blocked until the program asks for it."""
    out = tmp_path / "out" / "out.gguf"
    out.parent.mkdir()

    def pending():
        signal.pthread_sigmask(signal.SIG_BLOCK, [number])
        os.kill(os.getpid(), number)

    done = patchbay("convert", folder, "-o", out, "--base", base, preexec_fn=pending)
    assert done.returncode == 128 + number and not done.stdout
    assert list(out.parent.iterdir()) == []


@pytest.mark.parametrize("arguments, reason", [
    ([], "adapter is required"), (["x"], "--output"), (["x", "-o", "y", "--type", "q4_0"], "none of f32, f16, bf16, q8_0"),
    (["x", "-o", "y", "--type", "f16", "--reverse"], "excludes")])
def test_command_lines_that_cannot_be_meant(arguments, reason):
    done = patchbay("convert", *arguments)
    assert done.returncode == USAGE and reason in (done.stderr + done.stdout).decode()


def test_help_shows_examples():
    text = patchbay("convert", "--help").stdout.decode()
    for part in ("--base", "--type", "--reverse", "--force", "--dry-run", "--json", "config.json"):
        assert part in text
