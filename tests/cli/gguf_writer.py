"""Writes small GGUF files for tests, without the gguf package.

The format: github.com/ggml-org/ggml/blob/master/docs/gguf.md, version 3, little-endian.
"""

import struct

import numpy as np

ALIGNMENT = 32
Q8_0 = np.dtype([("scale", "<f2"), ("codes", "i1", 32)])
TENSOR_TYPES = {np.dtype("float32"): 0, np.dtype("float16"): 1, Q8_0: 8}
SCALARS = {"u8": (0, "B"), "i8": (1, "b"), "u16": (2, "H"), "i16": (3, "h"), "u32": (4, "I"), "i32": (5, "i"),
           "f32": (6, "f"), "bool": (7, "?"), "u64": (10, "Q"), "i64": (11, "q"), "f64": (12, "d")}
STRING, ARRAY = 8, 9


class Typed:
    """A metadata value of a stated type: Typed("u64", 3). For a list the type is that of its items."""

    def __init__(self, type_name, value):
        self.type_name, self.value = type_name, value


def write_gguf(path, metadata, tensors):
    """Writes metadata {key: value} and tensors {name: F32, F16 or q8_0() array}; returns the path.

    Arrays are in numpy order, outermost dimension first: shape (n_out, n_in) becomes ne = [n_in, n_out].
    Python values become bool, u32 (i32 when negative), f32 and string; lists become arrays of their first item's type.
    Bytes are strings as they are, valid UTF-8 or not.
    """
    data, infos = b"", b""
    for name, array in tensors.items():
        data += bytes(-len(data) % ALIGNMENT)
        infos += _tensor_info(name, array, len(data))
        data += np.ascontiguousarray(array).tobytes()
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    head += b"".join(_string(key) + _entry(value) for key, value in metadata.items()) + infos
    path.write_bytes(head + bytes(-len(head) % ALIGNMENT) + data)
    return path


def q8_0(array):
    """Rows of a multiple of 32 numbers as blocks of Q8_0, shape (..., n / 32)."""
    numbers = array.reshape(*array.shape[:-1], -1, 32)
    blocks = np.zeros(numbers.shape[:-1], Q8_0)
    blocks["scale"] = np.abs(numbers).max(axis=-1) / 127
    blocks["codes"] = np.round(numbers / np.maximum(blocks["scale"].astype(np.float32), 1e-9)[..., None]).clip(-127, 127)
    return blocks


def _tensor_info(name, array, offset):
    ne = list(array.shape[::-1])
    if array.dtype == Q8_0:
        ne[0] *= 32
    return (_string(name) + struct.pack("<I", len(ne)) + struct.pack(f"<{len(ne)}Q", *ne)
            + struct.pack("<IQ", TENSOR_TYPES[array.dtype], offset))


def _entry(value):
    type_name, value = (value.type_name, value.value) if isinstance(value, Typed) else (_type_of(value), value)
    if not isinstance(value, list):
        return struct.pack("<I", _type_id(type_name)) + _scalar(type_name, value)
    items = b"".join(_scalar(type_name, item) for item in value)
    return struct.pack("<IIQ", ARRAY, _type_id(type_name), len(value)) + items


def _type_of(value):
    if isinstance(value, list):
        return _type_of(value[0])
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "i32" if value < 0 else "u32"
    return "f32" if isinstance(value, float) else "string"


def _type_id(type_name):
    return STRING if type_name == "string" else SCALARS[type_name][0]


def _scalar(type_name, value):
    return _string(value) if type_name == "string" else struct.pack("<" + SCALARS[type_name][1], value)


def _string(text):
    raw = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(raw)) + raw
