#!/usr/bin/env python3
"""Builds tiny base models and PEFT adapters over them, with golden logits computed by PEFT itself.

    python make_peft_cases.py [--out tests/data/oracle]

Needs torch, transformers 5, peft 0.21, safetensors, gguf. CPU, one thread, under two minutes.

What it writes
    OUT/bases/<base>.gguf            F32, laid out as converters do
    OUT/adapters/<case>/             what a user would hand us
    OUT/adapters_gguf/<case>.gguf    the same adapter in GGUF form, for each `must` case that is stored
    OUT/golden/<name>.npy            F32 [n_rows, n_vocab], the last rows of the logits; <base>.base.npy has the base's
    OUT/cases.json                   what is wanted of each base, case and mix, and why

`want`: must = has to be supported with the golden logits; may = supported exactly, or refused with a clear message,
never half applied; refuse = has to be refused. Renamed, re-typed and broken cases are not stored but derived from
stored ones at test time (derive_cases.py).

Each supported case is computed twice: by PEFT, and by a base model whose weights were changed by `Reader`, our own
reading of the folder; the two must agree. `naive_maxdiff` tells how far off a reader is that knows only
"global alpha / tensor rank": the test tolerance has to be well under it.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
import warnings
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import numpy as np
import peft
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from peft.tuners.lora import LoraLayer
from transformers import (Gemma3ForCausalLM, Gemma3TextConfig, LlamaConfig, LlamaForCausalLM, MixtralConfig,
                          MixtralForCausalLM)
from transformers.utils import logging as hf_logging

import derive_cases
import gguf_adapters
import gguf_bases
from reader import Reader, Refuse

hf_logging.set_verbosity_error()
torch.set_num_threads(1)

N_VOCAB = 320
IDS = [1, 17, 300, 42, 7, 7, 311, 5, 6, 99, 250, 3, 128, 5, 6, 201, 77, 2, 19, 260, 33, 8, 299, 64]
ALORA_TOKENS = [5, 6]  # occurs twice in IDS; the last occurrence (index 13) counts
LONG_IDS = [(i * 37 + i * i * 11) % N_VOCAB for i in range(120)]  # far past the original context of the scaled bases
N_ROWS = 14  # the last rows of the logits are kept: they depend on all tokens, and three lie before the aLoRA's start
READER_TOLERANCE = 2e-4
ATTN = ["q_proj", "k_proj", "v_proj", "o_proj"]
ALL = ATTN + ["gate_proj", "up_proj", "down_proj"]
SHAPE = dict(vocab_size=N_VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=256, initializer_range=0.2)
LONG_SHAPE = {**SHAPE, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32,
              "tie_word_embeddings": True}


def long_base(**rope):
    """A llama base whose rotary embedding is stretched from 64 positions to 256."""
    if rope["rope_type"] != "linear":
        rope["original_max_position_embeddings"] = 64
    return LlamaForCausalLM, LlamaConfig(**LONG_SHAPE, rope_parameters={"rope_theta": 10000.0, "factor": 4.0, **rope})


def base_specs():
    """name -> (class, config)."""
    gemma = dict(SHAPE, num_hidden_layers=7, num_key_value_heads=1, head_dim=16, query_pre_attn_scalar=16,
                 sliding_window=8, tie_word_embeddings=True)
    return {
        "base": (LlamaForCausalLM, LlamaConfig(**SHAPE, tie_word_embeddings=False)),
        "base_tied": (LlamaForCausalLM, LlamaConfig(**SHAPE, tie_word_embeddings=True)),
        "base_bias": (LlamaForCausalLM, LlamaConfig(**SHAPE, attention_bias=True, mlp_bias=True, tie_word_embeddings=True)),
        "base_moe": (MixtralForCausalLM, MixtralConfig(**SHAPE, num_local_experts=4, num_experts_per_tok=2,
                                                       tie_word_embeddings=True)),
        "base_gemma3": (Gemma3ForCausalLM, Gemma3TextConfig(**gemma)),
        "base_rope_linear": long_base(rope_type="linear"),
        "base_rope_llama3": long_base(rope_type="llama3", low_freq_factor=1.0, high_freq_factor=4.0),
        "base_rope_yarn": long_base(rope_type="yarn"),
        "base_rope_yarn_betas": long_base(rope_type="yarn", beta_fast=8.0, beta_slow=2.0),
    }


def make_model(index, cls, cfg):
    """A random model whose norms, biases and experts are far from their tame defaults."""
    torch.manual_seed(100 + index)
    cfg._attn_implementation = "eager"
    model = cls(cfg).eval()
    center = 0.0 if cfg.model_type == "gemma3_text" else 1.0  # Gemma's norms multiply by 1 + w
    with torch.no_grad():
        for n, p in model.named_parameters():
            if n.endswith("norm.weight"):
                p.copy_(center + 0.2 * torch.randn_like(p))
            elif n.endswith(".bias"):
                p.copy_(0.3 * torch.randn_like(p))
            elif "experts" in n:
                p.copy_(0.2 * torch.randn_like(p))
    return model


class World:
    """The bases in memory, and what PEFT and our reader say about adapter folders over them."""

    def __init__(self, out):
        self.out = out
        self.specs = base_specs()
        self.weights, self.base_logits = {}, {}
        for index, (name, (cls, cfg)) in enumerate(self.specs.items()):
            model = make_model(index, cls, cfg)
            gguf_bases.write_base(out / "bases" / f"{name}.gguf", model)
            self.weights[name] = {k: v.clone() for k, v in model.state_dict().items()}
            self.base_logits[name] = self.run(model, self.ids(name))

    def ids(self, base):
        return LONG_IDS if base.startswith("base_rope") else IDS

    def config(self, base):
        return self.specs[base][1].to_dict()

    def load(self, base):
        """A fresh copy of a base: PEFT changes models in place."""
        cls, cfg = self.specs[base]
        model = cls(cfg).eval()
        model.load_state_dict(self.weights[base])
        return model

    @staticmethod
    @torch.no_grad()
    def run(model, ids):
        """F32 [n_tokens, n_vocab]."""
        return model(input_ids=torch.tensor([ids])).logits[0].float()

    def peft_logits(self, base, folder):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.run(PeftModel.from_pretrained(self.load(base), folder).eval(), IDS)

    def mix_logits(self, base, parts):
        """PEFT with several active adapters, each with a strength on top of its own scale."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            names = [case for case, _ in parts]
            model = PeftModel.from_pretrained(self.load(base), self.out / "adapters" / names[0], adapter_name=names[0])
            for name in names[1:]:
                model.load_adapter(self.out / "adapters" / name, adapter_name=name)
            layers = [m for m in model.modules() if isinstance(m, LoraLayer)]
            for module in layers:
                for name in module.scaling:
                    module.scaling[name] *= dict(parts)[name]
            model.base_model.set_adapter(names)
            return self.run(model.eval(), IDS)

    def reader_logits(self, base, folder, alora_shift=0, **how):
        """The base with weights changed by our own reading; (logits, scale of each module)."""
        reader = Reader(folder, self.config(base), **how)
        model = self.load(base)
        sd = reader.apply(model.state_dict())
        if reader.tied:
            model.lm_head = torch.nn.Linear(*sd["lm_head.weight"].shape[::-1], bias=False)  # untie
        model.load_state_dict(sd, strict=False)
        inv = reader.cfg.get("alora_invocation_tokens") or []
        starts = [i for i in range(len(IDS) - len(inv) + 1) if IDS[i:i + len(inv)] == inv]
        for name, pair in reader.masked.items():
            hook_from(model.get_submodule(name), starts[-1] + alora_shift if starts else len(IDS), *pair)
        return self.run(model, IDS), reader.scales


def hook_from(module, start, a, b, s, bias):
    """Adds a pair to a linear module for the positions from `start` on."""
    def add(_module, args, y):
        y = y.clone()
        y[:, start:] += s * (args[0][:, start:] @ a.T @ b.T + bias)
        return y
    module.register_forward_hook(add)


# --------------------------------------------------------------------------------------------------- adapters
def randomize(model, seed, std=0.13):
    """Random numbers for all that is trained, large enough that a wrong scale can not hide in the tolerance."""
    g = torch.Generator().manual_seed(seed)
    spread = {"trainable_tokens_delta": 0.2, "modules_to_save": 0.1}

    def noise(p, s):
        return s * torch.randn(p.shape, generator=g)

    with torch.no_grad():
        for n, p in model.named_parameters():
            added = next((s for key, s in spread.items() if key in n), None)
            if "lora_magnitude_vector" in n:
                p.mul_(1 + noise(p, 0.3))
            elif ".lora_B." in n and n.endswith(".bias"):
                p.copy_(noise(p, 0.2))
            elif ".lora_" in n:
                p.copy_(noise(p, std))
            elif added is not None:
                p.add_(noise(p, added))
            elif p.requires_grad and n.endswith(".bias"):
                p.add_(noise(p, 0.2))


def make_adapter(world, folder, base, seed, dtype=None, save_kw=None, **cfg):
    """Wraps a base, fills the adapter with random numbers and lets PEFT save it."""
    cfg = {"r": 4, "lora_alpha": 8, "target_modules": ALL, "task_type": "CAUSAL_LM", "init_lora_weights": True, **cfg}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = get_peft_model(world.load(base), LoraConfig(**cfg))
        randomize(model, seed)
        if dtype is not None:
            for n, p in model.named_parameters():
                p.data = p.data.to(dtype) if ".lora_" in n else p.data
        model.save_pretrained(folder, **(save_kw or {}))


def make_pissa(world, folder, converted):
    """As trained (needs the residual base), or turned by PEFT into an ordinary LoRA of twice the rank."""
    cfg = LoraConfig(r=2, lora_alpha=4, target_modules=ATTN, init_lora_weights="pissa", task_type="CAUSAL_LM")
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as init:
        warnings.simplefilter("ignore")
        model = get_peft_model(world.load("base"), cfg)
        model.save_pretrained(init)
        g = torch.Generator().manual_seed(4)
        with torch.no_grad():
            for n, p in model.named_parameters():
                if ".lora_" in n:
                    p.add_(0.08 * torch.randn(p.shape, generator=g))
        model.save_pretrained(folder, **({"path_initial_model_for_weight_conversion": init} if converted else {}))


class Builder:
    """Makes the cases one by one and keeps their records."""

    def __init__(self, world):
        self.world, self.cases, self.mixes, self.faults = world, [], [], []

    def case(self, name, base, want, why, reason=(), flags=(), **kw):
        """A stored case: made by PEFT, golden logits by PEFT. `flags`: what the command line has to say to get it."""
        folder = self.world.out / "adapters" / name
        if name.startswith("pissa"):
            make_pissa(self.world, folder, converted=name.endswith("converted"))
        else:
            make_adapter(self.world, folder, base, 1000 + sum(map(ord, name)), **kw)
        (folder / "README.md").unlink(missing_ok=True)
        tidy_config(folder / "adapter_config.json")
        record = dict(name=name, base=base, want=want, why=why, reason=list(reason), derive=None)
        if flags:
            record["flags"] = list(flags)
        self.golden(record, folder)
        if want == "must":
            gguf_adapters.write_adapter(self.world.out / "adapters_gguf" / f"{name}.gguf", folder, self.world.config(base),
                                        self.world.weights[base])
        self.cases.append(record)

    def derived(self, name, source, want, why, reason=(), golden_by=None):
        """A case that is not stored. Its golden is the source's, or its own by PEFT, or by our reader.

        The reader is asked where PEFT can not load the form; it has been compared with PEFT on the source's form.
        """
        origin = next(c for c in self.cases if c["name"] == source)
        record = dict(name=name, base=origin["base"], want=want, why=why, reason=list(reason),
                      derive={"from": source, "op": name}, golden=origin["golden"] if want != "refuse" else None)
        with tempfile.TemporaryDirectory() as folder:
            derive_cases.derive(self.world.out / "adapters" / source, folder, name)
            if golden_by == "peft":
                self.golden(record, folder)
            elif golden_by == "reader":
                save_golden(self.world.out, name, self.world.reader_logits(origin["base"], folder)[0])
                record["golden"] = name
            else:
                self.compare_reader(record, folder)
        self.cases.append(record)

    def golden(self, record, folder):
        """PEFT's logits, stored, with our reader's distance and that of careless readers."""
        world, base, name = self.world, record["base"], record["name"]
        logits = world.peft_logits(base, folder)
        save_golden(world.out, name, logits)
        record["golden"] = name
        record["base_maxdiff"] = maxdiff(logits, world.base_logits[base])
        self.compare_reader(record, folder, logits)
        if record["want"] == "must":
            for key, how in (("naive", dict(naive=True)), ("shuffled_qk", dict(shuffled_qk=True)),
                             ("one_token_early", dict(alora_shift=-1))):
                record[f"{key}_maxdiff"] = self.careless(base, folder, logits, how)

    def careless(self, base, folder, logits, how):
        """How far off a careless reader is; None where it can not even make sense of the shapes."""
        try:
            return maxdiff(self.world.reader_logits(base, folder, **how)[0], logits)
        except Refuse:
            return None

    def compare_reader(self, record, folder, logits=None):
        """Our reader must agree with PEFT where something is wanted, and refuse where a refusal is wanted."""
        name = record["name"]
        try:
            mine, scales = self.world.reader_logits(record["base"], folder)
        except (Refuse, TypeError, ValueError, RuntimeError, KeyError, IndexError) as e:
            record["reader"] = f"refuses: {e}"
            if record["want"] == "must":
                self.faults.append(f"{name}: our reader refuses it: {e}")
            return
        record["reader"] = "reads"
        record["scales"] = sorted({float(f"{s:.6g}") for s in scales.values()})
        if record["want"] == "refuse":
            self.faults.append(f"{name}: our reader accepts a file that has to be refused")
            return
        if logits is None:
            logits = torch.from_numpy(np.load(self.world.out / "golden" / f"{record['golden']}.npy"))
        record["reader_maxdiff"] = maxdiff(mine[-len(logits):], logits)
        if record["reader_maxdiff"] > READER_TOLERANCE:
            self.faults.append(f"{name}: our reader is {record['reader_maxdiff']:.3g} away from PEFT")

    def mix(self, name, base, why, parts):
        """Stored adapters of one base, active together with strengths."""
        logits = self.world.mix_logits(base, parts)
        save_golden(self.world.out, name, logits)
        self.mixes.append(dict(name=name, base=base, why=why, parts=[list(p) for p in parts], golden=name,
                               base_maxdiff=maxdiff(logits, self.world.base_logits[base])))


def save_golden(out, name, logits):
    """The rows of the logits that are compared."""
    np.save(out / "golden" / f"{name}.npy", logits[-N_ROWS:].numpy())


def maxdiff(a, b):
    """Largest absolute difference, to two digits."""
    return float(f"{(a - b).abs().max().item():.2g}")


def tidy_config(path):
    """PEFT writes the path or nothing; the bases have no public name. Sets are put in a fixed order."""
    cfg = json.loads(path.read_text())
    cfg["base_model_name_or_path"] = "patchbay/tiny-random"
    for option in ("target_modules", "modules_to_save"):
        if isinstance(cfg.get(option), list):
            cfg[option] = sorted(cfg[option])  # PEFT keeps them in sets, whose order changes from run to run
    path.write_text(json.dumps(cfg, indent=1) + "\n")


# ---------------------------------------------------------------------------------------------------- the list
def add_plain_cases(b):
    b.case("plain", "base", "must", "the ordinary case, F32")
    b.case("plain_bf16", "base", "must", "tensors stored in BF16", dtype=torch.bfloat16)
    b.case("plain_fp16", "base", "must", "tensors stored in F16", dtype=torch.float16)
    b.derived("mixed_dtype", "plain", "must", "A in F16, B in BF16, some pairs in F32", golden_by="peft")
    b.case("rslora", "base", "must", "scale = alpha / sqrt(r)", use_rslora=True)
    b.case("patterns", "base", "must", "rank and alpha differ by module; first matching regex in file order wins",
           r=4, lora_alpha=8,
           rank_pattern={"q_proj": 8, "^model.layers.0.self_attn.k_proj": 2, r"layers\.\d+\.mlp\.(up|gate)_proj": 6},
           alpha_pattern={"layers.1.self_attn.q_proj": 64, "q_proj": 2, "v_proj|o_proj": 5, "self_attn": 999,
                          "roj": 777, r"model\.layers\.0\.mlp\.down_proj": 24})
    b.case("rslora_patterns", "base", "must", "both at once: alpha_i / sqrt(r_i)", r=4, lora_alpha=8, use_rslora=True,
           rank_pattern={"q_proj": 16, "down_proj": 2}, alpha_pattern={"q_proj": 4, r".*\.1\.mlp\.up_proj": 40})
    b.case("some_layers", "base", "must", "only layer 1, two modules", layers_to_transform=[1],
           target_modules=["v_proj", "down_proj"])
    b.case("zero_alpha", "base", "must", "scale 0: the output is the base model's", lora_alpha=0)
    b.case("negative_alpha", "base", "must", "a negative scale", lora_alpha=-6)
    b.case("rank_one", "base", "must", "rank 1", r=1, lora_alpha=2)
    b.case("with_biases", "base_bias", "must", "a base with biases in attention and MLP")
    b.case("pissa_converted", "base", "must", "PiSSA saved as a difference: an ordinary LoRA")
    b.case("alora", "base", "must", "active from the start of the last invocation sequence on", target_modules=ATTN,
           alora_invocation_tokens=ALORA_TOKENS)
    b.case("alora_absent", "base", "must", "the invocation sequence does not occur: base everywhere",
           target_modules=["v_proj"], alora_invocation_tokens=[6, 5])


def add_embedding_cases(b):
    both = ["embed_tokens", "lm_head"]
    b.case("embed_head", "base", "must", "LoRA on embed_tokens and lm_head (base copies are in the file)",
           target_modules=ATTN + both)
    b.case("tied_embed", "base_tied", "must", "LoRA on the input side of a tied embedding only",
           target_modules=ATTN + ["embed_tokens"])
    b.case("tied_head", "base_tied", "must", "LoRA on the output side of a tied embedding only",
           target_modules=ATTN + ["lm_head"])
    b.case("tied_both", "base_tied", "must", "ensure_weight_tying: the same pair on both sides",
           target_modules=ATTN + ["embed_tokens"], ensure_weight_tying=True)
    b.case("trainable_tokens", "base", "must", "rows of embed_tokens replaced (new values, not differences)",
           trainable_token_indices=[3, 300, 311])
    b.case("trainable_tokens_tied", "base_tied", "must", "the same rows on both sides", trainable_token_indices=[300, 3])
    b.case("trainable_tokens_dict", "base", "must", "rows of both tables, named one by one", target_modules=["q_proj"], r=2,
           trainable_token_indices={"embed_tokens": [3, 300], "lm_head": [17, 5, 311]})
    b.case("trainable_tokens_gemma", "base_gemma3", "must", "new rows join before embeddings are scaled",
           target_modules=["q_proj"], r=2, trainable_token_indices=[7, 311, 42])
    b.derived("tokens_one_too_few", "trainable_tokens", "refuse", "three rows, two tokens", ["shape"])
    b.derived("tokens_beyond", "trainable_tokens", "refuse", "a token that the vocabulary does not have", ["320|vocabulary"])
    b.derived("tokens_not_named", "trainable_tokens", "refuse", "rows, and nothing says of which tokens",
              ["trainable_token_indices"])
    b.case("embed_unchanged", "base", "must", "whole embed_tokens and lm_head in the file, bit-equal to the base's",
           target_modules=ATTN, save_kw=dict(save_embedding_layers=True))
    b.derived("vocab_resized", "embed_unchanged", "refuse", "embeddings of 323 rows over a base of 320",
              ["embed_tokens|token_embd|lm_head"])
    b.case("mts_head", "base", "must", "modules_to_save: whole new lm_head and embed_tokens",
           flags=["--allow-full-modules"], target_modules=["q_proj"], modules_to_save=both)
    b.case("mts_matrices", "base", "must", "modules_to_save: whole new matrices, reordered ones among them", r=2,
           flags=["--allow-full-modules"], target_modules=["v_proj"], layers_to_transform=[1], modules_to_save=["q_proj", "down_proj"])
    b.case("mts_norms", "base", "must", "modules_to_save: new norm weights (a loader that skips them is wrong)",
           target_modules=ATTN, modules_to_save=["input_layernorm", "norm"])
    b.case("mts_norms_gemma", "base_gemma3", "must", "every norm of a Gemma 3, of heads too: they multiply by 1 + w",
           target_modules=["q_proj"], r=2, modules_to_save=["norm", "post_attention_layernorm"])
    b.derived("norm_of_other_width", "mts_norms", "refuse", "a norm of 31 numbers", ["shape"])
    b.derived("norm_nan", "mts_norms", "refuse", "a NaN in a norm", ["finite|nan"])


def add_other_maths(b):
    b.case("bias_all", "base_bias", "must", "bias='all': new values of every bias", target_modules=ATTN, bias="all")
    b.case("bias_lora_only", "base_bias", "must", "bias='lora_only': new values at ...base_layer.bias",
           target_modules=ATTN, bias="lora_only")
    b.case("lora_bias", "base_bias", "must", "lora_bias: y += scale * b", target_modules=ATTN, lora_bias=True)
    b.case("lora_bias_rslora", "base_bias", "must", "lora_bias under scales of their own", target_modules=["q_proj", "up_proj"],
           lora_bias=True, use_rslora=True, alpha_pattern={"q_proj": 3})
    b.case("alora_lora_bias", "base_bias", "must", "the bias of an aLoRA begins where it does", target_modules=["k_proj", "v_proj"],
           lora_bias=True, alora_invocation_tokens=ALORA_TOKENS)
    b.derived("bias_of_other_width", "bias_all", "refuse", "a bias that is too long", ["shape"])
    b.derived("lora_bias_not_said", "lora_bias", "refuse", "lora_B.bias in the file, and lora_bias false", ["lora_bias"])
    b.derived("lora_bias_missing", "plain", "refuse", "lora_bias, and none in the file", ["lora_bias"])
    b.case("replication", "base", "refuse", "layer_replication [[0,1],[0,1]]: same layer count, other model",
           ["layer_replication"], target_modules=["v_proj"], layer_replication=[[0, 1], [0, 1]])
    b.derived("replication_of_nothing", "plain", "must", "layer_replication that keeps all layers")
    add_dora_cases(b)
    add_packed_cases(b)
    b.case("pissa", "base", "refuse", "init_lora_weights='pissa': belongs to a changed base weight",
           ["pissa", "path_initial_model_for_weight_conversion", "--base-is-residual"])


def add_dora_cases(b):
    b.case("dora", "base", "must", "DoRA: rows rescaled to learned lengths", use_dora=True)
    b.case("dora_bf16", "base", "must", "lengths in BF16", use_dora=True, target_modules=["k_proj", "o_proj"],
           dtype=torch.bfloat16)
    b.case("dora_scales", "base", "must", "DoRA under rsLoRA with patterns", use_dora=True, use_rslora=True, target_modules=ATTN,
           rank_pattern={"v_proj": 2}, alpha_pattern={"q_proj": 5, "o_proj": -3})
    b.case("dora_embed_head", "base", "must", "DoRA on look-up (a length per dimension, over the vocabulary) and head",
           use_dora=True, target_modules=["embed_tokens", "lm_head"], r=2)
    b.case("dora_tied", "base_tied", "must", "DoRA on the input side of a tied table", use_dora=True, r=2,
           target_modules=["embed_tokens", "gate_proj"])
    b.case("dora_biases", "base_bias", "must", "DoRA leaves the base's bias alone, and bias='all' replaces it", use_dora=True,
           target_modules=["q_proj", "down_proj"], bias="all")
    b.case("dora_gemma", "base_gemma3", "must", "DoRA on a Gemma 3", use_dora=True, r=2, target_modules=["q_proj", "up_proj"])
    b.case("dora_norms_tokens", "base", "must", "DoRA, norms and token rows in one adapter", use_dora=True,
           target_modules=["v_proj", "up_proj"], modules_to_save=["post_attention_layernorm"], trainable_token_indices=[5, 7])
    b.derived("dora_old_name", "dora", "must", "lora_magnitude_vector.default.weight")
    b.derived("dora_not_said", "dora", "refuse", "lengths in the file, and use_dora false", ["dora"])
    b.derived("dora_missing", "plain", "refuse", "use_dora, and no length in the file", ["dora"])
    b.derived("dora_short", "dora", "refuse", "a length too few", ["shape"])
    b.derived("dora_nan", "dora", "refuse", "a length is NaN", ["finite|nan"])
    b.derived("dora_lora_bias", "lora_bias", "refuse", "DoRA with lora_bias, which PEFT refuses", ["dora"])
    b.derived("dora_alora", "alora", "refuse", "DoRA with aLoRA, which PEFT refuses", ["dora"])


def add_packed_cases(b):
    """Pairs that are stored in another form than they act in, and buffers that do not act at all."""
    blocks = dict(target_modules_bd_a=["o_proj"], target_modules_bd_b=["q_proj", "k_proj"], nblocks=2, match_strict=False)
    b.case("bdlora", "base", "must", "block-diagonal halves, stored without zeros", target_modules=ATTN,
           use_bdlora=peft.tuners.lora.config.BdLoraConfig(**blocks))
    b.case("qalora_off", "base", "must", "use_qalora off GPTQ: PEFT ignores it", target_modules=["q_proj"], use_qalora=True,
           qalora_group_size=8)
    b.derived("qalora", "plain", "must", "A over the means of groups of eight inputs", golden_by="reader")
    b.derived("velora_buffers", "plain", "must", "a buffer of VeLoRA's training in the file")
    b.derived("monteclora_buffers", "plain", "must", "buffers of MonteCLoRA's sampling in the file")
    b.derived("kasa", "plain", "refuse", "KaSA: another base", ["kasa"])
    b.derived("kasa_tensor", "plain", "refuse", "lora_diag of KaSA", ["kasa"])
    b.derived("arrow", "plain", "refuse", "a router between adapters", ["arrow"])


def add_expert_cases(b):
    experts = ["experts.gate_up_proj", "experts.down_proj"]
    b.case("moe_fused", "base_moe", "must", "target_parameters on stacked expert weights, layout of PEFT >= 0.19.1",
           target_modules=ATTN, target_parameters=experts, r=3, lora_alpha=6)
    b.case("moe_attention", "base_moe", "must", "attention only over a base with experts", target_modules=ATTN)
    b.case("moe_router", "base_moe", "must", "the router as target_parameters", target_modules=["q_proj"],
           target_parameters=["mlp.gate.weight"], r=3, lora_alpha=6)
    b.derived("moe_fused_legacy", "moe_fused", "must", "the same numbers in the layout of PEFT 0.17 to 0.18")
    b.derived("moe_per_expert", "moe_fused", "must", "one pair per expert (transformers 4)")
    b.derived("moe_one_expert", "moe_fused", "must", "pairs of expert 2 only, per expert", golden_by="reader")
    b.derived("moe_gaps", "moe_fused", "must", "per expert, other ranks and some of w1, w2, w3 missing", golden_by="reader")
    b.derived("moe_v5_names", "moe_fused", "must", "per expert under mlp.experts.N.gate_proj")
    b.derived("moe_resaved", "moe_fused", "must", "saved again by PEFT under v5: rank 2 r, B block-diagonal", golden_by="reader")
    b.derived("moe_expert_beyond", "moe_fused", "refuse", "a pair for expert 9 of 4", ["expert"])
    b.case("moe_gate_up", "base_moe", "must", "only the fused gate and up projections", target_modules=["q_proj"], r=2,
           target_parameters=["experts.gate_up_proj"])
    b.case("moe_down", "base_moe", "must", "only the down projections", target_modules=["q_proj"], r=2,
           target_parameters=["experts.down_proj"])
    b.case("moe_mts_router", "base_moe", "must", "a whole new router", target_modules=["q_proj"], r=2,
           flags=["--allow-full-modules"], modules_to_save=["gate"])
    b.case("parameter_2d", "base", "must", "target_parameters on plain matrices", target_modules=["v_proj"],
           target_parameters=["q_proj.weight"], r=2, alpha_pattern={"q_proj.weight": 5})


def add_gemma_cases(b):
    b.case("gemma_all", "base_gemma3", "must", "all linears of a Gemma 3", dtype=torch.bfloat16)
    b.case("gemma_embed", "base_gemma3", "must", "the delta joins before embeddings are scaled by sqrt(n_embd)",
           target_modules=["q_proj", "v_proj", "embed_tokens"])
    b.case("gemma_head", "base_gemma3", "must", "the output side of Gemma's tied embedding",
           target_modules=["k_proj", "lm_head"])


def add_name_cases(b):
    b.derived("names_default", "plain", "must", "adapter name in the key: lora_A.default.weight")
    b.derived("names_double_prefix", "plain", "must", "base_model.model. twice")
    b.derived("names_no_prefix", "plain", "must", "no base_model.model.")
    b.derived("names_no_model", "plain", "must", "layers.0 without the level model, as AutoModel has it")
    b.derived("names_compiled", "plain", "must", "_orig_mod. of torch.compile")
    b.derived("names_ddp", "plain", "must", "module. of DDP")
    b.derived("names_fsdp", "plain", "must", "_fsdp_wrapped_module.")
    b.derived("names_vlm", "plain", "must", "model.language_model. of a multimodal model")
    b.derived("names_old_vlm", "plain", "must", "language_model.model. of an older one")
    b.derived("names_smolvlm", "plain", "must", "model.text_model.")
    b.derived("names_loralib", "plain", "must", "lora_A without .weight")
    b.derived("two_adapters_in_one", "plain", "refuse", "adapters of two names in one file", ["several adapters|first"])
    b.derived("vision", "plain", "refuse", "a pair of the vision part", ["vision"])
    b.derived("mlx_names", "plain", "refuse", "lora_a and lora_b of MLX", ["MLX"])
    b.derived("down_up_names", "plain", "refuse", "lora_down and lora_up of diffusion tools", ["diffusion"])
    b.derived("alpha_tensors", "plain", "refuse", "an alpha per module in the file", ["alpha"])
    b.case("bin_file", "base", "may", "adapter_model.bin (pickle)", ["safetensors"], target_modules=["q_proj"],
           save_kw=dict(safe_serialization=False))


def add_broken_cases(b):
    def module(layer, hf, gguf_name):
        return rf"layers\.{layer}\.{hf}|blk\.{layer}\.{gguf_name}"

    q0, half = module(0, "self_attn.q_proj", "attn_q"), "missing"
    b.derived("missing_b", "plain", "refuse", "one lora_B is missing", [q0, half])
    b.derived("missing_a", "plain", "refuse", "one lora_A is missing", [module(1, "mlp.up_proj", "ffn_up"), half])
    b.derived("wrong_in", "plain", "refuse", "lora_A has the wrong input width",
              [module(0, "mlp.down_proj", "ffn_down"), "shape"])
    b.derived("wrong_out", "plain", "refuse", "lora_B has the wrong output width",
              [module(0, "self_attn.k_proj", "attn_k"), "shape"])
    b.derived("wrong_rank", "plain", "refuse", "A and B of one pair disagree on the rank",
              [module(0, "self_attn.v_proj", "attn_v"), "rank|transposed"])
    b.derived("nan", "plain", "refuse", "one NaN", [module(0, "self_attn.o_proj", "attn_output"), "finite|nan"])
    b.derived("inf_fp16", "plain_fp16", "refuse", "one infinity in F16",
              [module(1, "self_attn.o_proj", "attn_output"), "finite|inf"])
    b.derived("empty_tensor", "plain", "refuse", "a ZeRO-3 shard: shape [0]", [q0, "empty|zero|shape"])
    b.derived("junk", "plain", "refuse", "a tensor nobody knows", ["lora_wow"])
    b.derived("no_such_module", "plain", "refuse", "a pair for layer 7 of 2", [module(7, "self_attn.q_proj", "attn_q")])
    b.derived("rank_mismatch", "plain", "refuse", "config says r=16, the tensors have rank 4", ["rank", "16", "4"])
    b.derived("adalora_type", "plain", "refuse", "peft_type is not LORA", ["adalora"])
    b.derived("loftq_init", "plain", "refuse", "init_lora_weights='loftq': belongs to a quantised base",
              ["loftq|init_lora_weights"])
    b.derived("alpha_not_a_number", "plain", "refuse", "lora_alpha is a word", ["lora_alpha"])
    b.derived("no_tensors", "plain", "refuse", "a file without any tensor", ["no .*(pair|tensor)|empty"])
    for init in ("pissa_niter_4", "olora", "corda", "lora_ga"):
        b.derived(f"init_{init}", "plain", "refuse", f"init_lora_weights='{init}'", [init, "--base-is-residual"])
    for kind in ("loha", "lokr", "vera", "ia3", "oft", "boft", "fourierft", "randlora", "miss", "shira", "hra", "ln_tuning",
                 "prompt_tuning", "xlora"):
        b.derived(f"type_{kind}", "plain", "refuse", f"peft_type {kind.upper()}", [kind, "save_as_lora"])
    b.derived("enable_lora", "plain", "refuse", "grouped B of PEFT 0.2", ["enable_lora"])
    b.derived("no_alpha", "plain", "refuse", "lora_alpha is missing", ["lora_alpha"])
    b.derived("no_rank", "plain", "refuse", "r is missing", ["r is missing|: r"])


def add_harmless_options(b):
    """What the config may say and nothing follows from, or not what a careless reader thinks."""
    for init in ("eva", "mica", "gaussian", "orthogonal"):
        b.derived(f"init_{init}", "plain", "must", f"init_lora_weights='{init}': relative to the plain base")
    b.derived("alpha_as_float", "plain", "must", "lora_alpha 8.0")
    b.derived("fan_in_fan_out", "plain", "must", "fan_in_fan_out does not transpose pairs")
    b.derived("megatron", "plain", "must", "megatron_config over whole tensors")
    b.derived("targets_by_regex", "plain", "must", "target_modules as one regular expression")
    b.derived("unknown_option", "plain", "must", "an option of the future is named in a note")
    b.derived("other_base_name", "plain", "must", "another base's name is a warning")
    b.derived("f64", "plain", "must", "factors in F64")
    b.derived("feature_extraction", "plain", "must", "task_type FEATURE_EXTRACTION without the level model")


def add_mixes(b):
    b.mix("half_strength", "base", "strength 0.5", [("plain", 0.5)])
    b.mix("negative_strength", "base", "strength -0.75", [("plain", -0.75)])
    b.mix("double_strength", "base", "strength 2 over rsLoRA with patterns", [("rslora_patterns", 2.0)])
    b.mix("alora_half", "base", "strength 0.5 of an aLoRA", [("alora", 0.5)])
    b.mix("two_adapters", "base", "two adapters at full strength: the changes are summed",
          [("plain", 1.0), ("patterns", 1.0)])
    b.mix("three_weighted", "base", "three adapters of different ranks and targets, weighted",
          [("plain_bf16", 0.7), ("some_layers", 1.5), ("embed_head", -0.4)])
    b.mix("tied_weighted", "base_tied", "input side of one, output side of another",
          [("tied_embed", 0.8), ("tied_head", 0.6)])
    b.mix("moe_weighted", "base_moe", "experts and router together", [("moe_fused", 0.5), ("moe_attention", 1.25)])
    b.mix("dora_half", "base", "DoRA at strength 0.5, as set_scale has it", [("dora", 0.5)])
    b.mix("dora_double", "base", "DoRA at strength 2", [("dora", 2.0)])
    b.mix("dora_negative", "base", "DoRA at strength -1", [("dora", -1.0)])
    b.mix("dora_embed_half", "base", "DoRA on the tables at strength 0.5", [("dora_embed_head", 0.5)])
    b.mix("dora_and_plain", "base", "DoRA first, then a plain adapter: PEFT agrees with sums", [("dora", 1.0), ("patterns", 0.5)])
    b.mix("lora_bias_weighted", "base_bias", "lora_bias at -0.5 beside a plain adapter", [("lora_bias", -0.5), ("with_biases", 1.0)])
    b.mix("gemma_weighted", "base_gemma3", "Gemma with two", [("gemma_all", 0.5), ("gemma_embed", 1.0)])


def write_bases(world):
    """Golden base logits and their records."""
    for name, logits in world.base_logits.items():
        save_golden(world.out, f"{name}.base", logits)
    return [dict(name=name, ids=world.ids(name), golden=f"{name}.base") for name in world.base_logits]


def build(out):
    """Everything, into an empty or existing folder; returns the faults found."""
    for part in ("bases", "adapters", "adapters_gguf", "golden"):
        shutil.rmtree(out / part, ignore_errors=True)
        (out / part).mkdir(parents=True)
    b = Builder(World(out))
    for add_cases in (add_plain_cases, add_embedding_cases, add_other_maths, add_expert_cases, add_gemma_cases,
                      add_name_cases, add_broken_cases, add_harmless_options, add_mixes):
        add_cases(b)
    record = dict(peft=peft.__version__, torch=torch.__version__, bases=write_bases(b.world), cases=b.cases, mixes=b.mixes)
    (out / "cases.json").write_text(json.dumps(record, indent=1) + "\n")
    return b


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", type=Path, default=Path(__file__).resolve().parents[1] / "data" / "oracle")
    args = ap.parse_args()
    start = time.time()
    b = build(args.out)
    for c in b.cases + b.mixes:
        print(f"{c['name']:24s}", {k: v for k, v in c.items() if "maxdiff" in k or k in ("want", "reader", "scales")})
    size = sum(f.stat().st_size for f in args.out.rglob("*") if f.is_file())
    print(f"{len(b.cases)} cases, {len(b.mixes)} mixes, {size / 1e6:.2f} MB, {time.time() - start:.0f} s")
    sys.exit("\n".join(b.faults) or 0)


if __name__ == "__main__":
    main()
