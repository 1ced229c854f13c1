#!/usr/bin/env python3
"""Writes what transformers and PEFT call things, for every family whose adapters can be converted.

    python make_family_shapes.py [--out tests/data/oracle/families.json]

Needs torch, transformers 5, peft 0.21. For a tiny random model of each family it notes the config, the names and shapes of
its parameters, and the adapter that PEFT makes with a pair on every module and parameter that can have one: its config and
the names and shapes of its tensors. No numbers: test_families.py draws them.
"""

import argparse
import json
import os
import warnings
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
import transformers
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict

warnings.filterwarnings("ignore")
torch.set_num_threads(1)

SHAPE = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2)
WIDE = dict(SHAPE, head_dim=16)
EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24)
LOCAL = dict(num_local_experts=4, num_experts_per_tok=2)
DEEPSEEK = dict(SHAPE, num_key_value_heads=4, kv_lora_rank=24, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=6,
                n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, n_shared_experts=2,
                first_k_dense_replace=1, n_group=1, topk_group=1)
FAMILIES = {
    "llama": ("LlamaConfig", SHAPE),
    "mistral": ("MistralConfig", SHAPE),
    "mixtral": ("MixtralConfig", SHAPE | LOCAL),
    "qwen2": ("Qwen2Config", SHAPE),
    "qwen2_moe": ("Qwen2MoeConfig", SHAPE | EXPERTS | dict(shared_expert_intermediate_size=40)),
    "qwen3": ("Qwen3Config", WIDE),
    "qwen3_moe": ("Qwen3MoeConfig", WIDE | EXPERTS),
    "gemma2": ("Gemma2Config", WIDE),
    "gemma3": ("Gemma3TextConfig", WIDE),
    "phi3": ("Phi3Config", SHAPE),
    "granite": ("GraniteConfig", SHAPE),
    "granitemoe": ("GraniteMoeConfig", SHAPE | LOCAL),
    "granitemoeshared": ("GraniteMoeSharedConfig", SHAPE | LOCAL | dict(shared_intermediate_size=40)),
    "smollm3": ("SmolLM3Config", SHAPE),
    "olmo2": ("Olmo2Config", SHAPE),
    "deepseek_v2": ("DeepseekV2Config", DEEPSEEK | dict(q_lora_rank=20)),
    "deepseek_v2_lite": ("DeepseekV2Config", DEEPSEEK | dict(q_lora_rank=None)),
}
KEPT_CONFIG = (set(SHAPE) | set(EXPERTS) | set(LOCAL) | set(DEEPSEEK)
               | {"head_dim", "q_lora_rank", "shared_expert_intermediate_size", "mlp_only_layers", "shared_intermediate_size",
                  "decoder_sparse_step", "model_type", "tie_word_embeddings", "moe_layer_freq"})


def target_parameters(model):
    """Weights that lie in no module that PEFT knows: routers and stacked experts, one of each layer."""
    linear = {name for name, module in model.named_modules() if isinstance(module, (torch.nn.Linear, torch.nn.Embedding))}
    return sorted({name for name, p in model.named_parameters() if p.ndim > 1 and name.rpartition(".")[0] not in linear})


def target_modules(model):
    kinds = (torch.nn.Linear, torch.nn.Embedding)
    return sorted({name.rpartition(".")[2] for name, module in model.named_modules() if isinstance(module, kinds)})


def shapes(tensors):
    return {name: list(t.shape) for name, t in sorted(tensors.items())}


def describe(class_name, settings):
    config = getattr(transformers, class_name)(**settings)
    model = transformers.AutoModelForCausalLM.from_config(config)
    parameters = shapes(dict(model.named_parameters()))
    lora = LoraConfig(r=4, lora_alpha=8, target_modules=target_modules(model),
                      target_parameters=target_parameters(model) or None, task_type="CAUSAL_LM",
                      rank_pattern={"v_proj": 2, "o_proj": 3}, alpha_pattern={"o_proj": 5, "down_proj": 6})
    adapted = get_peft_model(model, lora)
    state = get_peft_model_state_dict(adapted, save_embedding_layers=False)
    options = {k: sorted(v) if isinstance(v, set) else v for k, v in lora.to_dict().items()
               if k in ("peft_type", "r", "lora_alpha", "target_modules", "target_parameters", "rank_pattern",
                        "alpha_pattern", "peft_version", "task_type")}
    options["peft_type"], options["task_type"] = "LORA", "CAUSAL_LM"
    kept = {k: v for k, v in config.to_dict().items() if k in KEPT_CONFIG}
    return {"config": kept, "parameters": parameters, "adapter_config": options, "adapter": shapes(state)}


def main():
    root = Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=root / "tests" / "data" / "oracle" / "families.json")
    out = parser.parse_args().out
    found = {name: describe(*family) for name, family in FAMILIES.items()}
    out.write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in found.items()) + "\n}\n")


if __name__ == "__main__":
    main()
