"""A model that spells: after each token of CHAIN it wants the next one, so tests know every answer by heart."""

import numpy as np

from gguf_writer import Typed, write_gguf

# Byte-level BPE spells the two bytes of "é" as these two characters, each a token of its own.
E_ACUTE = ["Ã", "©"]
CHAIN = [*"abcdefgh", "ijk", *"lmn", *E_ACUTE, *"op", "<eos>"]
TOKENS = CHAIN + ["i", "j", "k", "ij", "q", "r", "s"]
EOS = CHAIN.index("<eos>")
N_VOCAB = N_EMBD = len(TOKENS)
N_CTX = 32
SPELLED = "bcdefghijklmnéop"  # what follows "a", up to <eos>
NORMAL, CONTROL = 1, 3


def metadata(n_ctx=N_CTX):
    return {"general.architecture": "llama", "general.type": "model", "general.name": "alphabet",
            "llama.block_count": 1, "llama.context_length": n_ctx, "llama.embedding_length": N_EMBD,
            "llama.feed_forward_length": N_EMBD, "llama.attention.head_count": 2,
            "llama.attention.layer_norm_rms_epsilon": 1e-6, "llama.rope.freq_base": 10000.0}


def tokenizer():
    return {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": TOKENS,
            "tokenizer.ggml.token_type": Typed("i32", [CONTROL if token == "<eos>" else NORMAL for token in TOKENS]),
            "tokenizer.ggml.merges": ["i j", "ij k"], "tokenizer.ggml.eos_token_id": EOS}


def tensors():
    """Embeddings are unit vectors, the layer adds nothing, and the head turns each into its successor."""
    head = np.zeros((N_VOCAB, N_EMBD), np.float32)
    for i in range(len(CHAIN)):
        head[(i + 1) % len(CHAIN), i] = 1
    nothing, ones = np.zeros((N_EMBD, N_EMBD), np.float32), np.ones(N_EMBD, np.float32)
    layer = dict.fromkeys(["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"], nothing)
    layer |= dict.fromkeys(["attn_norm", "ffn_norm"], ones)
    return {"token_embd.weight": np.eye(N_VOCAB, dtype=np.float32), "output_norm.weight": ones, "output.weight": head,
            **{f"blk.0.{name}.weight": tensor for name, tensor in layer.items()}}


def write_model(path, n_ctx=N_CTX):
    return write_gguf(path, metadata(n_ctx) | tokenizer(), tensors())


def write_shards(folder):
    """The same model in two files, as gguf-split names them; returns both paths."""
    names = list(tensors())
    halves = [names[:3], names[3:]]
    paths = []
    for no, half in enumerate(halves):
        split = {"split.no": Typed("u16", no), "split.count": Typed("u16", len(halves)),
                 "split.tensors.count": Typed("i32", len(names))}
        keys = metadata() | tokenizer() | split if no == 0 else split
        paths.append(write_gguf(folder / f"alphabet-{no + 1:05}-of-{len(halves):05}.gguf", keys,
                                {name: tensors()[name] for name in half}))
    return paths


def write_adapter(path, after="a", say="m", size=10.0, keys_too=False, **changes):
    """A rank-1 adapter of the head: after each letter of `after` it wants `say`, `size` times as much as the base does. With `keys_too` it
    changes the keys of attention as well, on which no answer depends, but what is cached does."""
    a, b = np.zeros((1, N_EMBD), np.float32), np.zeros((N_VOCAB, 1), np.float32)
    a[0, [TOKENS.index(letter) for letter in after]], b[TOKENS.index(say), 0] = 1, size
    keys = {"general.architecture": "llama", "general.type": "adapter", "adapter.type": "lora", "adapter.lora.alpha": 1.0}
    pairs = {"output.weight.lora_a": a, "output.weight.lora_b": b}
    if keys_too:
        pairs |= {"blk.0.attn_k.weight.lora_a": a, "blk.0.attn_k.weight.lora_b": b}
    return write_gguf(path, keys | changes, pairs)
