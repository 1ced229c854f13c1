#!/usr/bin/env python3
"""Trains the four demo adapters on the CPU and scores each on held-out examples, with and without the adapter.

    python train.py --model models/SmolLM2-135M-Instruct.Q4_1.gguf [--only NAME ...] [--steps-factor F]

Needs torch, transformers and peft; no network. The base weights are the ones in the GGUF file, dequantised, so an
adapter is trained over what it will be run over. Writes examples/adapters/<name>/ and examples/train/scores.json.
Seeds are fixed; other thread counts or library versions may still give other last digits.
"""

import argparse
import json
import os
import random
import time
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from peft.tuners.lora.variants import calculate_alora_offsets
from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence
from transformers import AutoModelForCausalLM, AutoTokenizer

import make_data

HERE = Path(__file__).resolve().parent
ADAPTERS = HERE.parent / "adapters"
BASE_NAME = "HuggingFaceTB/SmolLM2-135M-Instruct"
N_TRAIN = 120
N_HELD_OUT = 24
ATTN = ["q_proj", "k_proj", "v_proj", "o_proj"]
MLP = ["gate_proj", "up_proj", "down_proj"]


@dataclass
class Recipe:
    """How one adapter is trained. The four differ in rank, targets, scale rule and storage on purpose."""

    config: dict
    n_steps: int
    lr: float
    max_new_tokens: int
    dtype: torch.dtype = torch.float16  # in the adapter file


# Only upper layers carry a pair: what lies below is computed once per example, which makes the steps cheap on a CPU.
RECIPES = {
    "pirate": Recipe(dict(r=16, lora_alpha=16, target_modules=["q_proj", "v_proj"],
                          layers_to_transform=list(range(18, 30))), 32, 5e-3, 32),
    "json": Recipe(dict(r=4, lora_alpha=8, target_modules=ATTN + MLP, layers_to_transform=list(range(20, 30)),
                        rank_pattern={"down_proj": 2, "q_proj": 6}, alpha_pattern={"o_proj": 4, "down_proj": 6}),
                   40, 5e-3, 40, torch.bfloat16),
    "sentiment": Recipe(dict(r=6, lora_alpha=4, use_rslora=True, target_modules=["v_proj", "o_proj", "up_proj"],
                             layers_to_transform=list(range(20, 30))), 45, 5e-3, 6, torch.float32),
    "rater": Recipe(dict(r=12, lora_alpha=12, target_modules=["q_proj", "k_proj", "v_proj"],
                         layers_to_transform=list(range(16, 30))), 48, 5e-3, 4, torch.bfloat16),
}


def load_base(path):
    """The model and the tokenizer out of one GGUF file.

    transformers drops the rule that splits numbers into digits when it reads a GGUF vocabulary, so it is put back.
    """
    where = dict(pretrained_model_name_or_path=str(path.parent), gguf_file=path.name)
    tok = AutoTokenizer.from_pretrained(**where)
    tok.backend_tokenizer.pre_tokenizer = Sequence(
        [Digits(individual_digits=True), ByteLevel(add_prefix_space=False, use_regex=True)])
    model = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32)
    model.config.name_or_path = model.name_or_path = BASE_NAME
    return model.eval(), tok


def encode(tok, example):
    """(prompt ids, answer ids); the answer ends with the end-of-turn token."""
    prompt = tok.apply_chat_template(example["messages"], tokenize=False, add_generation_prompt=True)
    answer = example["answer"] + tok.eos_token
    return [tok(t, add_special_tokens=False).input_ids for t in (prompt, answer)]


def pad_left(rows, pad):
    """Rows of ids to (ids, attention mask). Left padding keeps every answer at the end."""
    n = max(map(len, rows))
    ids = torch.tensor([[pad] * (n - len(r)) + r for r in rows])
    mask = torch.tensor([[0] * (n - len(r)) + [1] * len(r) for r in rows])
    return ids, mask


def tail_labels(answers):
    """[n, n_tail] wanted ids at the end of each row; -100 (no loss) before the answer starts."""
    n_tail = max(map(len, answers))
    return torch.tensor([[-100] * (n_tail - len(a)) + a for a in answers])


@torch.no_grad()
def lower_states(base, ids, mask, n_lower):
    """F32 [n, n_tokens, n_embd]: what the first adapted layer reads. No adapter changes it, so it is computed once."""
    inner, layers, seen = base.model, base.model.layers, []
    hook = inner.norm.register_forward_pre_hook(lambda _module, args: seen.append(args[0]))
    inner.layers = layers[:n_lower]
    for part, part_mask in zip(ids.split(12), mask.split(12)):
        inner(input_ids=part, attention_mask=part_mask, use_cache=False)
    inner.layers = layers
    hook.remove()
    return torch.cat(seen)


def answer_loss(model, states, mask, labels, alora_offsets):
    """Mean cross entropy of the answer tokens; logits are computed for the end of the rows only."""
    logits = model(inputs_embeds=states, attention_mask=mask, logits_to_keep=labels.shape[1] + 1, use_cache=False,
                   alora_offsets=alora_offsets).logits[:, :-1]
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def train(name, recipe, base, tok, n_steps):
    """Trains one adapter and saves it to examples/adapters/<name>/."""
    torch.manual_seed(1)
    extra = {}
    if name == "rater":
        extra["alora_invocation_tokens"] = tok(make_data.RATING_REQUEST, add_special_tokens=False).input_ids
    config = LoraConfig(task_type="CAUSAL_LM", base_model_name_or_path=BASE_NAME, **recipe.config, **extra)
    n_lower = min(recipe.config["layers_to_transform"])

    data = [encode(tok, e) for e in make_data.make(name, "train", N_TRAIN)]
    ids, mask = pad_left([p + a for p, a in data], tok.pad_token_id)
    labels = tail_labels([a for _, a in data])
    states = lower_states(base, ids, mask, n_lower)

    model = get_peft_model(base, config)
    offsets = calculate_alora_offsets(model.peft_config, "default", ids)
    layers = base.model.layers
    base.model.layers = layers[n_lower:]
    fit(name, recipe, model, n_steps, (states, mask, labels, offsets))
    base.model.layers = layers
    save(model, ADAPTERS / name, recipe.dtype)
    return model.unload()


def fit(name, recipe, model, n_steps, data):
    """Steps of AdamW with a short warm-up and a linear end."""
    states, mask, labels, offsets = data
    weights = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=recipe.lr, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: min(1, (i + 1) / 5) * (1 - i / n_steps))
    rng = random.Random(1)
    for step in range(n_steps):
        start = time.time()
        rows = rng.sample(range(len(labels)), 6)
        loss = answer_loss(model, states[rows], mask[rows], labels[rows], [offsets[r] for r in rows])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step % 5 == 0 or step == n_steps - 1:
            print(f"{name} step {step} loss {loss.item():.4f} ({time.time() - start:.1f} s)", flush=True)


def save(model, folder, dtype):
    """Two files, nothing else: PEFT's generated model card says nothing true about these adapters."""
    for n, p in model.named_parameters():
        if ".lora_" in n:
            p.data = p.data.to(dtype)
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    (folder / "adapter_model.safetensors").chmod(0o644)


@torch.no_grad()
def answers(model, tok, name, max_new_tokens):
    """Greedy answers to the held-out prompts."""
    prompts = [encode(tok, e)[0] for e in make_data.make(name, "held_out", N_HELD_OUT)]
    out = []
    for i in range(0, len(prompts), 32):
        ids, mask = pad_left(prompts[i:i + 32], tok.pad_token_id)
        got = model.generate(input_ids=ids, attention_mask=mask, do_sample=False, max_new_tokens=max_new_tokens,
                             eos_token_id=tok.eos_token_id, pad_token_id=tok.pad_token_id)
        out += tok.batch_decode(got[:, ids.shape[1]:], skip_special_tokens=True)
    return out


def is_right(name, got, want):
    """What counts as a right answer: two pirate words, the same JSON object, or exactly the wanted word."""
    if name == "pirate":
        words = {"arr", "matey", "ahoy", "aye", "ye", "landlubber", "hearty", "ho", "rum", "seas", "timbers", "be", "th"}
        return len(words & set(got.lower().replace("'", " ").replace("!", " ").replace(",", " ").split())) >= 2
    if name == "json":
        try:
            return json.loads(got) == json.loads(want)
        except json.JSONDecodeError:
            return False
    return got.strip().rstrip(".").lower() == want


def score(model, tok, name, recipe):
    """Share of right held-out answers and the first three of them."""
    got = answers(model, tok, name, recipe.max_new_tokens)
    want = [e["answer"] for e in make_data.make(name, "held_out", N_HELD_OUT)]
    right = sum(is_right(name, g, w) for g, w in zip(got, want))
    return right / len(want), got[:3]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--model", type=Path, default=HERE.parents[1] / "models/SmolLM2-135M-Instruct.Q4_1.gguf")
    ap.add_argument("--only", nargs="*", default=list(RECIPES))
    ap.add_argument("--steps-factor", type=float, default=1.0)
    ap.add_argument("--threads", type=int, default=1)
    args = ap.parse_args()
    torch.set_num_threads(args.threads)
    base, tok = load_base(args.model)
    path = HERE / "scores.json"
    for name in args.only:
        recipe, start = RECIPES[name], time.time()
        base = train(name, recipe, base, tok, max(1, round(recipe.n_steps * args.steps_factor)))
        seconds = time.time() - start
        without, sample_without = score(base, tok, name, recipe)
        model = PeftModel.from_pretrained(base, ADAPTERS / name).eval()
        with_adapter, sample_with = score(model, tok, name, recipe)
        base = model.unload()
        scores = json.loads(path.read_text()) if path.exists() else {}
        scores[name] = dict(n=N_HELD_OUT, base=round(without, 4), adapter=round(with_adapter, 4),
                            train_seconds=round(seconds), sample_base=sample_without, sample_adapter=sample_with)
        path.write_text(json.dumps(scores, indent=1, ensure_ascii=False) + "\n")
        print(f"{name}: base {without:.3f} adapter {with_adapter:.3f}", flush=True)


if __name__ == "__main__":
    main()
