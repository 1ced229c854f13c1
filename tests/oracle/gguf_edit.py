"""Reads a small GGUF file into plain values and writes it back, with struct alone, to make broken adapters at test time.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, version 3, little-endian.
"""

import struct
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

ALIGNMENT = 32
SCALAR = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
STRING, ARRAY = 8, 9
UINT32, FLOAT32, FLOAT64 = 4, 6, 12
F32 = 0


@dataclass
class GgufFile:
    """kv: key -> (type, value), arrays as (9, (element type, list)); tensors: name -> F32 values in numpy order."""

    kv: dict = field(default_factory=dict)
    tensors: dict = field(default_factory=dict)


class Cursor:
    """A position in the bytes of a file."""

    def __init__(self, raw):
        self.raw, self.at = raw, 0

    def scalar(self, form):
        (value,) = struct.unpack_from(form, self.raw, self.at)
        self.at += struct.calcsize(form)
        return value

    def string(self):
        n = self.scalar("<Q")
        self.at += n
        return self.raw[self.at - n:self.at].decode()

    def value(self, kind):
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            element, n = self.scalar("<I"), self.scalar("<Q")
            return element, [self.value(element) for _ in range(n)]
        return self.scalar(SCALAR[kind])


def load(path):
    """A GGUF file whose tensors are all F32."""
    c = Cursor(Path(path).read_bytes())
    assert c.raw[:4] == b"GGUF"
    c.at = 8
    n_tensors, n_kv = c.scalar("<Q"), c.scalar("<Q")
    f = GgufFile()
    for _ in range(n_kv):
        key, kind = c.string(), c.scalar("<I")
        f.kv[key] = (kind, c.value(kind))
    infos = []
    for _ in range(n_tensors):
        name = c.string()
        shape = [c.scalar("<Q") for _ in range(c.scalar("<I"))]
        infos.append((name, shape[::-1], c.scalar("<I"), c.scalar("<Q")))
    data = c.at + -c.at % ALIGNMENT
    for name, shape, kind, offset in infos:
        assert kind == F32, name
        f.tensors[name] = np.frombuffer(c.raw, "<f4", int(np.prod(shape)), data + offset).reshape(shape).copy()
    return f


def pack_string(s):
    raw = s.encode()
    return struct.pack("<Q", len(raw)) + raw


def pack_value(kind, value):
    if kind == STRING:
        return pack_string(value)
    if kind == ARRAY:
        element, values = value
        return struct.pack("<IQ", element, len(values)) + b"".join(pack_value(element, v) for v in values)
    return struct.pack(SCALAR[kind], value)


def save(f, path):
    """Writes the file; every tensor starts at a multiple of 32 bytes."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(f.tensors), len(f.kv))
    head += b"".join(pack_string(k) + struct.pack("<I", t) + pack_value(t, v) for k, (t, v) in f.kv.items())
    offset, data = 0, b""
    for name, x in f.tensors.items():
        raw = np.ascontiguousarray(x, "<f4").tobytes()
        head += pack_string(name) + struct.pack("<I", x.ndim) + struct.pack(f"<{x.ndim}Q", *x.shape[::-1])
        head += struct.pack("<IQ", F32, offset)
        data += raw + b"\0" * (-len(raw) % ALIGNMENT)
        offset = len(data)
    Path(path).write_bytes(head + b"\0" * (-len(head) % ALIGNMENT) + data)
