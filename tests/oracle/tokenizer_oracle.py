"""Goldens for the tokenizers, made with Hugging Face's `tokenizers`.

    python tests/oracle/tokenizer_oracle.py            write tests/data/tokenizer/
    python tests/oracle/tokenizer_oracle.py --check    regenerate and compare; exit code 1 on a difference

Needs transformers, tokenizers and the model files in models/ (or --models DIR).

strings.txt         the strings, see tokenizer_strings.py
<model>.txt         line i: the ids of string i with BOS and special tokens parsed; if they differ, "|" and the ids with
                    special tokens in the text taken as text. More than 400 ids: "#count hash", FNV-1a 64 over the int32
                    little-endian bytes.
pretokenizers.txt   for each "= name": "i: lengths", the pieces of every seventh string in bytes
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from tokenizers import Regex
from tokenizers.pre_tokenizers import ByteLevel, Digits, Punctuation, Sequence, Split
from transformers import AutoTokenizer
from transformers.utils import logging

from tokenizer_strings import all_strings

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests/data/tokenizer"
MAX_IDS_IN_FULL = 400
PRETOKENIZER_STRIDE = 7
MAX_PRETOKENIZED_BYTES = 400


def load_smollm2(models):
    """transformers knows no pre-tokenizer for tokenizer.ggml.pre = "smollm" and splits as GPT-2 does. SmolLM2's own
    tokenizer.json splits digits first."""
    tokenizer = AutoTokenizer.from_pretrained(models, gguf_file="SmolLM2-135M-Instruct.Q4_1.gguf").backend_tokenizer
    tokenizer.pre_tokenizer = Sequence([Digits(individual_digits=True), ByteLevel(add_prefix_space=False, use_regex=True)])
    return tokenizer


def load_gemma3(models):
    """Nothing to mend: transformers respells the runs of blanks, orders merges by token id (the scores of user-defined
    tokens in the file are no order), replaces blanks by U+2581, falls back to bytes and adds <bos>."""
    tokenizer = AutoTokenizer.from_pretrained(models, gguf_file="gemma-3-270m-q4_k_m.gguf").backend_tokenizer
    assert tokenizer.normalizer is not None and tokenizer.model.byte_fallback and tokenizer.encode("").ids == [2]
    return tokenizer


MODELS = {"smollm2": load_smollm2, "gemma3": load_gemma3}


def isolated(*patterns):
    return [Split(Regex(pattern), "isolated") for pattern in patterns]


def split_only(*patterns):
    return Sequence(isolated(*patterns) + [ByteLevel(add_prefix_space=False, use_regex=False)])


GPT2 = ByteLevel(add_prefix_space=False, use_regex=True)
BYTES = ByteLevel(add_prefix_space=False, use_regex=False)
CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r"\s*[\r\n]+|\s+(?!\S)|\s+"
LOW = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
HIGH = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"

# As the pre_tokenizer of each family's tokenizer.json.
PRETOKENIZERS = {
    "gpt-2": GPT2,
    "smollm": Sequence([Digits(individual_digits=True), GPT2]),
    "llama-bpe": split_only(CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + TAIL),
    "qwen2": split_only(CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + TAIL),
    "qwen35": split_only(CONTRACTION + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + TAIL),
    "gpt-4o": split_only(f"{LOW}{CONTRACTION}?|{HIGH}{CONTRACTION}?" + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + TAIL),
    "tekken": split_only(f"{LOW}|{HIGH}" + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + TAIL),
    "deepseek-coder": Sequence(
        isolated(r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-\ud7ff]+") + [Digits(individual_digits=True), BYTES]
    ),
    "deepseek-v3": split_only(
        r"\p{N}{1,3}",
        "[一-龥\u3040-\u309f\u30a0-\u30ff]+",
        r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|""" + TAIL,
    ),
    "falcon": Sequence(
        [Punctuation("contiguous"), GPT2, Digits(individual_digits=False), Split(Regex("[0-9][0-9][0-9]"), "isolated")]
    ),
    "bloom": split_only(BLOOM),
    "viking": Sequence(isolated(BLOOM) + [Digits(individual_digits=True), BYTES]),
    "bailingmoe": split_only(
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
    ),
    "seed-coder": split_only(CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|" + TAIL),
    "jais-2": split_only(
        CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
        + "".join(rf"\s{{{n}}}(?!\S)|" for n in (512, 256, 128, 64, 32, 16, 8, 4)) + r"\s{1,2}(?!\S)|\s{1}"
    ),
}


def text_of(data):
    return data.decode("utf-8", "replace")


def fnv1a(ids):
    value = 0xCBF29CE484222325
    for byte in np.asarray(ids, dtype="<i4").tobytes():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def format_ids(ids):
    if len(ids) > MAX_IDS_IN_FULL:
        return f"#{len(ids)} {fnv1a(ids):016x}"
    return " ".join(map(str, ids))


def encode(tokenizer, text, parse_special):
    tokenizer.encode_special_tokens = not parse_special
    return tokenizer.encode(text, add_special_tokens=True).ids


def model_lines(tokenizer, strings):
    for _, data in strings:
        text = text_of(data)
        parsed = format_ids(encode(tokenizer, text, True))
        plain = format_ids(encode(tokenizer, text, False))
        yield parsed if parsed == plain else f"{parsed}|{plain}"


def pretokenizer_lines(strings):
    for name, pre_tokenizer in PRETOKENIZERS.items():
        yield f"= {name}"
        for i in range(0, len(strings), PRETOKENIZER_STRIDE):
            text = text_of(strings[i][1])
            if len(text.encode()) > MAX_PRETOKENIZED_BYTES:
                continue
            # ByteLevel spells each byte as one character, so a piece is as long as its bytes.
            lengths = (str(len(piece)) for piece, _ in pre_tokenizer.pre_tokenize_str(text) if piece)
            yield f"{i}: {' '.join(lengths)}"


def make_files(models):
    strings = all_strings()
    files = {
        "strings.txt": "".join(line + "\n" for line, _ in strings),
        "pretokenizers.txt": "".join(line + "\n" for line in pretokenizer_lines(strings)),
    }
    for name, load in MODELS.items():
        files[f"{name}.txt"] = "".join(line + "\n" for line in model_lines(load(models), strings))
    return files


def is_same(name, text):
    path = DATA / name
    if not path.exists():
        print(f"{name}: missing")
        return False
    n_differences = sum(a != b for a, b in zip(path.read_text().split("\n"), text.split("\n")))
    same = path.read_text() == text
    n_lines = text.count("\n")
    print(f"{name}: {n_lines} lines, {n_differences} differences" + ("" if same or n_differences else ", other length"))
    return same


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the stored files instead of writing them")
    parser.add_argument("--models", default=str(ROOT / "models"), help="folder with the two GGUF files")
    options = parser.parse_args()
    logging.set_verbosity_error()
    files = make_files(options.models)
    if options.check:
        return 0 if all([is_same(name, text) for name, text in files.items()]) else 1
    DATA.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (DATA / name).write_text(text)
        print(f"{name}: {text.count(chr(10))} lines, {len(text.encode())} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
