"""Reads and writes safetensors files with numpy alone, so that test-time derivation needs no torch.

numpy has no bfloat16: such tensors are kept as their raw 16-bit patterns (uint16) with the type name beside them.
Format: https://huggingface.co/docs/safetensors/index#format (8 bytes of header length, JSON header, data).
"""

import json
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

NUMPY_TYPE = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "U8": "|u1"}


@dataclass
class Tensor:
    """One stored tensor: safetensors type name and raw values; for BF16 the values are bit patterns."""

    dtype: str
    data: np.ndarray

    def float32(self):
        """The values as F32."""
        if self.dtype == "BF16":
            return (self.data.astype(np.uint32) << 16).view(np.float32)
        return self.data.astype(np.float32)


def from_float32(x, dtype):
    """F32 values to a stored type, rounded to nearest even as torch does."""
    x = np.ascontiguousarray(x, np.float32)
    if dtype != "BF16":
        return Tensor(dtype, x.astype(NUMPY_TYPE[dtype]))
    bits = x.view(np.uint32)
    return Tensor("BF16", ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16))


def load(path):
    """All tensors of one file, in file order."""
    raw = Path(path).read_bytes()
    (n,) = struct.unpack_from("<Q", raw)
    header = json.loads(raw[8:8 + n])
    header.pop("__metadata__", None)
    body = memoryview(raw)[8 + n:]
    tensors = {}
    for name, h in header.items():
        begin, end = h["data_offsets"]
        values = np.frombuffer(body[begin:end], NUMPY_TYPE[h["dtype"]]).reshape(h["shape"])
        tensors[name] = Tensor(h["dtype"], values.copy())
    return tensors


def save(tensors, path):
    """Writes tensors in the order given; the header is padded so that data starts at a multiple of eight bytes."""
    header, offset, parts = {"__metadata__": {"format": "pt"}}, 0, []
    for name, t in tensors.items():
        raw = np.ascontiguousarray(t.data).tobytes()
        header[name] = {"dtype": t.dtype, "shape": list(t.data.shape), "data_offsets": [offset, offset + len(raw)]}
        offset += len(raw)
        parts.append(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))
