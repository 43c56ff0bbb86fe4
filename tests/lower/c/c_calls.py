"""Packed calls of generated C from Python, for the tests of the calling conventions."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from assay.lower.c import CSource
from assay.lower.c.packed_abi import dlpack
from assay.semantics.dtypes import dtype
from assay.verify.c.tools import STRICT, find_compiler, status_name
from tests.lower.memory.planned import Array

NONE, POINTER, TENSOR, TEXT = 0, 4, 7, 8


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
            ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


class Value(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int32), ("zero", ctypes.c_uint32), ("pointer", ctypes.c_void_p)]


Function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(Value), ctypes.c_int32, ctypes.POINTER(Value))


class Row(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("function", Function), ("handle", ctypes.c_void_p)]


def build(directory: Path, files: Sequence[str], *flags: str) -> ctypes.CDLL:
    """A library of C files of a directory, in this process."""
    library = directory / f"{files[0]}.so"
    words = [*find_compiler(), *STRICT, "-O0", *flags, "-fPIC", "-shared", *files, "-o", str(library), "-lm"]
    done = subprocess.run(words, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)  # never what a test looks for
    return ctypes.CDLL(str(library))


def aligned(count: int, alignment: int = 64) -> Array:
    """Bytes that are NaN as floats, at an aligned address."""
    whole: Array = np.full(count + alignment, 0xFF, np.uint8)
    start = -whole.ctypes.data % alignment
    return whole[start : start + count]


def tensor(array: Array) -> tuple[Tensor, list[Any]]:
    """An array as a tensor, and what has to be kept alive with it."""
    code, bits = dlpack(dtype(array.dtype))
    shape = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
    strides = (ctypes.c_int64 * max(array.ndim, 1))(*(s // array.itemsize for s in array.strides))
    at = [ctypes.addressof(x) for x in (shape, strides)]
    return Tensor(array.ctypes.data, 1, 0, array.ndim, code, bits, 1, *at, 0), [shape, strides, array]


@dataclass
class Call:
    """The arguments of one call of an entry: change them, then `run`."""

    source: CSource
    tensors: list[Tensor]
    args: Any
    kept: list[Any]
    outputs: list[Array]
    result: Value

    @property
    def count(self) -> int:
        return len(self.tensors)

    def run(self, library: ctypes.CDLL, handle: int | None = None, count: int | None = None, name: str = "") -> int:
        entry = getattr(library, name or f"{self.source.name}_run")
        entry.restype = ctypes.c_int
        given = self.count if count is None else count
        return int(entry(ctypes.c_void_p(handle), self.args, ctypes.c_int32(given), ctypes.byref(self.result)))

    def status(self, library: ctypes.CDLL, **more: Any) -> str:
        return status_name(self.run(library, **more))

    @property
    def text(self) -> str | None:
        """The result, if it is a text."""
        if self.result.code != TEXT:
            return None
        return ctypes.string_at(self.result.pointer).decode()

    def table(self, rows: Sequence[tuple[str, Any, int | None]]) -> None:
        """Hand a table of functions in, behind all else."""
        made = (Row * (len(rows) + 1))(*(Row(n.encode(), f, h) for n, f, h in rows))
        self.kept += [made, rows]
        self.args[self.count] = Value(POINTER, 0, ctypes.addressof(made))


def arguments(source: CSource, *inputs: Array) -> Call:
    """What fits: the inputs, and fresh memory."""
    outputs: list[Array] = []
    for a in source.outputs:
        outputs.append(aligned(a.nbytes).view(a.type.dtype.numpy).reshape(a.type.static_shape))
    arrays = [*inputs, *outputs, aligned(source.workspace_bytes, source.alignment)]
    if source.weights is not None:
        weights = aligned(source.weights.nbytes)
        weights[:] = np.frombuffer(source.weights.tobytes(), np.uint8)
        arrays.append(weights)
    made = [tensor(a) for a in arrays]
    tensors = [t for t, _ in made]
    args = (Value * (len(tensors) + 1))(*(Value(TENSOR, 0, ctypes.addressof(t)) for t in tensors))
    return Call(source, tensors, args, [k for _, k in made], outputs, Value(99, 0, None))
