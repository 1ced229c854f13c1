"""A model that says what a test wrote down: after the letter that opens a script come its pieces, a token each."""

import numpy as np

from alphabet_model import CONTROL, NORMAL, metadata
from gguf_writer import Typed, write_gguf

SHOW_CONTENTS = "{% for m in messages %}{{ m.content }}{% endfor %}"


def byte_alphabet():
    """GPT-2's letter for each byte."""
    plain = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {byte: chr(byte) for byte in plain} | {byte: chr(256 + i) for i, byte in enumerate(others)}


LETTERS = byte_alphabet()


def spelled(piece):
    data = piece if isinstance(piece, bytes) else piece.encode()
    return "".join(LETTERS[byte] for byte in data)


def write_script_model(path, scripts, template=SHOW_CONTENTS, control=(), endless=(), n_ctx=512, **keys):
    """`scripts`: letter -> pieces (text, or bytes where a character is split). Pieces in `control` are control tokens.
    Every answer ends after its script, or begins it anew for a letter in `endless`; a letter without one has an empty answer. All bytes are tokens too."""
    tokens = ["<eos>", *(LETTERS[byte] for byte in range(256))]
    follows = {}
    for letter, pieces in scripts.items():
        last = tokens.index(letter)
        for piece in pieces:
            tokens.append(piece if piece in control else spelled(piece))
            follows[last] = last = len(tokens) - 1
        if letter in endless:
            follows[last] = len(tokens) - len(pieces)
    tokens += [f"<unused{i}>" for i in range(-len(tokens) % 4)]
    size = len(tokens)
    head = np.zeros((size, size), np.float32)
    for token in range(size):
        head[follows.get(token, 0), token] = 1
    nothing, ones = np.zeros((size, size), np.float32), np.ones(size, np.float32)
    layer = dict.fromkeys(["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"], nothing)
    layer |= dict.fromkeys(["attn_norm", "ffn_norm"], ones)
    vocabulary = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": tokens,
                  "tokenizer.ggml.token_type": Typed("i32", [CONTROL if token in ("<eos>", *control) else NORMAL for token in tokens]),
                  "tokenizer.ggml.merges": Typed("string", []), "tokenizer.ggml.eos_token_id": 0}
    if template is not None:
        vocabulary["tokenizer.chat_template"] = template
    sizes = {"llama.embedding_length": size, "llama.feed_forward_length": size}
    return write_gguf(path, metadata(n_ctx) | sizes | vocabulary | keys,
                      {"token_embd.weight": np.eye(size, dtype=np.float32), "output_norm.weight": ones, "output.weight": head,
                       **{f"blk.0.{name}.weight": tensor for name, tensor in layer.items()}})
