"""Our own reading of a PEFT LoRA folder: the executable statement of what each option means.

`Reader.apply` changes the weights of a plain base model. make_peft_cases.py checks that the result agrees with PEFT itself.
"""

import json
import math
import re
from pathlib import Path

import torch
from safetensors.torch import load_file

RESIDUAL_INITS = ("pissa", "olora", "corda", "lora_ga", "loftq")
IGNORABLE = ("lora_velora_embed", "lora_monteclora_sampler")  # training buffers, no effect at inference
WRAPPERS = ("base_model.model.", "module.")
LEVELS = r"(^|\.)(_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module|language_model|text_model)(?=\.)"

# key form -> role; the first that fits wins
ROLES = [
    (r"(.+)\.lora_A(\.weight)?$", "A"),
    (r"(.+)\.lora_B(\.weight)?$", "B"),
    (r"(.+)\.lora_B\.bias$", "lora_bias"),
    (r"(.+)\.lora_embedding_A$", "EA"),
    (r"(.+)\.lora_embedding_B$", "EB"),
    (r"(.+)\.lora_magnitude_vector$", "magnitude"),
    (r"(.+)\.token_adapter\.trainable_tokens_delta$", "rows"),
    (r"(.+)\.base_layer\.bias$", "bias"),
    (r"(.+)\.base_layer\.weight$", "base_copy"),
    (r"(.+)\.weight$", "weight"),
    (r"(.+)\.bias$", "bias"),
]


class Refuse(Exception):
    """The folder can not be honoured; the text says why."""


def rope_rows(n_rows, n_head):
    """New row -> old row of q and k in llama GGUF files: ggml rotates neighbours where HF rotates halves of a head."""
    d = n_rows // n_head
    return [h * d + half * (d // 2) + j for h in range(n_head) for j in range(d // 2) for half in range(2)]


def load_tensors(folder):
    """The tensors of a folder; the pickle form is read here because the oracle trusts its own files."""
    path = Path(folder) / "adapter_model.safetensors"
    if path.exists():
        return load_file(path)
    return torch.load(path.with_suffix(".bin"), weights_only=True)


def split_experts(a, b, n):
    """A fused pair to ([n, r, in], [n, out, r]): rows of A are e*r+k, columns of B are k*n+e."""
    rank = a.shape[0] // n
    return a.reshape(n, rank, -1), b.reshape(b.shape[0], rank, n).permute(2, 0, 1)


def first_match(patterns, module):
    """The first key, in file order, that PEFT would apply to this module; None if there is none."""
    return next((p for p in patterns or {} if re.match(rf"(.*\.)?({p})$", module)), None)


class Reader:
    """One adapter folder over one base config. `naive` does what a careless loader does: one alpha over the tensor rank."""

    def __init__(self, folder, base_config, naive=False, shuffled_qk=False):
        self.cfg = json.loads((Path(folder) / "adapter_config.json").read_text())  # file order of the patterns matters
        self.tensors = load_tensors(folder)
        self.base_cfg = base_config
        self.naive = naive
        self.shuffled_qk = shuffled_qk  # as if q/k rows of B were not reordered for a llama GGUF
        self.scales = {}
        self.masked = {}  # aLoRA: module -> (A, B, scale), can not be folded into a weight

    def scale(self, module, rank):
        """alpha / r or alpha / sqrt(r), both per module."""
        c = self.cfg
        if self.naive:
            return c["lora_alpha"] / rank if c["lora_alpha"] else 1.0
        pattern = first_match(c.get("alpha_pattern"), module)
        alpha = c["lora_alpha"] if pattern is None else c["alpha_pattern"][pattern]
        self.scales[module] = alpha / math.sqrt(rank) if c.get("use_rslora") else alpha / rank
        return self.scales[module]

    def pattern_name(self, module):
        """What patterns know a module by: its parameter, where that was targeted."""
        parameter = f"{module}.weight"
        targeted = any(f".{parameter}".endswith(f".{p}") for p in self.cfg.get("target_parameters") or [])
        return parameter if targeted else module

    def check_rank(self, module, rank):
        pattern = first_match(self.cfg.get("rank_pattern"), module)
        want = self.cfg["r"] if pattern is None else self.cfg["rank_pattern"][pattern]
        if rank != want and not self.naive:
            raise Refuse(f"{module}: rank {rank} in the file, {want} in the config")

    def check_config(self):
        c = self.cfg
        if c.get("peft_type") != "LORA":
            raise Refuse(f"peft_type {c.get('peft_type')}")
        init = c.get("init_lora_weights")
        if isinstance(init, str) and init.startswith(RESIDUAL_INITS):
            raise Refuse(f"init_lora_weights={init}: made for a changed base weight")
        for option in ("megatron_config", "kasa_config", "arrow_config", "enable_lora"):
            if c.get(option):
                raise Refuse(option)
        ranges = c.get("layer_replication") or [[0, self.base_cfg["num_hidden_layers"]]]
        if [i for a, b in ranges for i in range(a, b)] != list(range(self.base_cfg["num_hidden_layers"])):
            raise Refuse("layer_replication")
        if c.get("use_dora") and (c.get("lora_bias") or c.get("alora_invocation_tokens") or c.get("target_parameters")):
            raise Refuse("use_dora with what PEFT refuses beside it")

    def check_extras(self, module, roles):
        """PEFT makes up what is missing and ignores what it does not expect."""
        for option, role in (("use_dora", "magnitude"), ("lora_bias", "lora_bias")):
            if bool(self.cfg.get(option)) != (role in roles) and not self.naive:
                raise Refuse(f"{module}: {option} does not agree with the file")

    @staticmethod
    def plain_key(key):
        """The key without wrappers and without the adapter's name."""
        while key.startswith(WRAPPERS):
            key = key.removeprefix(next(w for w in WRAPPERS if key.startswith(w)))
        key = re.sub(LEVELS, "", key).removeprefix(".")
        if key.startswith("layers."):
            key = "model." + key
        key = re.sub(r"\.lora_(A|B)\.[^.]+\.weight$", r".lora_\1.weight", key)
        return re.sub(r"\.lora_(embedding_A|embedding_B|magnitude_vector)\.[^.]+(\.weight)?$", r".lora_\1", key)

    def groups(self):
        """module -> {role: tensor}; every key has to be understood."""
        out = {}
        names = {m[2] for key in self.tensors if (m := re.search(r"\.lora_(A|B)\.([^.]+)\.weight$", key))}
        if len(names) > 1:
            raise Refuse(f"several adapters: {names}")
        for key, v in self.tensors.items():
            plain = self.plain_key(key)
            if any(s in plain for s in IGNORABLE):
                continue
            if not torch.isfinite(v.float()).all():
                raise Refuse(f"{key}: not finite")
            if v.numel() == 0:
                raise Refuse(f"{key}: empty (ZeRO-3/FSDP shard)")
            found = next(((m[1], role) for pattern, role in ROLES if (m := re.match(pattern, plain))), None)
            if found is None:
                raise Refuse(f"{key}: unknown tensor")
            out.setdefault(found[0], {})[found[1]] = v.float()
        if not out:
            raise Refuse("no tensors")
        return out

    def apply(self, weights):
        """A changed copy of the base's state dict."""
        if not self.naive:
            self.check_config()
        sd = {k: v.clone().float() for k, v in weights.items()}
        self.tied = self.base_cfg.get("tie_word_embeddings", False)
        if self.tied:
            sd["lm_head.weight"] = sd["model.embed_tokens.weight"].clone()  # two uses; an adapter may change one only
        groups = self.groups()
        experts = {m: r for m, r in groups.items() if ".experts" in m}
        for module, roles in groups.items():
            if module not in experts:
                self.plain_module(sd, module, roles)
        self.expert_modules(sd, experts)
        return sd

    def plain_module(self, sd, module, roles):
        if f"{module}.weight" not in sd:
            raise Refuse(f"{module}: no such module in the base model")
        if ("A" in roles) != ("B" in roles) or ("EA" in roles) != ("EB" in roles):
            raise Refuse(f"{module}: half of the A/B pair is missing")
        if "A" in roles:
            self.check_extras(module, roles)
            self.linear(sd, module, roles)
        elif "EA" in roles:
            self.check_extras(module, {**roles, "lora_bias": 0} if self.cfg.get("lora_bias") else roles)
            self.embedding(sd, module, roles)
        if self.naive:
            return
        if "rows" in roles:
            self.token_rows(sd, module, roles["rows"])
        for leaf in ("weight", "bias"):
            if leaf in roles:
                if roles[leaf].shape != sd[f"{module}.{leaf}"].shape:
                    raise Refuse(f"{module}.{leaf}: shape {tuple(roles[leaf].shape)}")
                sd[f"{module}.{leaf}"] = roles[leaf].clone()

    def embedding(self, sd, module, roles):
        """A (r, vocab), B (embd, r): the input side only, before any factor that the model puts on its embeddings."""
        a, b, w = roles["EA"], roles["EB"], f"{module}.weight"
        if a.shape[1] != sd[w].shape[0] or b.shape[0] != sd[w].shape[1]:
            raise Refuse(f"{module}: vocabulary {a.shape[1]} against {sd[w].shape[0]}")
        self.check_rank(module, a.shape[0])
        new = sd[w] + self.scale(module, a.shape[0]) * (b @ a).T
        if "magnitude" in roles and not self.naive:
            new = new * (roles["magnitude"] / new.norm(dim=0))  # over the vocabulary, one length per dimension
        sd[w] = new

    def token_rows(self, sd, module, rows):
        """trainable_tokens_delta: despite the name new rows, not differences."""
        index = self.cfg["trainable_token_indices"]
        index = index[module.rsplit(".", 1)[-1]] if isinstance(index, dict) else index
        if rows.shape != (len(index), sd[f"{module}.weight"].shape[1]) or max(index) >= len(sd[f"{module}.weight"]):
            raise Refuse(f"{module}: rows {tuple(rows.shape)} for {len(index)} tokens")
        sd[f"{module}.weight"][index] = rows
        if self.tied and module == "model.embed_tokens":
            sd["lm_head.weight"][index] = rows

    def full_pair(self, module, a, b, n_in):
        """Pairs that are stored smaller than they are: groups of QALoRA, blocks of BD-LoRA."""
        blocks = self.cfg.get("use_bdlora") or {}
        name, n = module.rsplit(".", 1)[-1], blocks.get("nblocks", 1)
        if any(p in name for p in blocks.get("target_modules_bd_a") or []):
            a = torch.block_diag(*torch.chunk(a, n))
        elif any(p in name for p in blocks.get("target_modules_bd_b") or []):
            b = torch.block_diag(*torch.chunk(b, n))
        group = self.cfg.get("qalora_group_size", 16) if self.cfg.get("use_qalora") else 1
        if group > 1 and a.shape[1] * group == n_in:
            a = a.repeat_interleave(group, dim=1) * (a.shape[1] / group)
        return a, b

    def linear(self, sd, module, roles):
        a, b, w = roles["A"], roles["B"], f"{module}.weight"
        if not self.naive:
            a, b = self.full_pair(module, a, b, sd[w].shape[1])
        if a.shape[0] != b.shape[1] or a.shape[1] != sd[w].shape[1] or b.shape[0] != sd[w].shape[0]:
            raise Refuse(f"{module}: A {tuple(a.shape)} B {tuple(b.shape)} on a {tuple(sd[w].shape)} weight")
        name = self.pattern_name(module)
        self.check_rank(name, a.shape[0])
        s = self.scale(name, a.shape[0])
        if self.shuffled_qk and module.endswith(("q_proj", "k_proj")):
            n_head = self.base_cfg["num_attention_heads" if module.endswith("q_proj") else "num_key_value_heads"]
            b = torch.empty_like(b).index_copy_(0, torch.tensor(rope_rows(b.shape[0], n_head)), b)
        if self.cfg.get("alora_invocation_tokens") and not self.naive:
            self.masked[module] = (a, b, s, roles.get("lora_bias", 0))
            return
        new = sd[w] + s * (b @ a)
        if "magnitude" in roles and not self.naive:
            if roles["magnitude"].shape != (len(new),):
                raise Refuse(f"{module}: {tuple(roles['magnitude'].shape)} lengths")
            new = new * (roles["magnitude"] / new.norm(dim=1)).unsqueeze(1)
        sd[w] = new
        if "lora_bias" in roles and not self.naive:
            sd[f"{module}.bias"] = sd[f"{module}.bias"] + s * roles["lora_bias"]

    def expert_modules(self, sd, experts):
        """Fused expert parameters (target_parameters) or one pair per expert (adapters of transformers v4)."""
        single = {m: r for m, r in experts.items() if re.search(r"\.experts\.\d+\.", m)}
        for module, roles in single.items():
            self.one_expert(sd, module, roles["A"], roles["B"])
        fused = {m: r for m, r in experts.items() if m not in single}
        for module, roles in fused.items():
            self.fused_experts(sd, module, fused, roles["A"], roles["B"])

    def one_expert(self, sd, module, a, b):
        layer, expert, weight = re.match(r"(model\.layers\.\d+)\.\w+\.experts\.(\d+)\.(\w+)$", module).groups()
        self.check_rank(module, a.shape[0])
        delta = self.scale(module, a.shape[0]) * (b @ a)
        if weight in ("w2", "down_proj"):
            sd[f"{layer}.mlp.experts.down_proj"][int(expert)] += delta
            return
        stacked = sd[f"{layer}.mlp.experts.gate_up_proj"]
        half = stacked.shape[1] // 2
        first = 0 if weight in ("w1", "gate_proj") else half
        stacked[int(expert), first:first + half] += delta

    def fused_experts(self, sd, module, fused, a, b):
        parameter, weight = self.fused_parameter(sd, module, fused)
        a, b = self.natural_pair(module, weight, a, b)
        self.check_rank(parameter, a.shape[1])
        sd[parameter] = weight + self.scale(parameter, a.shape[1] * (weight.shape[0] if self.naive else 1)) * (b @ a)

    def fused_parameter(self, sd, module, fused):
        """PEFT nests one wrapper per parameter as registered: with two, base_layer.* is gate_up and the outer one down."""
        experts = module.removesuffix(".base_layer")
        if f"{experts}.base_layer" in fused:
            leaf = "gate_up_proj" if module.endswith(".base_layer") else "down_proj"
        else:
            leaf = self.cfg["target_parameters"][0].rsplit(".", 1)[-1]
        return f"{experts}.{leaf}", sd[f"{experts}.{leaf}"]

    def natural_pair(self, module, weight, a, b):
        """([E, r, in], [E, out, r]) whichever way the file has them. PEFT before 0.19.1 called dim 1 in and dim 2 out."""
        a, b = split_experts(a, b, weight.shape[0])
        fits = (b.shape[1], a.shape[2]) == tuple(weight.shape[1:])
        if not fits or self.is_legacy_square(weight):
            a, b = b.transpose(1, 2), a.transpose(1, 2)
        if (b.shape[1], a.shape[2]) != tuple(weight.shape[1:]):
            raise Refuse(f"{module}: does not fit {tuple(weight.shape)}")
        return a, b

    def is_legacy_square(self, weight):
        if weight.shape[1] != weight.shape[2]:
            return False  # the shapes decide
        version = self.cfg.get("peft_version")
        if version is None:
            raise Refuse("square expert weights and no peft_version: the layout can not be told")
        return tuple(int(x) for x in version.split("@")[0].split(".")[:3]) < (0, 19, 1)
