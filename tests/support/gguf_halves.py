"""Weights as half floats: a GGUF file whose quantised tensors (Q4_1, Q8_0) are written out as F16.

The packaged server is built for processors with AVX-VNNI, which it needs for quantised weights only. On others it dies
of an illegal instruction; with half floats it runs there too, with the same model.
"""

from __future__ import annotations

import math
import os
import struct
from pathlib import Path
from typing import BinaryIO

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _LIST = 8, 9
_F32, _F16, _Q4_1, _Q8_0 = 0, 1, 3, 8
_BLOCK = 32
_BYTES = {_F32: 4 * _BLOCK, _F16: 2 * _BLOCK, _Q4_1: 20, _Q8_0: 34}  # per block of 32 weights
_ALIGNED = 32


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, form: str) -> int:
        (value,) = struct.unpack_from(f"<{form}", self.data, self.at)
        self.at += struct.calcsize(f"<{form}")
        return int(value)

    def text(self) -> bytes:
        size = self.take("Q")
        self.at += size
        return self.data[self.at - size : self.at]

    def skip_value(self, kind: int) -> None:
        if kind == _TEXT:
            self.text()
        elif kind == _LIST:
            inner, count = self.take("I"), self.take("Q")
            for _ in range(count):
                self.skip_value(inner)
        else:
            self.at += struct.calcsize(f"<{_SCALARS[kind]}")


def write_halves(source: Path, target: Path) -> None:
    """Convert `source` to `target`, which appears only when complete. Some twenty seconds for 135M weights."""
    reader = _Reader(source.read_bytes())
    if reader.data[:4] != b"GGUF":
        raise ValueError(f"{source} is no GGUF file")
    reader.at = 8
    tensors, values = reader.take("Q"), reader.take("Q")
    for _ in range(values):
        reader.text()
        reader.skip_value(reader.take("I"))
    head = reader.data[: reader.at]
    infos = []
    for _ in range(tensors):
        name = reader.text()
        dims = [reader.take("Q") for _ in range(reader.take("I"))]
        infos.append((name, dims, reader.take("I"), reader.take("Q")))
    start = _aligned(reader.at)
    part = target.with_suffix(f".{os.getpid()}")
    with part.open("wb") as out:
        out.write(head)
        at = 0
        for name, dims, kind, _ in infos:
            new = kind if kind == _F32 else _F16
            out.write(struct.pack(f"<Q{len(name)}sI{len(dims)}QIQ", len(name), name, len(dims), *dims, new, at))
            at = _aligned(at + math.prod(dims) * (4 if new == _F32 else 2))
        for _, dims, kind, offset in infos:
            _pad(out)
            size = math.prod(dims) * _BYTES[kind] // _BLOCK
            out.write(_halves(kind, memoryview(reader.data)[start + offset : start + offset + size]))
        _pad(out)
    part.replace(target)


def _halves(kind: int, blocks: memoryview) -> bytes | memoryview:
    if kind in (_F32, _F16):
        return blocks
    if kind == _Q8_0:
        pack = struct.Struct("<32e").pack
        return b"".join(pack(*[d * q for q in qs]) for d, *qs in struct.iter_unpack("<e32b", blocks))
    out = bytearray(len(blocks) // 20 * 64)
    pack, at = struct.Struct("<16e").pack, 0
    for d, m, quants in struct.iter_unpack("<ee16s", blocks):
        halves = pack(*[d * q + m for q in range(16)])
        low, high = halves[::2], halves[1::2]
        # The low four bits are the first 16 weights, the high four the next.
        first, second = quants.translate(_LOW), quants.translate(_HIGH)
        low, high = low + _REST, high + _REST
        out[at : at + 32 : 2], out[at + 1 : at + 32 : 2] = first.translate(low), first.translate(high)
        out[at + 32 : at + 64 : 2], out[at + 33 : at + 64 : 2] = second.translate(low), second.translate(high)
        at += 64
    return out


_LOW = bytes(b & 15 for b in range(256))
_HIGH = bytes(b >> 4 for b in range(256))
_REST = bytes(240)


def _aligned(at: int) -> int:
    return -(-at // _ALIGNED) * _ALIGNED


def _pad(out: BinaryIO) -> None:
    out.write(bytes(_aligned(out.tell()) - out.tell()))
