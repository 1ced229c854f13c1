"""Writes random LoRA adapters as GGUF files, all seven linear weights of every layer, F16 factors.

    python bench/make_adapters.py --n 8 --rank 16 --out DIR [--model FILE]

Needs numpy. Same seed, same bytes; files that are already there are kept. Speed does not depend on the numbers in the
factors, so random ones measure what trained ones would.
"""

import argparse
import pathlib
import re
import struct
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/cli"))

from gguf_writer import ARRAY, SCALARS, STRING, write_gguf  # noqa: E402

MODEL = ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf"
LINEARS = re.compile(r"blk\.\d+\.(attn_[qkv]|attn_output|ffn_gate|ffn_up|ffn_down)\.weight")
FORMATS = dict(SCALARS.values())


class Header:
    """Metadata and tensor shapes (ne order) of a GGUF file."""

    def __init__(self, path: pathlib.Path):
        with path.open("rb") as self._file:
            magic, _, n_tensors, n_entries = self._unpack("<4sIQQ")
            if magic != b"GGUF":
                raise SystemExit(f"{path} is no GGUF file")
            self.metadata = dict((self._string(), self._value(*self._unpack("<I"))) for _ in range(n_entries))
            self.shapes = dict(self._tensor() for _ in range(n_tensors))

    def _unpack(self, layout: str):
        return struct.unpack(layout, self._file.read(struct.calcsize(layout)))

    def _string(self) -> str:
        return self._file.read(*self._unpack("<Q")).decode(errors="replace")

    def _value(self, type_id: int):
        if type_id == STRING:
            return self._string()
        if type_id == ARRAY:
            item_id, n = self._unpack("<IQ")
            return [self._value(item_id) for _ in range(n)]
        return self._unpack("<" + FORMATS[type_id])[0]

    def _tensor(self):
        name = self._string()
        shape = self._unpack(f"<{self._unpack('<I')[0]}Q")
        self._unpack("<IQ")  # type and offset
        return name, shape


def factors(shapes, rank: int, seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)

    def factor(*shape):
        return (random.standard_normal(shape, dtype=np.float32) * 0.01).astype(np.float16)

    tensors = {}
    for name, (n_in, n_out) in shapes.items():
        tensors[f"{name}.lora_a"] = factor(rank, n_in)
        tensors[f"{name}.lora_b"] = factor(n_out, rank)
    return tensors


def make_adapters(
    model: pathlib.Path, out: pathlib.Path, n: int, rank: int, strength: float = 1
) -> list[pathlib.Path]:
    """The paths of n adapters for the model, made where they are missing. At strength 1 they change hardly any answer."""
    header = Header(model)
    shapes = {name: shape for name, shape in header.shapes.items() if LINEARS.fullmatch(name)}
    if not shapes:
        raise SystemExit(f"{model} has none of the weights that an adapter usually wears")
    metadata = {
        "general.type": "adapter",
        "general.architecture": header.metadata["general.architecture"],
        "adapter.type": "lora",
        "adapter.lora.alpha": float(rank * strength),
    }
    out.mkdir(parents=True, exist_ok=True)
    paths = [out / f"{model.stem}-r{rank}{'' if strength == 1 else f'-x{strength:g}'}-{seed}.gguf" for seed in range(n)]
    for seed, path in enumerate(paths):
        if not path.exists():
            # Whole or not at all, should this be interrupted.
            write_gguf(path.with_suffix(".part"), metadata, factors(shapes, rank, seed)).rename(path)
    return paths


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, default=MODEL)
    parser.add_argument("--n", type=int, default=1, help="how many (default 1)")
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    for path in make_adapters(args.model, args.out, args.n, args.rank):
        print(path)


if __name__ == "__main__":
    main()
