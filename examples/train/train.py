#!/usr/bin/env python3
"""Trains the four demo adapters on the CPU and scores each on held-out examples, with and without the adapter.

    python train.py --model models/SmolLM2-135M-Instruct.Q4_1.gguf [--only NAME ...] [--steps-factor F]

Two things are asked of an adapter: the wanted answers (cross entropy), and the base's own next-token distribution on every
other token (KL(base || adapted)): on the prompts, and on passages of all kinds that the base itself has written. Without
the second an adapter does as it likes wherever training does not look, and there it amplifies the rounding of quantised
products (docs/decisions/0003-divergence-of-adapters.md).

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
N_PASSAGE = 48  # tokens of a passage after its opening
N_BEFORE_INVOCATION = 6  # tokens of a passage before an aLoRA's invocation sequence
N_ROWS, N_PASSAGE_ROWS = 6, 3  # of a step
N_EARLY = 24  # columns of a step, besides the ends
N_TAIL = 16  # columns of the ends, at least
KEEP_WEIGHT = 3.0
NO_ANSWER = -100  # cross_entropy leaves it out
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
                          layers_to_transform=list(range(18, 30))), 44, 5e-3, 32),
    "json": Recipe(dict(r=4, lora_alpha=8, target_modules=ATTN + MLP, layers_to_transform=list(range(20, 30)),
                        rank_pattern={"down_proj": 2, "q_proj": 6}, alpha_pattern={"o_proj": 4, "down_proj": 6}),
                   48, 5e-3, 40, torch.bfloat16),
    "sentiment": Recipe(dict(r=6, lora_alpha=4, use_rslora=True, target_modules=["v_proj", "o_proj", "up_proj"],
                             layers_to_transform=list(range(22, 30))), 64, 5e-3, 6, torch.float32),
    "rater": Recipe(dict(r=12, lora_alpha=12, target_modules=["q_proj", "k_proj", "v_proj"],
                         layers_to_transform=list(range(18, 30))), 48, 4e-3, 4, torch.bfloat16),
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


@torch.no_grad()
def passages(base, tok):
    """Rows of ids: text of many kinds that the base continues at temperature 1."""
    torch.manual_seed(1)
    ids, mask = pad_left([tok(text).input_ids for text in make_data.OPENINGS], tok.pad_token_id)
    out = base.generate(input_ids=ids, attention_mask=mask, do_sample=True, top_k=0, min_new_tokens=N_PASSAGE,
                        max_new_tokens=N_PASSAGE, pad_token_id=tok.pad_token_id)
    return [row[row_mask.argmax():].tolist() for row, row_mask in zip(out, mask)]


@dataclass
class Data:
    """All rows of one adapter's training. Dimensions: n rows, n_tokens with padding."""

    states: torch.Tensor  # F32 [n, n_tokens, n_embd]: what the first adapted layer reads
    last: torch.Tensor  # F32 [n, n_tokens, n_embd]: what the base's head reads
    mask: torch.Tensor  # [n, n_tokens]: 0 for padding
    wanted: torch.Tensor  # [n, n_tokens]: the id that the answer goes on with, NO_ANSWER where no answer token follows
    kept: torch.Tensor  # bool [n, n_tokens]: here the base's distribution is to stay
    offsets: list  # of an aLoRA: tokens from the invocation sequence to the end of each row
    n_examples: int  # rows with an answer; the passages follow
    n_tail: int  # columns that every step sees: the answers and the prompts' ends


@torch.no_grad()
def run_base(base, ids, mask, n_lower):
    """(what layer n_lower reads, what the head reads), F32 [n, n_tokens, n_embd] each, of the base without adapter.

    No adapter changes the first, and the second is what it is compared with, so both are computed once.
    """
    states = []
    hook = base.model.layers[n_lower].register_forward_pre_hook(lambda _module, args: states.append(args[0]))
    last = [base.model(input_ids=part, attention_mask=part_mask, use_cache=False).last_hidden_state
            for part, part_mask in zip(ids.split(12), mask.split(12))]
    hook.remove()
    return torch.cat(states), torch.cat(last)


def prepare(base, tok, examples, generic, config, n_lower):
    """The rows of `examples`, (prompt ids, answer ids), and of `generic`, ids."""
    if invocation := config.alora_invocation_tokens:
        generic = [row[:N_BEFORE_INVOCATION] + invocation + row[N_BEFORE_INVOCATION:] for row in generic]
    ids, mask = pad_left([prompt + answer for prompt, answer in examples] + generic, tok.pad_token_id)
    wanted = torch.full_like(ids, NO_ANSWER)
    for row, (_, answer) in enumerate(examples):
        wanted[row, -1 - len(answer):-1] = torch.tensor(answer)
    kept = (wanted == NO_ANSWER) & mask.bool()
    offsets = calculate_alora_offsets({"default": config}, "default", ids)
    for row, offset in enumerate(offsets):
        if offset is not None:
            kept[row, :-offset] = False
    states, last = run_base(base, ids, mask, n_lower)
    return Data(states, last, mask, wanted, kept, offsets, len(examples),
                max(N_TAIL, 1 + max(len(a) for _, a in examples)))


def losses(model, data, rows, columns):
    """(cross entropy of the answer tokens, KL(base || adapted) of the kept ones), the means over some rows and columns."""
    logits = model(inputs_embeds=data.states[rows], attention_mask=data.mask[rows], logits_to_keep=columns, use_cache=False,
                   alora_offsets=[data.offsets[r] for r in rows]).logits
    kept = data.kept[rows][:, columns]
    log_p = torch.log_softmax(model.lm_head(data.last[rows][:, columns][kept]), -1)
    log_q = torch.log_softmax(logits[kept], -1)
    divergence = torch.nn.functional.kl_div(log_q, log_p, log_target=True, reduction="batchmean")
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), data.wanted[rows][:, columns].flatten()), divergence


def train(name, recipe, base, tok, generic, n_steps):
    """Trains one adapter and saves it to examples/adapters/<name>/."""
    torch.manual_seed(1)
    extra = {}
    if name == "rater":
        extra["alora_invocation_tokens"] = tok(make_data.RATING_REQUEST, add_special_tokens=False).input_ids
    config = LoraConfig(task_type="CAUSAL_LM", base_model_name_or_path=BASE_NAME, **recipe.config, **extra)
    n_lower = min(recipe.config["layers_to_transform"])

    examples = [encode(tok, e) for e in make_data.make(name, "train", N_TRAIN)]
    data = prepare(base, tok, examples, generic, config, n_lower)
    model = get_peft_model(base, config)
    layers = base.model.layers
    base.model.layers = layers[n_lower:]
    fit(name, recipe, model, n_steps, data)
    base.model.layers = layers
    save(model, ADAPTERS / name, recipe.dtype)
    return model.unload()


def fit(name, recipe, model, n_steps, data):
    """Steps of AdamW with a short warm-up and a linear end. Each sees the ends of its rows and some columns before them."""
    weights = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=recipe.lr, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: min(1, (i + 1) / 5) * (1 - i / n_steps))
    rng = random.Random(1)
    n_rows, n_tokens = data.mask.shape
    n_early = n_tokens - data.n_tail
    for step in range(n_steps):
        start = time.time()
        rows = rng.sample(range(data.n_examples), N_ROWS) + rng.sample(range(data.n_examples, n_rows), N_PASSAGE_ROWS)
        columns = torch.tensor(sorted(rng.sample(range(n_early), N_EARLY)) + list(range(n_early, n_tokens)))
        answer, divergence = losses(model, data, rows, columns)
        (answer + KEEP_WEIGHT * divergence).backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step % 5 == 0 or step == n_steps - 1:
            print(f"{name} step {step} answer {answer.item():.4f} KL {divergence.item():.4f} ({time.time() - start:.1f} s)",
                  flush=True)


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
    generic = passages(base, tok)
    path = HERE / "scores.json"
    for name in args.only:
        recipe, start = RECIPES[name], time.time()
        base = train(name, recipe, base, tok, generic, max(1, round(recipe.n_steps * args.steps_factor)))
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
