"""Tensor constants in the text format, exact to the bit (row R30; specs/semantics.md, "Text").

Scalars and small tensors stand where they are used, as `R.const`. Others stand once in the section `metadata`, in TVM's
own form: the JSON text that `tvm.ir.save_json` writes, with the tensor's bytes in base64. What TVM's form cannot hold
is written as `A.tensor(dtype, shape, bytes)`.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from assay.semantics.bits import raw
from assay.semantics.dtypes import DTYPES, DType, dtype
from assay.semantics.errors import Invalid, Unsupported

Array = np.ndarray[Any, Any]

LONGEST = 16
"""Tensors of no more elements stand where they are used."""

_MAGIC = 0xDD5E40F096B4A13F
_CODES = {"int": 0, "uint": 1, "float": 2, "bool": 6}
_FLOATS = {"bfloat16": 4, "float8_e3m4": 7, "float8_e4m3": 8, "float8_e4m3b11fnuz": 9, "float8_e4m3fn": 10,
           "float8_e4m3fnuz": 11, "float8_e5m2": 12, "float8_e5m2fnuz": 13, "float8_e8m0fnu": 14}  # fmt: skip
_BY_CODE = {(code, DTYPES[n].bits): DTYPES[n] for n, code in _FLOATS.items()}
_BY_CODE |= {
    (_CODES[d.kind], 8 if d.kind == "bool" else d.bits): d for d in DTYPES.values() if d.name not in _FLOATS
}  # fmt: skip


# --- where it is used ---------------------------------------------------------------------------------------------


def inline(data: Array) -> str | None:
    """The constant as `R.const(...)`; None where it does not fit there."""
    of = dtype(data.dtype)
    if data.size > LONGEST or data.size == 0 or 1 < of.bits < 8:
        return None
    flat = [_number(x, of) for x in data.reshape(-1)]
    if any(x is None for x in flat):
        return None
    text = _nested([x or "" for x in flat], data.shape)
    return f'R.const({text}, "{of}")'


def _number(x: Any, of: DType) -> str | None:
    if of.kind == "bool":
        return str(bool(x))
    if of.is_integer:
        return str(int(x))
    value = float(x)
    if value != value:
        plain = np.asarray(np.nan).astype(of.numpy).tobytes() == np.asarray(x).tobytes()
        return 'float("nan")' if plain else None
    if abs(value) == np.inf:
        return f'float("{value}")'
    return str(x) if of.name in ("float32", "float16") else repr(value)  # the shortest text of that number


def _nested(items: list[str], shape: Sequence[int]) -> str:
    for size in reversed(shape):
        items = ["[" + ", ".join(items[i : i + size]) + "]" for i in range(0, len(items), size)]
    return items[0]


def literal_array(value: Any, of: str | None) -> Array:
    """The array that `R.const(value, of)` means."""
    number = isinstance(value, (bool, int, float))
    if of is None:
        array = np.asarray(value)
        of = {"f": "float32", "i": "int32", "u": "int32", "b": "bool"}.get(array.dtype.kind, str(array.dtype))
        return array.astype(dtype(of).numpy)
    to = dtype(of)
    try:
        if to.is_integer and number and not isinstance(value, float):
            if not to.min <= int(value) <= to.max:
                raise Invalid(f"{value} does not fit {to}", label="text.C6")
            return np.asarray(int(value)).astype(to.numpy) if to.bits < 8 else np.asarray(value, to.numpy)
        if to.is_float and to.numpy.isbuiltin != 1:
            return np.asarray(value, np.float64).astype(to.numpy)
        return np.asarray(value, np.int8).astype(to.numpy) if 1 < to.bits < 8 else np.asarray(value, to.numpy)
    except (OverflowError, ValueError, TypeError):
        raise Invalid(f"{str(value)[:60]} is no number or list of numbers of {to}", label="text.C6") from None


def house(data: Array) -> str:
    """The constant as `A.tensor(...)`: dtype, shape and bytes."""
    return f'A.tensor("{dtype(data.dtype)}", {tuple(data.shape)}, "{encoded(data)}")'


def encoded(data: Array) -> str:
    """The bytes in base64."""
    return base64.b64encode(raw(data)).decode()


def decoded(text: str, of: DType, shape: tuple[int, ...]) -> Array:
    """The array whose bytes `encoded` wrote; Invalid where they are not of that dtype and shape."""
    return _from_bytes(_decoded(text), of, shape)


def has_literals(data: Array) -> bool:
    """Whether the elements written as numbers give the same bits: a NaN may be another one than `float("nan")`."""
    of = dtype(data.dtype)
    return not of.is_float or all(_number(x, of) is not None for x in data.reshape(-1))


def from_house(of: Any, shape: Any, text: Any) -> Array:
    """The array that `A.tensor` means."""
    if not (isinstance(of, str) and isinstance(text, str) and isinstance(shape, (tuple, list))):
        raise Invalid("A.tensor takes a dtype, a shape and bytes in base64", label="text.C6")
    if not all(type(d) is int and d >= 0 for d in shape):
        raise Invalid(f"{shape} is no shape of a constant", label="text.C6")
    return _from_bytes(_decoded(text), dtype(of), tuple(shape))


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Invalid("the bytes of a constant are no base64", label="text.C6") from None


def _from_bytes(raw: bytes, of: DType, shape: tuple[int, ...]) -> Array:
    if len(raw) != prod(shape) * of.itemsize:
        raise Invalid(f"a constant of shape {shape} and dtype {of} has {len(raw)} bytes", label="text.C6")
    if of.kind == "bool" and raw.strip(b"\0\1"):
        raise Invalid("a constant of bool has bytes other than 0 and 1", label="text.C6")
    flat = np.frombuffer(raw, np.int8).view(of.numpy) if 1 < of.bits < 8 else np.frombuffer(raw, of.numpy)
    try:
        return flat.reshape(shape)
    except ValueError as wrong:  # too many axes, or, where it has no elements, axes too long
        raise Invalid(f"no array has the shape {shape}: {wrong}", label="text.C6") from None


# --- the section --------------------------------------------------------------------------------------------------


def fits_section(data: Array) -> bool:
    """Whether TVM's form holds a tensor as it is."""
    return not 1 < dtype(data.dtype).bits < 8


def section(arrays: Sequence[Array]) -> str:
    """The statement that defines `metadata` with these tensors, as TVM writes and reads it."""
    nodes: list[str] = ['{"type": "ffi.String", "data": "ir.GenericConst"}', '{"type": "None"}']

    def add(type_: str, **data: Any) -> int:
        nodes.append(json.dumps({"type": type_, "data": data}))
        return len(nodes) - 1

    def array(items: Sequence[int]) -> int:
        nodes.append(json.dumps({"type": "ffi.Array", "data": list(items)}))
        return len(nodes) - 1

    def number(value: int) -> int:
        nodes.append(json.dumps({"type": "int", "data": value}))
        return len(nodes) - 1

    int64 = add("ir.PrimType", span=1, dtype="int64")
    constants: list[int] = []
    for data in arrays:
        dims = array([add("ir.IntImm", span=1, ty=int64, value=number(d)) for d in data.shape])
        shape = add(
            "relax.expr.ShapeExpr", span=1, ty=add("relax.ShapeType", span=1, values=dims, ndim=data.ndim), values=dims
        )
        of = add("ir.PrimType", span=1, dtype=dtype(data.dtype).name)
        type_ = add("relax.TensorType", span=1, shape=shape, dtype=of, vdevice=1, ndim=data.ndim)
        nodes.append(json.dumps({"type": "ffi.Tensor", "data": base64.b64encode(_dlpack(data)).decode()}))
        constants.append(add("ir.GenericConst", span=1, ty=type_, value=len(nodes) - 1))
    nodes.append(json.dumps({"type": "ffi.Map", "data": [0, array(constants)]}))
    body = ",\n".join(nodes)
    head = f'"root_index": {len(nodes) - 1}, "metadata": {{"tvm_version": "0.27.0"}}, "nodes": ['
    return f'metadata = tvm.ir.load_json("""{{{head}\n{body}\n]}}""")'


def _dlpack(data: Array) -> bytes:
    """A tensor as TVM serialises it: magic, device, dtype, shape, size, bytes."""
    of = dtype(data.dtype)
    code, bits = _FLOATS.get(of.name, _CODES[of.kind]), 8 if of.kind == "bool" else of.bits
    raw = np.ascontiguousarray(data).tobytes()
    head = struct.pack("<QQiiiBBH", _MAGIC, 0, 1, 0, data.ndim, code, bits, 1)
    return head + struct.pack(f"<{data.ndim}q", *data.shape) + struct.pack("<q", len(raw)) + raw


def from_dlpack(raw: bytes) -> Array:
    """The tensor in TVM's serialised form."""
    try:
        magic, _, _, _, ndim, code, bits, lanes = struct.unpack_from("<QQiiiBBH", raw)
        if magic != _MAGIC or not 0 <= ndim <= 64:
            raise Invalid("a constant of the section metadata is no tensor of TVM", label="text.C6")
        shape = struct.unpack_from(f"<{ndim}q", raw, 32)
        (size,) = struct.unpack_from("<q", raw, 32 + 8 * ndim)
    except struct.error:
        raise Invalid("a constant of the section metadata is cut off", label="text.C6") from None
    of = _BY_CODE.get((code, bits)) or (DTYPES["bool"] if (code, bits) == (1, 1) else None)
    if of is None or lanes != 1:
        raise Unsupported(f"a constant of TVM's dtype code {code}, {bits} bits, {lanes} lanes", label="text.C7")
    data = raw[40 + 8 * ndim :]
    if len(data) != size:
        raise Invalid("a constant of the section metadata is cut off", label="text.C6")
    if 1 < of.bits < 8:
        raise Unsupported("a constant of packed narrow numbers", label="text.C7")
    return _from_bytes(data, of, shape)


def from_section(text: str) -> list[Array]:
    """The tensors of the section `metadata`, which is JSON as `tvm.ir.save_json` writes it."""
    try:
        content = json.loads(text)
        nodes = content["nodes"]
        root = nodes[content.get("root_index", len(nodes) - 1)]
        table = {nodes[k]["data"]: v for k, v in zip(root["data"][0::2], root["data"][1::2], strict=True)}
        found: list[Array] = []
        for i in nodes[table["ir.GenericConst"]]["data"] if "ir.GenericConst" in table else ():
            value = nodes[nodes[i]["data"]["value"]]
            if value["type"] != "ffi.Tensor":
                raise Unsupported(f"a constant of type {value['type']} in the section metadata", label="text.C7")
            found.append(from_dlpack(_decoded(value["data"])))
        return found
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        raise Unsupported(
            "the section metadata is not of the form that TVM 0.27 writes with script(show_meta=True)", label="text.C7"
        ) from None
