"""Live objects of TVM, read by reflection (specs/lower.md, "tvm").

An object says which kind it is by its type key, a string such as "prim.Add"; nothing else of TVM's Python classes is
relied on, and `tvm` itself is imported only where `module_of` looks at the version. `==` on TVM's expressions builds an
expression, so objects are told apart by their handle.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from typing import Any

from assay.semantics.digits import is_size
from assay.semantics.dtypes import DTYPES, DType
from assay.semantics.errors import Unsupported
from assay.semantics.names import unused

PINS = {"apache-tvm": "0.27.0.post1", "apache-tvm-ffi": "0.1.14.post1"}
"""The one pair of versions that the adapter is written for. TVM renames its nodes in each release."""

Object = Any
"""An object of TVM."""


def require_tvm() -> None:
    """Unsupported, naming the pins, unless exactly those versions are installed."""
    wanted = " ".join(f"{name}=={version}" for name, version in PINS.items())
    for name, version in PINS.items():
        try:
            found = metadata.version(name)
        except metadata.PackageNotFoundError:
            raise Unsupported(f"{name} is not installed; pip install {wanted}", label="tvm.C1") from None
        if found != version:
            raise Unsupported(f"{name} is {found}; the import is for {wanted} only", label="tvm.C1")


def type_key(o: Object) -> str:
    """Which kind of object it is; the name of its Python class for what is none of TVM's."""
    info = getattr(type(o), "__tvm_ffi_type_info__", None)
    return info.type_key if info is not None else type(o).__name__


def handle(o: Object) -> int:
    """The identity of an object."""
    found: int = o.__chandle__()
    return found


def op_name(o: Object) -> str:
    """The name of an operator such as "relax.call_tir"; "" for another callee."""
    return str(o.name) if type_key(o) == "ir.Op" else ""


def unique_name(name: str, taken: set[str]) -> str:
    """`name`, or with a number after it if it is taken; now it is."""
    fresh = unused(name, taken)
    taken.add(fresh)
    return fresh


def lanes_of(o: Object) -> tuple[str, int]:
    """The name of the element type of a PrimType, a dtype or its name, and how many lanes it has."""
    name = str(o.dtype if type_key(o) == "ir.PrimType" else o)
    element, cross, count = name.rpartition("x")
    return (element, int(count)) if cross and is_size(count) else (name, 1)


def prim_dtype(o: Object, where: str, lanes: int = 1) -> DType:
    """The element type of a PrimType, a dtype or its name; Unsupported, with `where`, for handles and other vectors."""
    name, found = lanes_of(o)
    if found not in (1, lanes):
        name = f"{name}x{found}"
    if name in ("uint1", "bool"):
        name = "bool"
    if name not in DTYPES:
        raise Unsupported(f"the dtype {name} is not handled", where=where, label="tvm.C2")
    return DTYPES[name]


def attributes(attrs: Object) -> dict[str, Any]:
    """The attributes of a function or a call by name, as plain Python values where they are numbers, texts or lists."""
    if attrs is None:
        return {}
    if type_key(attrs) == "ir.DictAttrs":
        return {str(k): plain_value(attrs[k]) for k in attrs.keys()}
    return {name: plain_value(getattr(attrs, name)) for name in _fields(attrs)}


def _fields(o: Object) -> Iterator[str]:
    info = type(o).__tvm_ffi_type_info__
    while info is not None:
        yield from (f.name for f in info.fields if f.name != "span")
        info = info.parent_type_info


def plain_value(value: Object) -> Any:
    """Numbers, texts, dtypes and lists of them as Python's own; anything else as it is."""
    match type_key(value):
        case "ir.IntImm" | "ir.FloatImm":
            return value.value
        case "ir.StringImm":
            return str(value.value)
        case "ffi.Array" | "Array":
            return tuple(plain_value(v) for v in value)
        case "ffi.Map" | "Map" | "ffi.Dict":
            return {str(k): plain_value(v) for k, v in value.items()}
        case "ir.PrimType" | "ffi.dtype" | "dtype":
            return str(value.dtype) if type_key(value) == "ir.PrimType" else str(value)
        case "ffi.String" | "String" | "str":
            return str(value)
        case _:
            return value
