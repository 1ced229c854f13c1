"""`patchbay convert` of every family and every tensor: convert(W + s B A) = convert(W) + s convert(B) convert(A).

Names and shapes are those of transformers and PEFT (families.json, made by make_family_shapes.py), numbers are drawn here.
What conversion does to a base is family_conversion.py's. Needs numpy and pytest, no torch.

    PATCHBAY=build/release/bin/patchbay pytest tests/oracle/test_families.py
"""

import copy
import json
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import gguf_edit
import safetensors_io as st
from family_conversion import ARCH, converted

REPO = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("PATCHBAY", REPO / "build" / "release" / "bin" / "patchbay"))
FAMILIES = json.loads((REPO / "tests" / "data" / "oracle" / "families.json").read_text())
PREFIX = "base_model.model."
# One rounding to F32 for a folded scale; the deltas are of size 1 to 100.
TOLERANCE = 1e-5


class Family:
    """A family's base and adapter with numbers."""

    def __init__(self, name):
        record = copy.deepcopy(FAMILIES[name])
        self.config, self.adapter_config = record["config"], record["adapter_config"]
        self.arch = ARCH[self.config["model_type"]]
        rng = np.random.default_rng(len(name) * 1000 + sum(map(ord, name)))

        def draw(shapes):
            return {k: rng.standard_normal(s).astype(np.float32) for k, s in shapes.items()}

        self.parameters, self.adapter = draw(record["parameters"]), draw(record["adapter"])

    def base_file(self, path):
        """The base as GGUF; tied: without output.weight."""
        f = gguf_edit.GgufFile()
        f.kv = {"general.architecture": (gguf_edit.STRING, self.arch)}
        sizes = {"block_count": "num_hidden_layers", "embedding_length": "hidden_size", "context_length": "max_position_embeddings",
                 "feed_forward_length": "intermediate_size", "attention.head_count": "num_attention_heads",
                 "attention.head_count_kv": "num_key_value_heads", "attention.key_length": "head_dim",
                 "attention.value_length": "head_dim", "expert_count": "num_local_experts", "expert_used_count": "num_experts_per_tok"}
        for key, name in sizes.items():
            if self.config.get(name) is not None:
                f.kv[f"{self.arch}.{key}"] = (gguf_edit.UINT32, self.config[name])
        f.kv[f"{self.arch}.attention.layer_norm_rms_epsilon"] = (gguf_edit.FLOAT32, 1e-5)
        if self.arch == "gemma3":
            f.kv["gemma3.attention.sliding_window"] = (gguf_edit.UINT32, 8)
        for name, w in self.parameters.items():
            f.tensors |= {k: np.ascontiguousarray(v) for k, v in converted(name, w, self.config).items()}
        gguf_edit.save(f, path)
        return path

    def config_folder(self, folder):
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(self.config))
        return folder

    def adapter_folder(self, folder):
        folder.mkdir()
        (folder / "adapter_config.json").write_text(json.dumps(self.adapter_config))
        st.save({k: st.Tensor("F32", v) for k, v in self.adapter.items()}, folder / "adapter_model.safetensors")
        return folder


def scale_of(config, name, rank):
    """alpha / rank by PEFT's rule: the first pattern that matches whole components at the end."""
    alpha = next((v for k, v in config["alpha_pattern"].items() if re.match(rf"(.*\.)?({k})$", name)), config["lora_alpha"])
    return alpha / rank


def peft_deltas(config, tensors, base_shapes):
    """{Hugging Face parameter: change}, F64, read from an adapter as PEFT reads it; {use: change} for look-ups."""
    deltas = {}
    for key, a in tensors.items():
        if ".lora_A." not in key and ".lora_embedding_A" not in key:
            continue
        b = tensors[key.replace("lora_A", "lora_B").replace("embedding_A", "embedding_B")].astype(np.float64)
        module = key.removeprefix(PREFIX).split(".lora_")[0]
        if "experts" in module:
            inner = module.endswith(".base_layer")
            module = module.removesuffix(".base_layer")
            both = f"{PREFIX}{module}.base_layer.lora_A.weight" in tensors
            names = [n for n in base_shapes if n.startswith(module + ".")]
            wanted = [n for n in names if n in (config.get("target_parameters") or [])]
            wanted.sort(key=lambda n: "down" in n)
            name = wanted[0] if inner or not both else wanted[-1]
            n_expert, n_out, n_in = base_shapes[name]
            rank = a.shape[0] // n_expert
            delta = np.einsum("ore,eri->eoi", b.reshape(n_out, rank, n_expert), a.reshape(n_expert, rank, n_in).astype(np.float64))
            deltas[name] = scale_of(config, name, rank) * delta
        else:
            name, rank = f"{module}.weight", a.shape[0]
            targeted = name in (config.get("target_parameters") or [])
            delta = scale_of(config, name if targeted else module, rank) * (b @ a.astype(np.float64))
            deltas[name] = delta.T if "embedding" in key else delta
    return deltas


def gguf_deltas(f):
    """{GGUF name: change}, F64, of an adapter file as any reader of the format takes it."""
    alpha, deltas = f.kv["adapter.lora.alpha"][1], {}
    for key, a in f.tensors.items():
        if key.endswith(".lora_a"):
            name = key.removesuffix(".lora_a")
            a, b = a.astype(np.float64), f.tensors[name + ".lora_b"].astype(np.float64)
            delta = a @ b.T if name == "token_embd.weight" else b @ a
            deltas[name] = alpha / b.shape[-1] * delta
    return deltas


def wanted_deltas(family, deltas):
    """What conversion makes of the changed weights, less what it makes of the plain ones."""
    found = {}
    for name, delta in deltas.items():
        w = family.parameters.get(name)
        if w is None:  # a tied head: of the table's shape, and no tensor of its own
            w = family.parameters["model.embed_tokens.weight"]
        before, after = (converted(name, x, family.config) for x in (w.astype(np.float64), w + delta))
        found |= {k: after[k] - before[k] for k in after}
    return found


def convert(*arguments):
    done = subprocess.run([str(x) for x in (BINARY, "convert", *arguments)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done


def check_equal(got, want):
    assert sorted(got) == sorted(want)
    for name in want:
        difference = np.abs(got[name].reshape(want[name].shape) - want[name]).max()
        assert difference < TOLERANCE * max(1, np.abs(want[name]).max()), f"{name} differs by {difference:.3g}"


families = pytest.mark.parametrize("name", FAMILIES)


@families
@pytest.mark.parametrize("base", ["gguf", "config"])
def test_converting_the_adapter_is_converting_the_changed_weights(name, base, tmp_path):
    family = Family(name)
    base = family.base_file(tmp_path / "base.gguf") if base == "gguf" else family.config_folder(tmp_path / "base")
    out = tmp_path / "out.gguf"
    convert(family.adapter_folder(tmp_path / "in"), "-o", out, "--base", base)
    f = gguf_edit.load(out)
    assert f.kv["general.architecture"][1] == family.arch
    shapes = FAMILIES[name]["parameters"]
    want = wanted_deltas(family, peft_deltas(family.adapter_config, family.adapter, shapes))
    assert len(want) >= len(family.adapter) // 2
    check_equal(gguf_deltas(f), want)


@families
def test_the_way_back_gives_the_same_changes_under_the_same_names(name, tmp_path):
    family = Family(name)
    base = family.config_folder(tmp_path / "base")
    convert(family.adapter_folder(tmp_path / "in"), "-o", tmp_path / "mid.gguf", "--base", base)
    convert(tmp_path / "mid.gguf", "-o", tmp_path / "out", "--reverse", "--base", base)
    config = json.loads((tmp_path / "out" / "adapter_config.json").read_text())
    tensors = {k: t.float32() for k, t in st.load(tmp_path / "out" / "adapter_model.safetensors").items()}
    assert sorted(tensors) == sorted(family.adapter)
    shapes = FAMILIES[name]["parameters"]
    check_equal(peft_deltas(config, tensors, shapes), peft_deltas(family.adapter_config, family.adapter, shapes))
    # Twice there and back is once: nothing grows, and the folder it wrote is one that it reads.
    convert(tmp_path / "out", "-o", tmp_path / "again.gguf", "--base", base)
    check_equal(gguf_deltas(gguf_edit.load(tmp_path / "again.gguf")), gguf_deltas(gguf_edit.load(tmp_path / "mid.gguf")))


# Names of transformers 4: one module per expert, and GraniteMoE's under its checkpoint's names.
V4_EXPERTS = {"mixtral": ("block_sparse_moe.gate", "block_sparse_moe.experts", ("w1", "w3", "w2")),
              "qwen2_moe": ("mlp.gate", "mlp.experts", ("gate_proj", "up_proj", "down_proj")),
              "qwen3_moe": ("mlp.gate", "mlp.experts", ("gate_proj", "up_proj", "down_proj")),
              "deepseek_v2": ("mlp.gate", "mlp.experts", ("gate_proj", "up_proj", "down_proj"))}


def renamed_for_v4(name, tensors):
    gate, experts, (w_gate, w_up, w_down) = V4_EXPERTS[name]
    found = {}
    for key, x in tensors.items():
        if ".experts." in key:
            layer = re.match(r"(.+layers\.\d+)\.", key)[1]
            if ".lora_B." in key:
                continue
            b = tensors[key.replace("lora_A", "lora_B")]
            rank = x.shape[0] // 4
            for e in range(4):
                a_e, b_e = x[e * rank:(e + 1) * rank], b[:, e::4]
                half = len(b_e) // 2
                parts = {w_gate: b_e[:half], w_up: b_e[half:]} if ".base_layer." in key else {w_down: b_e}
                for w, rows in parts.items():
                    found[f"{layer}.{experts}.{e}.{w}.lora_A.weight"] = a_e
                    found[f"{layer}.{experts}.{e}.{w}.lora_B.weight"] = np.ascontiguousarray(rows)
        else:
            found[re.sub(r"\.mlp\.gate\.", f".{gate}.", key)] = x
    return found


@pytest.mark.parametrize("name", V4_EXPERTS)
def test_adapters_of_transformers_4_convert_to_the_same(name, tmp_path):
    family = Family(name)
    base = family.config_folder(tmp_path / "base")
    family.adapter_config["alpha_pattern"] = {}  # its names would match other modules than before
    shapes = FAMILIES[name]["parameters"]
    want = wanted_deltas(family, peft_deltas(family.adapter_config, family.adapter, shapes))
    family.adapter = renamed_for_v4(name, family.adapter)
    family.adapter_config["target_parameters"] = None
    gate = f"{PREFIX}model.layers.1.{V4_EXPERTS[name][1]}.0.{V4_EXPERTS[name][2][0]}.lora_A.weight"
    # PEFT doubles the rank of fused gates under some names.
    family.adapter_config["rank_pattern"] |= {rf".*experts\.\d+\.{w}": len(family.adapter[gate]) for w in V4_EXPERTS[name][2][:2]}
    convert(family.adapter_folder(tmp_path / "in"), "-o", tmp_path / "out.gguf", "--base", base)
    check_equal(gguf_deltas(gguf_edit.load(tmp_path / "out.gguf")), want)


@pytest.mark.parametrize("name", ["granitemoe", "granitemoeshared"])
def test_granite_experts_under_the_names_of_checkpoints(name, tmp_path):
    family = Family(name)
    base = family.config_folder(tmp_path / "base")
    family.adapter_config["alpha_pattern"] = {}
    shapes = FAMILIES[name]["parameters"]
    want = wanted_deltas(family, peft_deltas(family.adapter_config, family.adapter, shapes))

    def renamed(text):
        for old, new in {"experts.base_layer.lora": "input_linear.lora", "experts.lora": "output_linear.lora",
                         "router.lora": "router.layer.lora", "experts.gate_up_proj": "input_linear.weight",
                         "experts.down_proj": "output_linear.weight", "router.weight": "router.layer.weight"}.items():
            text = text.replace("block_sparse_moe." + old, "block_sparse_moe." + new)
        return text

    family.adapter = {renamed(k): v for k, v in family.adapter.items()}
    family.adapter_config["target_parameters"] = [renamed(k) for k in family.adapter_config["target_parameters"]]
    convert(family.adapter_folder(tmp_path / "in"), "-o", tmp_path / "out.gguf", "--base", base)
    check_equal(gguf_deltas(gguf_edit.load(tmp_path / "out.gguf")), want)


def test_old_files_of_deepseek_keep_keys_and_values_in_one(tmp_path):
    family = Family("deepseek_v2")
    f = gguf_edit.load(family.base_file(tmp_path / "base.gguf"))
    for il in range(2):
        del f.tensors[f"blk.{il}.attn_k_b.weight"], f.tensors[f"blk.{il}.attn_v_b.weight"]
        f.tensors[f"blk.{il}.attn_kv_b.weight"] = family.parameters[f"model.layers.{il}.self_attn.kv_b_proj.weight"]
    gguf_edit.save(f, tmp_path / "base.gguf")
    convert(family.adapter_folder(tmp_path / "in"), "-o", tmp_path / "out.gguf", "--base", tmp_path / "base.gguf")
    deltas = peft_deltas(family.adapter_config, family.adapter, FAMILIES["deepseek_v2"]["parameters"])
    got = gguf_deltas(gguf_edit.load(tmp_path / "out.gguf"))["blk.1.attn_kv_b.weight"]
    assert np.abs(got - deltas["model.layers.1.self_attn.kv_b_proj.weight"]).max() < 1e-4


# The base divided otherwise than the adapter: q, k and v or gate and up, in one weight or in several.


STACKS = {"self_attn.qkv_proj": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
          "mlp.gate_up_proj": ("mlp.gate_proj", "mlp.up_proj")}


def parts_of(layer, whole):
    return [f"model.layers.{layer}.{part}.weight" for part in STACKS[whole]]


def unstacked(parts_family, deltas):
    """{whole: rows} -> {part: rows}, heights as the family of the parts has them."""
    found = {}
    for name, delta in deltas.items():
        layer, whole = re.match(r"model\.layers\.(\d+)\.(.+)\.weight", name).groups() if ".layers." in name else (None, name)
        if whole not in STACKS:
            found[name] = delta
            continue
        parts = parts_of(layer, whole)
        ends = np.cumsum([len(parts_family.parameters[p]) for p in parts])
        assert ends[-1] == len(delta)
        found |= dict(zip(parts, np.split(delta, ends[:-1])))
    return found


def stacked(parts_family, deltas, into):
    """{part: rows} -> {name of `into`: rows}; parts without a change are zeros."""
    found = {name: d for name, d in deltas.items() if not any(f".{p}." in name for ps in STACKS.values() for p in ps)}
    for layer in range(2):
        for whole in STACKS:
            parts = parts_of(layer, whole)
            rows = [deltas.get(p, np.zeros(parts_family.parameters[p].shape)) for p in parts]
            found[into(layer, whole)] = np.concatenate(rows)
    return found


def test_an_adapter_on_qkv_and_gate_up_fits_a_base_that_has_them_apart(tmp_path):
    adapter, base = Family("phi3"), Family("llama")
    convert(adapter.adapter_folder(tmp_path / "in"), "-o", tmp_path / "out.gguf", "--base", base.base_file(tmp_path / "base.gguf"))
    deltas = unstacked(base, peft_deltas(adapter.adapter_config, adapter.adapter, FAMILIES["phi3"]["parameters"]))
    check_equal(gguf_deltas(gguf_edit.load(tmp_path / "out.gguf")), wanted_deltas(base, deltas))


@pytest.mark.parametrize("dropped", [[], ["k_proj", "gate_proj"]])
def test_an_adapter_on_q_k_v_gate_and_up_fits_a_base_that_has_them_in_one(dropped, tmp_path):
    adapter, base = Family("llama"), Family("phi3")
    adapter.adapter = {k: v for k, v in adapter.adapter.items() if not any(d in k for d in dropped)}
    convert(adapter.adapter_folder(tmp_path / "in"), "-o", tmp_path / "out.gguf", "--base", base.base_file(tmp_path / "base.gguf"))
    deltas = peft_deltas(adapter.adapter_config, adapter.adapter, FAMILIES["llama"]["parameters"])
    deltas = stacked(adapter, deltas, lambda layer, whole: f"model.layers.{layer}.{whole}.weight")
    check_equal(gguf_deltas(gguf_edit.load(tmp_path / "out.gguf")), wanted_deltas(base, deltas))


@pytest.mark.parametrize("name", ["llama", "qwen3", "granite"])
def test_files_of_any_family_may_hold_q_k_and_v_in_one(name, tmp_path):
    family = Family(name)
    f = gguf_edit.load(family.base_file(tmp_path / "base.gguf"))
    wholes = {}
    for layer in range(2):
        for whole, parts in {"attn_qkv": ("attn_q", "attn_k", "attn_v"), "ffn_up": ("ffn_gate", "ffn_up")}.items():
            parts = [f"blk.{layer}.{p}.weight" for p in parts]
            wholes[f"blk.{layer}.{whole}.weight"] = parts
            joined = np.concatenate([f.tensors.pop(p) for p in parts])
            f.tensors[f"blk.{layer}.{whole}.weight"] = joined
    gguf_edit.save(f, tmp_path / "base.gguf")
    convert(family.adapter_folder(tmp_path / "in"), "-o", tmp_path / "out.gguf", "--base", tmp_path / "base.gguf")
    want = wanted_deltas(family, peft_deltas(family.adapter_config, family.adapter, FAMILIES[name]["parameters"]))
    for whole, parts in wholes.items():
        want[whole] = np.concatenate([want.pop(p) for p in parts])
    check_equal(gguf_deltas(gguf_edit.load(tmp_path / "out.gguf")), want)
