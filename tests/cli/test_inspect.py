"""`patchbay inspect`: what it says about models, adapters and files that are neither."""

import json
import os
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from command import HAS_PRODUCTS
from gguf_writer import Typed, q8_0, write_gguf

ROOT = Path(__file__).resolve().parents[2]
PATCHBAY = os.environ.get("PATCHBAY", str(ROOT / "build/release/bin/patchbay"))
N_VOCAB, N_EMBD, N_FF, N_LAYER, N_RANK, ALPHA = 12, 8, 16, 2, 2, 6.0
Q = "blk.0.attn_q.weight"


def inspect(*arguments):
    return subprocess.run([PATCHBAY, "inspect", *map(str, arguments)], capture_output=True, timeout=60)


def inspect_json(*arguments, exit_code=0):
    done = inspect(*arguments, "--json")
    assert done.returncode == exit_code, done.stderr
    return json.loads(done.stdout.decode())


def inspect_text(*arguments, exit_code=0):
    done = inspect(*arguments)
    assert done.returncode == exit_code, done.stderr
    return done.stdout.decode()


def refusal(*arguments, exit_code=1):
    done = inspect(*arguments)
    assert done.returncode == exit_code
    assert done.stdout == b""
    return done.stderr.decode()


def base_metadata():
    return {"general.architecture": "llama", "general.type": "model", "general.name": "tiny",
            "llama.block_count": N_LAYER, "llama.context_length": 64, "llama.embedding_length": N_EMBD,
            "llama.feed_forward_length": N_FF, "llama.attention.head_count": 2,
            "llama.attention.head_count_kv": 1, "llama.attention.layer_norm_rms_epsilon": 1e-5,
            "llama.rope.freq_base": 10000.0, "tiny.numbers": Typed("i64", [1, 2, 3]), "tiny.negative": -7,
            "tiny.flag": True, "tiny.bytes": b"caf\xe9\x1b[31m"}


def base_tensors(rng, n_embd=N_EMBD, n_ff=N_FF):
    shapes = {"token_embd.weight": (N_VOCAB, n_embd), "output_norm.weight": (n_embd,)}
    for il in range(N_LAYER):
        shapes |= {f"blk.{il}.{name}.weight": shape for name, shape in {
            "attn_norm": (n_embd,), "attn_q": (n_embd, n_embd), "attn_k": (n_embd // 2, n_embd),
            "attn_v": (n_embd // 2, n_embd), "attn_output": (n_embd, n_embd), "ffn_norm": (n_embd,),
            "ffn_gate": (n_ff, n_embd), "ffn_up": (n_ff, n_embd), "ffn_down": (n_embd, n_ff)}.items()}
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def adapter_metadata(**changes):
    return {"general.architecture": "llama", "general.type": "adapter", "adapter.type": "lora",
            "adapter.lora.alpha": ALPHA, "adapter.lora.task_name": "piracy",
            "adapter.alora.invocation_tokens": [3, 4]} | changes


def adapter_tensors(rng):
    def values(*shape, dtype=np.float32):
        return rng.standard_normal(shape).astype(dtype)

    return {f"{Q}.lora_a": values(N_RANK, N_EMBD), f"{Q}.lora_b": values(N_EMBD, N_RANK),
            "blk.1.attn_q.weight.lora_a": values(N_RANK, N_EMBD), "blk.1.attn_q.weight.lora_b": values(N_EMBD, N_RANK),
            "blk.1.ffn_down.weight.lora_a": values(3, N_FF, dtype=np.float16),
            "blk.1.ffn_down.weight.lora_b": values(N_EMBD, 3, dtype=np.float16),
            "token_embd.weight.lora_a": values(N_VOCAB, N_RANK), "token_embd.weight.lora_b": values(N_EMBD, N_RANK)}


def write_peft(folder, tensors, **options):
    folder.mkdir()
    config = {"peft_type": "LORA", "r": N_RANK, "lora_alpha": ALPHA, "target_modules": ["q_proj"],
              "base_model_name_or_path": "someone/tiny"} | options
    (folder / "adapter_config.json").write_text(json.dumps(config))
    header, data = {}, b""
    for name, array in tensors.items():
        header[name] = {"dtype": {"float32": "F32", "float16": "F16"}[array.dtype.name], "shape": array.shape,
                        "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    text = json.dumps(header).encode()
    (folder / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    return folder


def peft_tensors(rng):
    module = "base_model.model.model.layers.{}.self_attn.q_proj.lora_{}.weight"
    return {module.format(il, half): rng.standard_normal(shape).astype(np.float32)
            for il in range(N_LAYER) for half, shape in {"A": (N_RANK, N_EMBD), "B": (N_EMBD, N_RANK)}.items()}


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def base(tmp_path, rng):
    return write_gguf(tmp_path / "tiny.gguf", base_metadata(), base_tensors(rng))


@pytest.fixture
def adapter(tmp_path, rng):
    return write_gguf(tmp_path / "pirate.gguf", adapter_metadata(), adapter_tensors(rng))


def only(items, **wanted):
    found = [item for item in items if all(item[key] == value for key, value in wanted.items())]
    assert len(found) == 1, items
    return found[0]


def test_model_facts_come_from_the_file(base, rng):
    report = inspect_json(base)
    tensors = base_tensors(rng)
    assert (report["kind"], report["format"], report["version"], report["n_shards"]) == ("model", "gguf", 3, 1)
    assert (report["name"], report["architecture"], report["supported"]) == ("tiny", "llama", True)
    assert report["size_bytes"] == base.stat().st_size
    assert report["n_parameters"] == sum(tensor.size for tensor in tensors.values())
    assert report["tensor_types"] == [
        {"type": "f32", "n_tensors": len(tensors), "size_bytes": sum(tensor.nbytes for tensor in tensors.values())}]
    assert report["tied_head"] is True and report["tokenizer"] is None
    hparams = report["hyper_parameters"]
    assert [hparams[key] for key in ("n_layer", "n_embd", "n_head", "n_head_kv", "n_ff", "n_ctx_train", "n_vocab")] \
        == [N_LAYER, N_EMBD, 2, 1, N_FF, 64, N_VOCAB]
    assert "tensors" not in report


def test_metadata_shows_scalars_by_value_and_arrays_by_count(base):
    metadata = inspect_json(base)["metadata"]
    assert metadata["llama.attention.layer_norm_rms_epsilon"] == {"type": "f32", "value": 1e-5}
    assert metadata["tiny.negative"] == {"type": "i32", "value": -7}
    assert metadata["tiny.flag"] == {"type": "bool", "value": True}
    assert metadata["tiny.numbers"] == {"type": "array of i64", "n_items": 3}


def test_invalid_text_reaches_neither_json_nor_terminal(base):
    assert inspect_json(base)["metadata"]["tiny.bytes"]["value"] == "caf\ufffd\x1b[31m"
    text = inspect_text(base)
    assert "caf\ufffd\\x1b[31m" in text and "\x1b" not in text


def test_tensors_are_listed_in_ggml_order_on_demand(base):
    report = inspect_json(base, "--tensors")
    assert only(report["tensors"], name="blk.1.ffn_down.weight") == {
        "name": "blk.1.ffn_down.weight", "type": "f32", "shape": [N_FF, N_EMBD], "size_bytes": 4 * N_FF * N_EMBD,
        "layout": ["as stored"]}
    assert "blk.1.ffn_down.weight" in inspect_text(base, "--tensors")
    assert "blk.1.ffn_down.weight" not in inspect_text(base)


@pytest.mark.skipif(not HAS_PRODUCTS, reason="this processor has no products of ours")
def test_model_says_how_its_weights_would_lie_in_memory(tmp_path, rng):
    tensors = {name: q8_0(tensor) if tensor.ndim == 2 else tensor
               for name, tensor in base_tensors(rng, n_embd=32, n_ff=64).items()}
    sizes = {"llama.embedding_length": 32, "llama.feed_forward_length": 64}
    path = write_gguf(tmp_path / "q8_0.gguf", base_metadata() | sizes, tensors)
    report = inspect_json(path, "--tensors")
    (isa,) = report["layout"].pop("instruction_sets")
    n_packed, n_as_stored = 7 * N_LAYER + 1, 2 * N_LAYER + 2
    assert report["layout"] == {"n_packed": n_packed, "n_interleaved": 0, "n_as_stored": n_as_stored}
    layouts = {tensor["name"]: tensor["layout"] for tensor in report["tensors"]}
    assert layouts[Q] == [f"packed ({isa})"] and layouts["output_norm.weight"] == ["as stored"]
    assert layouts["token_embd.weight"] == ["as stored", f"packed ({isa})"]  # the tied head's copy
    text = inspect_text(path, "--tensors")
    assert f"{n_packed} packed ({isa}), 0 interleaved, {n_as_stored} as stored" in text
    assert f"as stored, packed ({isa})" in text


def test_float_model_stays_as_stored(base):
    layout = inspect_json(base)["layout"]
    assert layout == {"n_packed": 0, "n_interleaved": 0, "n_as_stored": len(base_tensors(np.random.default_rng(7))),
                      "instruction_sets": []}
    assert f"0 packed, 0 interleaved, {layout['n_as_stored']} as stored" in inspect_text(base)


def test_model_says_what_adapters_may_target(base):
    adaptable = inspect_json(base, "--tensors")["adaptable"]
    assert adaptable["n_by_kind"] == {"embed": 1, "linear": 7 * N_LAYER + 1}
    assert only(adaptable["modules"], module="ffn_gate")["layers"] == [0, 1]
    assert only(adaptable["uses"], name="output.weight")["kind"] == "linear"  # the tied head


def test_model_of_another_architecture_is_shown_as_not_running_here(tmp_path, rng):
    path = write_gguf(tmp_path / "m.gguf", base_metadata() | {"general.architecture": "mamba"}, base_tensors(rng))
    report = inspect_json(path)
    assert report["supported"] is False and "is not supported" in report["problem"]
    assert report["hyper_parameters"] is None and report["layout"] is None and report["n_tensors"] == len(base_tensors(rng))
    assert "no: " in inspect_text(path)


def test_model_that_lacks_a_tensor_is_shown_with_the_reason(tmp_path, rng):
    tensors = base_tensors(rng)
    del tensors[Q]
    report = inspect_json(write_gguf(tmp_path / "m.gguf", base_metadata(), tensors))
    assert report["supported"] is False and Q in report["problem"]


def test_gguf_adapter_states_ranks_scales_and_targets(adapter):
    report = inspect_json(adapter)
    assert (report["kind"], report["format"], report["architecture"], report["alpha"]) == ("adapter", "gguf", "llama", 6)
    assert report["n_pairs"] == 4
    assert report["ranks"] == [{"n_rank": 2, "n_pairs": 3}, {"n_rank": 3, "n_pairs": 1}]
    assert report["scales"] == [{"scale": 2, "n_pairs": 1}, {"scale": 3, "n_pairs": 3}]
    assert only(report["targets"], module="attn_q")["layers"] == [0, 1]
    assert only(report["targets"], module="token_embd") == {
        "module": "token_embd", "kind": "embed", "n_targets": 1, "layers": []}
    assert (report["invocation_tokens"], report["task_name"]) == ([3, 4], "piracy")
    assert report["fit"] is None and report["problems"] == []
    assert "pairs" not in report


def expected_norms(rng, target, scale):
    tensors = adapter_tensors(rng)
    a, b = (tensors[f"{target}.lora_{half}"].astype(np.float64) for half in "ab")
    delta = b @ a.T if target == "token_embd.weight" else b @ a
    return [np.linalg.norm(a), np.linalg.norm(b), scale * np.linalg.norm(delta)]


@pytest.mark.parametrize("with_base", [False, True])
@pytest.mark.parametrize("target, scale", [(Q, 3), ("blk.1.ffn_down.weight", 2), ("token_embd.weight", 3)])
def test_norms_equal_those_of_the_product(with_base, target, scale, request, tmp_path):
    path = write_gguf(tmp_path / "a.gguf", adapter_metadata(), adapter_tensors(np.random.default_rng(7)))
    options = ["--base", request.getfixturevalue("base")] if with_base else []
    pair = only(inspect_json(path, "--tensors", *options)["pairs"], target=target)
    found = [pair["norm_a"], pair["norm_b"], pair["norm_delta"]]
    assert found == pytest.approx(expected_norms(np.random.default_rng(7), target, scale), rel=1e-6)


def test_expert_norms_are_taken_over_all_experts(tmp_path, rng):
    a = rng.standard_normal((4, N_RANK, N_EMBD)).astype(np.float32)
    b = rng.standard_normal((4, N_FF, N_RANK)).astype(np.float32)
    name = "blk.0.ffn_up_exps.weight"
    path = write_gguf(tmp_path / "a.gguf", adapter_metadata(), {f"{name}.lora_a": a, f"{name}.lora_b": b})
    pair = only(inspect_json(path, "--tensors")["pairs"], target=name)
    assert pair["kind"] == "experts"
    assert pair["norm_delta"] == pytest.approx(3 * np.linalg.norm(b.astype(np.float64) @ a), rel=1e-6)


def test_adapter_fits_its_base(adapter, base):
    fit = inspect_json(adapter, "--base", base)["fit"]
    outlook = fit.pop("outlook")
    assert fit == {"base": str(base), "base_name": "tiny", "fits": True, "error": None}
    assert outlook[0] == "it adds low-rank changes to 4 of the 16 weights that this model's graph reads"
    assert f"fits {base}" in inspect_text(adapter, "--base", base)


def test_adapter_of_another_base_fails_with_the_reason(tmp_path, base, rng):
    tensors = adapter_tensors(rng) | {f"{Q}.lora_a": np.zeros((N_RANK, 2 * N_EMBD), np.float32)}
    path = write_gguf(tmp_path / "a.gguf", adapter_metadata(), tensors)
    report = inspect_json(path, "--base", base, exit_code=1)
    assert report["fit"]["fits"] is False and "has incorrect shape" in report["fit"]["error"]
    assert report["n_pairs"] == 4  # what the file says is shown all the same
    assert "does not fit" in inspect_text(path, "--base", base, exit_code=1)


def test_alpha_of_zero_means_scale_one(tmp_path, rng):
    path = write_gguf(tmp_path / "a.gguf", adapter_metadata(**{"adapter.lora.alpha": 0.0}), adapter_tensors(rng))
    assert inspect_json(path)["scales"] == [{"scale": 1, "n_pairs": 4}]


def test_lone_half_and_strange_tensors_are_problems(tmp_path, rng):
    tensors = adapter_tensors(rng) | {"blk.0.attn_k.weight.lora_a": np.ones((2, N_EMBD), np.float32),
                                      "blk.0.attn_norm.weight": np.ones(N_EMBD, np.float32)}
    problems = inspect_json(write_gguf(tmp_path / "a.gguf", adapter_metadata(), tensors))["problems"]
    assert sorted(problem.split(" ")[0] for problem in problems) == ["blk.0.attn_k.weight", "blk.0.attn_norm.weight"]


def test_peft_folder_is_read_without_a_base(tmp_path, rng):
    folder = write_peft(tmp_path / "pirate", peft_tensors(rng), use_rslora=True, alpha_pattern={"layers.1.self_attn.q_proj": 4})
    report = inspect_json(folder, "--tensors")
    assert (report["format"], report["name"], report["base_name"], report["alpha"]) == ("peft", "pirate", "someone/tiny", 6)
    assert report["targets"] == [{"module": "self_attn.q_proj", "kind": "linear", "n_targets": 2, "layers": [0, 1]}]
    scales = {pair["target"]: pair["scale"] for pair in report["pairs"]}
    assert scales == pytest.approx({"model.layers.0.self_attn.q_proj": 6 / 2**0.5,
                                    "model.layers.1.self_attn.q_proj": 4 / 2**0.5}, rel=1e-6)
    assert report["config"]["use_rslora"] is True
    assert "--base" in inspect_text(folder)


def test_peft_pairs_are_resolved_against_a_base(tmp_path, rng, base):
    tensors = peft_tensors(rng)
    folder = write_peft(tmp_path / "pirate", tensors, alora_invocation_tokens=[3])
    for path in (folder, folder / "adapter_config.json", folder / "adapter_model.safetensors"):
        report = inspect_json(path, "--base", base, "--tensors")
        assert report["fit"]["fits"] is True and report["invocation_tokens"] == [3]
    pair = only(report["pairs"], target=Q)
    b, a = (tensors[f"base_model.model.model.layers.0.self_attn.q_proj.lora_{half}.weight"] for half in "BA")
    assert pair["norm_delta"] == pytest.approx(3 * np.linalg.norm(b.astype(np.float64) @ a), rel=1e-6)


def test_refused_peft_option_is_a_problem_without_a_base_and_a_misfit_with_one(tmp_path, rng, base):
    folder = write_peft(tmp_path / "pirate", peft_tensors(rng), kasa_config={"beta": 1})
    report = inspect_json(folder)
    assert len(report["problems"]) == 1 and "kasa_config" in report["problems"][0]
    assert "kasa_config" in inspect_json(folder, "--base", base, exit_code=1)["fit"]["error"]


def test_wrong_files_are_named(tmp_path, rng, base, adapter):
    assert "no such file" in refusal(tmp_path / "none.gguf").lower()
    (tmp_path / "empty").mkdir()
    assert "adapter_config.json" in refusal(tmp_path / "empty")
    loose = shutil.copy(write_peft(tmp_path / "p", peft_tensors(rng)) / "adapter_model.safetensors", tmp_path / "x.safetensors")
    assert "safetensors" in refusal(loose)
    (tmp_path / "note.txt").write_text("hello")
    assert "text file" in refusal(tmp_path / "note.txt")
    assert "is an adapter" in refusal(adapter, "--base", adapter)
    truncated = tmp_path / "short.gguf"
    truncated.write_bytes(base.read_bytes()[:100])
    assert "truncated" in refusal(truncated)


def test_base_for_a_model_is_a_usage_error(base):
    assert "--base" in refusal(base, "--base", base, exit_code=2)


def test_pickle_in_place_of_safetensors_gets_the_recipe(tmp_path, rng):
    folder = write_peft(tmp_path / "p", peft_tensors(rng))
    (folder / "adapter_model.safetensors").rename(folder / "adapter_model.bin")
    assert "pickle" in refusal(folder)
