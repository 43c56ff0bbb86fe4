"""ONNX element types and stored tensors as ours (specs/lower.md, "Import").

`TensorProto` keeps its elements in one of several fields, packed or not, or in a file beside the model. Everything is
checked before it is read, so that a damaged model gives one line of Invalid.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from assay.lower.frontends.onnx.data_files import held_bytes
from assay.semantics.digits import is_size
from assay.semantics.dtypes import DTYPES, DType
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.files import open_regular
from assay.semantics.types import MOST_AXES

Array = np.ndarray[Any, Any]

_OURS = {of.numpy: of for of in DTYPES.values()}
# The onnx package says which numbers it has; we lack some of their types.
_BY_NUMBER: dict[int, DType] = {
    number: _OURS[of]
    for number in TensorProto.DataType.values()
    if number != TensorProto.UNDEFINED and (of := helper.tensor_dtype_to_np_dtype(number)) in _OURS
}
_NUMBERS = {of: number for number, of in _BY_NUMBER.items()}
_BY_NAME = {TensorProto.DataType.Name(number): of for number, of in _BY_NUMBER.items()}

ONNX_NAMES: dict[str, str] = {of.name: name.lower() for name, of in _BY_NAME.items()}
"""Our dtype names to ONNX's, as they stand in tensor(...)."""

_PLAIN = ("float_data", "double_data", "int64_data", "uint64_data")


def onnx_dtype(number: int, what: str) -> DType:
    """Our dtype for a number of TensorProto.DataType; Unsupported (onnx.C8) where we have none."""
    if number in _BY_NUMBER:
        return _BY_NUMBER[number]
    if number in TensorProto.DataType.values() and number != TensorProto.UNDEFINED:
        name = TensorProto.DataType.Name(number).lower()
        known = (
            "strings are for who gives a table of their numbers"
            if name == "string"
            else f"supported are {', '.join(ONNX_NAMES)}"
        )
        raise Unsupported(f"{what} has elements of type {name}; {known}", label="onnx.C8")
    raise Invalid(f"{what} has the element type number {number}, which ONNX does not define", label="onnx.C8")


def number_of(of: DType) -> int:
    """The number in TensorProto.DataType of a dtype that ONNX has."""
    return _NUMBERS[of]


def dtype_named(name: str, what: str) -> DType:
    """Our dtype for a name such as FLOAT, as Cast-1 has it; Unsupported (onnx.C8) where we have none."""
    if name not in _BY_NAME:
        raise Unsupported(f"{what} asks for the type {name!r}; supported are {', '.join(_BY_NAME)}", label="onnx.C8")
    return _BY_NAME[name]


def array_of(tensor: TensorProto, what: str, folder: Path | None) -> Array:
    """The tensor as a NumPy array. Data outside the model is looked for in `folder`.

    Invalid (onnx.C9) where shape and data do not fit each other, (onnx.C10) where the data outside cannot be had.
    """
    of = onnx_dtype(tensor.data_type, what)
    shape = tuple(tensor.dims)
    if any(d < 0 for d in shape):
        raise Invalid(f"{what} has the shape {shape}: a size is negative", label="onnx.C9")
    if len(shape) > MOST_AXES or prod(d for d in shape if d) * of.itemsize >= 2**63:
        raise Invalid(
            f"{what} has the shape {shape[:8]}{' ...' * (len(shape) > 8)}, more than any machine has", label="onnx.C9"
        )
    if tensor.HasField("segment"):
        raise Unsupported(f"{what} is a segment of a tensor; whole tensors are wanted", label="onnx.C9")
    if tensor.data_location == TensorProto.EXTERNAL:
        return _from_bytes(external_bytes(tensor, what, folder), of, shape, what)
    if tensor.HasField("raw_data"):
        return _from_bytes(tensor.raw_data, of, shape, what)
    field = helper.tensor_dtype_to_field(tensor.data_type)
    numbers = getattr(tensor, field)
    packed = 1 < of.bits < 8
    wanted = -(-prod(shape) * of.bits // 8) if packed else prod(shape)
    if len(numbers) != wanted:
        raise Invalid(f"{what} has the shape {shape}, but {len(numbers)} numbers in {field}", label="onnx.C9")
    if field in _PLAIN:
        return np.array(numbers, of.numpy).reshape(shape)
    whole = np.array(numbers, np.int64)
    if of.is_float or packed:  # the numbers are bit patterns, several to a number where they are narrow
        bits = whole.astype(np.uint16 if of.bits == 16 else np.uint8)
        return _from_bytes(bits.tobytes(), of, shape, what)
    return whole.astype(of.numpy).reshape(shape)


def _from_bytes(data: bytes | memoryview, of: DType, shape: tuple[int, ...], what: str) -> Array:
    """Little-endian elements; narrow ones lie two or four to a byte, the first in the lowest bits."""
    count = prod(shape)
    packed = 1 < of.bits < 8
    wanted = -(-count * of.bits // 8) if packed else count * of.itemsize
    if len(data) != wanted:
        raise Invalid(
            f"{what} of {of} has the shape {shape}, which takes {wanted} bytes, but {len(data)} bytes of data",
            label="onnx.C9",
        )
    if packed:
        stored = TensorProto(data_type=number_of(of), dims=shape, raw_data=bytes(data))
        return np.asarray(numpy_helper.to_array(stored))
    array = np.frombuffer(data, np.uint8 if of.kind == "bool" else of.numpy)
    if sys.byteorder == "big":
        array = array.byteswap()
    if of.kind == "bool":
        array = array != 0
    return array.reshape(shape)


@dataclass(frozen=True)
class Place:
    """Where the bytes of a tensor are: a regular file that has them."""

    path: Path
    offset: int
    length: int


def external_bytes(tensor: TensorProto, what: str, folder: Path | None) -> bytes | memoryview:
    """The bytes of a tensor whose data is in a file beside the model, or in one that is held (`data_files`)."""
    if (held := bytes_held(tensor)) is not None:
        return held
    at = external_place(tensor, what, folder)
    with _reading(what, at.path.name), open_regular(at.path) as file:
        file.seek(at.offset)
        data: bytes = file.read(at.length)
    return data


def bytes_held(tensor: TensorProto) -> memoryview | None:
    """The bytes of a tensor whose data is in a file that is held, by its whole path; else None."""
    info = _described(tensor)
    if not all(is_size(info.get(key, "")) for key in ("offset", "length")):
        return None
    return held_bytes(info.get("location", ""), int(info["offset"]), int(info["length"]))


def external_place(tensor: TensorProto, what: str, folder: Path | None) -> Place:
    """Where the data of a tensor is, in a file beside the model. Invalid (onnx.C10): it cannot be there."""
    info = _described(tensor)
    if not all(isinstance(part, str) for pair in info.items() for part in pair):  # protobuf hands out such bytes unread
        raise Invalid(f"{what} says where its data is in bytes that are not UTF-8", label="onnx.C1")
    location = info.get("location", "")
    if not location:
        raise Invalid(f"{what} has its data outside the model, but says not where", label="onnx.C10")
    if folder is None:
        raise Invalid(
            f"{what} has its data in the file {location!r} beside the model: give the model's path, not its bytes",
            label="onnx.C10",
        )
    try:
        path = (folder / location).resolve()
        inside = path.is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError) as wrong:  # a loop of links, a NUL
        raise Invalid(f"{what} has its data in {location!r}, which is no path: {wrong}", label="onnx.C10") from None
    if not inside:
        raise Invalid(f"{what} has its data in {location!r}, which is outside the model's folder", label="onnx.C10")
    for key in ("offset", "length"):
        if not is_size(info.get(key, "0")):
            message = f"{what} has the data {key} {info[key][:40]!r}; a number of bytes in the digits 0 to 9 is wanted"
            raise Invalid(message, label="onnx.C10")
    offset, length = int(info.get("offset", "0")), int(info.get("length", "-1"))
    with _reading(what, location), open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
    if offset + max(length, 0) > size:
        raise Invalid(
            f"{what} has {max(length, 0)} bytes at {offset} of {location!r}, a file of {size} bytes",
            label="onnx.C10",
        )
    return Place(path, offset, length if length >= 0 else size - offset)


def _described(tensor: TensorProto) -> dict[str, str]:
    return {e.key: e.value for e in tensor.external_data}


@contextmanager
def _reading(what: str, location: str) -> Iterator[None]:
    try:
        yield
    except OSError as wrong:
        raise Invalid(
            f"{what} has its data in {location!r}, which cannot be read: {wrong.strerror}", label="onnx.C10"
        ) from None
