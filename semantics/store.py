"""Modules as JSON: a flat table of nodes, so that sharing and depth survive (specs/semantics.md, "Storing").

    text = encode(module, arrays)      # arrays: an `ArrayWriter`, whose file holds the tensors
    module = decode(text, arrays)      # arrays: an `ArrayReader`

Each row is `[class, {field: value}]`; `{"r": n}` in a value is row n, always an earlier one. Tensors lie in one binary
file, each once, bound by SHA-256. Variables have numbers, which modules of one file share: a symbol of a size, or a
type parameter, is the same in all of them. What is read is checked to be of this form; whether it is well-formed as a
module is for `assay.semantics.rules` to say.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, BinaryIO, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from assay.semantics import devices, graph, memory, module, scalar, strict_json, tensor, types
from assay.semantics.bits import raw
from assay.semantics.bytecode.code_form import Companion
from assay.semantics.dtypes import DTYPES, DType, dtype, size_in_bytes
from assay.semantics.errors import Invalid, Span
from assay.semantics.files import open_regular
from assay.semantics.operator import Operator
from assay.semantics.ops import operator
from assay.semantics.walk import post_order

ALIGNMENT = 64

_CLASSES: dict[str, type] = {
    **{f"graph.{c.__name__}": c for c in (
        graph.Var, graph.Constant, graph.GlobalVar, graph.ExternFunc, graph.Constructor, graph.Call, graph.CallTIR,
        graph.Tuple, graph.TupleGetItem, graph.Let, graph.If, graph.Function, graph.Match, graph.Clause, graph.Wildcard,
        graph.Bind, graph.Made, graph.Fields, graph.MatchCast, graph.ShapeExpr, graph.ShapeOf, graph.OnDevice,
        graph.RefCreate, graph.RefRead, graph.RefWrite, graph.Print, graph.AssertOp, graph.Dataflow,
    )},
    **{f"scalar.{c.__name__}": c for c in (
        scalar.Var, scalar.Const, scalar.Apply, scalar.Cast, scalar.Load, scalar.Choice,
    )},
    **{f"tensor.{c.__name__}": c for c in (
        tensor.Buffer, tensor.For, tensor.While, tensor.Seq, tensor.If, tensor.LetStmt, tensor.Allocate,
        tensor.AllocateConst, tensor.Store, tensor.Assert, tensor.Evaluate, tensor.PrimFunc, tensor.Block,
        tensor.IterVar,
        tensor.Region, tensor.View, tensor.Alias, tensor.Pragma, tensor.Call,
    )},
    **{f"types.{c.__name__}": c for c in (
        types.TensorType, types.TupleType, types.FuncType, types.RefType, types.DataType, types.ShapeType,
        types.TypeVar, types.ObjectType, types.DataDef,
    )},
    **{f"module.{c.__name__}": c for c in (module.Module, module.Program, module.Slot, module.Step, module.Branch,
    module.Assertion, module.Measure, module.Require, module.PrintValues, module.Loop, module.Continue,
    module.ConstantInfo)},
    "bytecode.Companion": Companion,
    "types.VirtualDevice": devices.VirtualDevice,
    "errors.Span": Span,
    **{f"memory.{c.__name__}": c for c in (memory.Pool, memory.Place, memory.Plan)},
}  # fmt: skip
_NAMES = {c: n for n, c in _CLASSES.items()}
_FIELDS = {c: tuple(f.name for f in fields(c)) for c in _NAMES}
_PLAIN = (NoneType, bool, str, int, float, np.generic, np.ndarray, DType, Operator)
"""The values that are no nodes."""


class ArrayWriter:
    """Appends tensors to a binary file, each content once. Those whose digests are in `elsewhere` are not there: what
    names them says None for their place."""

    def __init__(self, file: BinaryIO, elsewhere: Collection[str] = ()) -> None:
        self.file = file
        self.elsewhere = elsewhere
        self.end = 0
        self.known: dict[str, int] = {}
        self.variables: dict[scalar.Var | types.TypeVar, int] = {}

    def add(self, array: np.ndarray[Any, Any]) -> dict[str, Any]:
        """A reference (dtype, shape, offset, SHA-256) to the array's bytes; appends them where they are new."""
        data = raw(array)
        digest = hashlib.sha256(data).hexdigest()
        if digest in self.elsewhere:
            return {"array": [dtype(array.dtype).name, list(array.shape), None, digest]}
        if digest not in self.known:
            padding = -self.end % ALIGNMENT
            self.file.write(b"\0" * padding)
            self.known[digest] = self.end + padding
            self.file.write(data)
            self.end += padding + len(data)
        return {
            "array": [dtype(array.dtype).name, list(array.shape), self.known[digest], digest],
        }


class ArrayReader:
    """Reads tensors back from the file, mapped and not copied; a changed byte is Invalid."""

    def __init__(self, path: Path, opened: BinaryIO | None = None, data: memoryview | None = None) -> None:
        self.path = path
        self.data: mmap.mmap | bytes | memoryview = b""
        self.elsewhere: dict[str, np.ndarray[Any, Any]] = {}
        """Tensors that are not in the file, by their digests."""
        if data is not None:
            self.data = data
        else:
            with opened or open_regular(path) as file:
                size = os.fstat(file.fileno()).st_size
                if size:
                    self.data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.checked: set[tuple[int, int, str]] = set()
        self.variables: dict[int, scalar.Var | types.TypeVar] = {}

    def variable(self, made: scalar.Var | types.TypeVar, number: Any) -> scalar.Var | types.TypeVar:
        """The variable or type parameter of a number. ValueError: it is another in a module before."""
        if type(number) is not int or number < 0:
            raise ValueError(f"{number!r} is no number of a variable")
        found = self.variables.setdefault(number, made)
        if (type(found), found.name) != (type(made), made.name) or _dtype_of(found) is not _dtype_of(made):
            raise ValueError(f"variable {number} is {made.name} here, and {found.name} in a module before")
        return found

    def get(self, ref: Any) -> np.ndarray[Any, Any]:
        """The array that a reference names, not copied; Invalid where it lies outside the file or has changed."""
        name, shape, offset, digest = ref
        of = dtype(name)
        size = size_in_bytes(shape, of)
        if offset is None:
            return self._elsewhere(digest).reshape(-1).view(of.numpy).reshape(shape)
        if offset < 0 or offset + size > len(self.data):
            raise Invalid("a tensor lies outside the file", where=str(self.path), label="store.C1")
        bytes_ = np.frombuffer(self.data, np.uint8, size, offset) if size else np.frombuffer(bytes(1), np.uint8, 0)
        if (offset, size, digest) not in self.checked:
            if hashlib.sha256(bytes_.data).hexdigest() != digest:
                raise Invalid("a tensor's bytes do not have their digest", where=str(self.path), label="store.C2")
            self.checked.add((offset, size, digest))
        return bytes_.view(of.numpy).reshape(shape)

    def _elsewhere(self, digest: str) -> np.ndarray[Any, Any]:
        if digest not in self.elsewhere:
            what = f"the tensor with SHA-256 {digest} is kept elsewhere, and not given with --constants"
            raise Invalid(what, where=str(self.path), label="store.C5")
        return self.elsewhere[digest]


_AS_IT_IS = frozenset({str, int, bool})
"""Types of most of what fields hold, which JSON has too; what is asked first takes the least."""


def encode(root: module.Module | Companion, arrays: ArrayWriter) -> str:
    """The module, or what stands beside bytecode, as JSON text; its tensors go to `arrays`."""
    rows: list[str] = []
    index: dict[int, int] = {}

    def value(v: Any) -> Any:
        if type(v) in _NAMES:
            return {"r": index[id(v)]}
        if (
            v is None
            or type(v) in _AS_IT_IS
            or isinstance(v, str)
            or (isinstance(v, int) and not isinstance(v, np.generic))
        ):
            return v
        if isinstance(v, float) and not isinstance(v, np.generic):
            return {"float": v.hex()}
        if isinstance(v, (tuple, list)):
            return [value(x) for x in v]
        if isinstance(v, Mapping):
            return {"map": [[value(k), value(x)] for k, x in v.items()]}
        if isinstance(v, DType):
            return {"dtype": v.name}
        if isinstance(v, Operator):
            return {"operator": v.name}
        if isinstance(v, np.ndarray):
            return arrays.add(v)
        if isinstance(v, np.generic):
            return {"scalar": [dtype(v.dtype).name, v.tobytes().hex()]}
        raise KeyError(type(v))

    for node in post_order(root, _parts):
        index[id(node)] = len(rows)
        content = {n: value(getattr(node, n)) for n in _FIELDS[type(node)]}
        if isinstance(node, scalar.Var | types.TypeVar):
            content["number"] = arrays.variables.setdefault(node, len(arrays.variables))
        rows.append(json.dumps([_NAMES[type(node)], content]))
    return '{"format": "assay-module-3", "rows": [\n' + ",\n".join(rows) + "\n]}\n"


def _parts(node: Any) -> list[Any]:
    """The table's nodes directly inside a node."""
    found: list[Any] = []
    for n in _FIELDS[type(node)]:
        v = getattr(node, n)
        if type(v) in _NAMES:
            found.append(v)
        elif v is not None and type(v) not in _AS_IT_IS:
            found += _nodes_in(v)
    return found


def _nodes_in(v: Any) -> Iterator[Any]:
    """The table's nodes in a value of a field."""
    if type(v) in _NAMES:
        yield v
    elif isinstance(v, (tuple, list)):
        for x in v:
            yield from _nodes_in(x)
    elif isinstance(v, Mapping):
        for k, x in v.items():
            yield from _nodes_in(k)
            yield from _nodes_in(x)


def contents(root: module.Module) -> str:
    """All that a module says, as one text: two have the same where they would be stored alike. Tensors are in it by
    their digest."""
    with open(os.devnull, "wb") as nowhere:
        return encode(root, ArrayWriter(nowhere))


def require_form(root: module.Module) -> None:
    """Invalid (store.C4) unless every field of every node has the type that its class declares, and no node is below
    itself: what the static rules take for granted."""
    done: set[int] = set()
    for node in post_order(root, _parts):
        if not all(id(part) in done for part in _parts(node)):
            raise Invalid(f"a {_NAMES[type(node)]} holds itself", label="store.C4")
        done.add(id(node))
        try:
            _require_fields(type(node), {n: getattr(node, n) for n in _FIELDS[type(node)]})
        except TypeError as wrong:
            raise Invalid(str(wrong), label="store.C4") from None


def decode(text: str, arrays: ArrayReader, where: str = "") -> module.Module:
    """The module that `encode` wrote; Invalid where the text is not of that form."""
    root = _decoded(text, arrays, where)
    if not isinstance(root, module.Module):
        raise Invalid("the last row is not a module", where=where, label="store.C3")
    return root


def decode_companion(text: str, arrays: ArrayReader, where: str = "") -> Companion:
    """What stands beside bytecode; Invalid where the text is not of that form."""
    root = _decoded(text, arrays, where)
    if not isinstance(root, Companion):
        raise Invalid("the last row is not what stands beside bytecode", where=where, label="store.C3")
    return root


def _decoded(text: str, arrays: ArrayReader, where: str) -> Any:
    """What the last row is."""
    try:
        data = strict_json.parse_json(text)
        if data.keys() != {"format", "rows"}:
            raise ValueError("a stored module is its format and its rows")
        if data["format"] != "assay-module-3":
            raise Invalid(f"unknown format {data['format']!r}", where=where, label="store.C3")
        built: list[Any] = []
        for name, content in data["rows"]:
            made = {k: _value(v, built, arrays) for k, v in content.items()}
            built.append(_build(_CLASSES[name], made, arrays))
        return built[-1]
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as wrong:
        raise Invalid(f"not a stored module: {wrong!r}", where=where, label="store.C3") from None


def _build(cls: type, made: dict[str, Any], arrays: ArrayReader) -> Any:
    """The node, if every field has the type that its class declares."""
    _require_fields(cls, made)
    if cls not in (scalar.Var, types.TypeVar):
        return cls(**made)
    number = made.pop("number")
    return arrays.variable(cls(**made), number)


def _dtype_of(variable: scalar.Var | types.TypeVar) -> DType | None:
    """The element type of a variable; a type parameter has none."""
    return variable.dtype if isinstance(variable, scalar.Var) else None


def _require_fields(cls: type, made: Mapping[str, Any]) -> None:
    """TypeError unless each of these fields has the type that the class declares."""
    for name, fits in _tests(cls).items():
        if name in made and not fits(made[name]):
            raise TypeError(f"{cls.__name__}.{name} cannot be {_said(made[name])}")


def _said(value: Any) -> str:
    """The class of a value; for one that holds others, what it holds too."""
    if isinstance(value, Mapping):
        inside = [f"{k!r}: {type(v).__name__}" for k, v in value.items()]
    elif isinstance(value, (tuple, list)):
        inside = [type(v).__name__ for v in value]
    else:
        return type(value).__name__
    return f"{type(value).__name__} of {', '.join(inside)}" if inside else type(value).__name__


@cache
def _tests(cls: type) -> dict[str, Callable[[Any], bool]]:
    """What says, for each field of a class, whether a value has the declared type."""
    names = {**vars(module), **vars(tensor), **vars(types), **vars(scalar), **vars(sys.modules[cls.__module__])}
    return {name: _test(hint) for name, hint in get_type_hints(cls, names).items()}


def _test(hint: Any) -> Callable[[Any], bool]:
    """What says whether a value has a declared type, as far as the declarations of the stored classes go."""
    origin, declared = get_origin(hint), get_args(hint)
    if hint is Any:
        return _is_stored
    if origin is Literal:
        return lambda value: value in declared
    if hint is int:
        return lambda value: type(value) is int
    inside = [_test(h) for h in declared if h is not ...]
    if origin in (Union, UnionType):
        return lambda value: any(fits(value) for fits in inside)
    if origin is tuple and ... in declared:
        return lambda value: isinstance(value, tuple) and all(map(inside[0], value))
    if origin is tuple:
        return lambda value: (
            isinstance(value, tuple)
            and len(value) == len(inside)
            and all(fits(v) for fits, v in zip(inside, value, strict=True))
        )
    if origin is Mapping:
        return lambda value: isinstance(value, Mapping) and all(inside[0](k) and inside[1](v) for k, v in value.items())
    of = origin or hint or NoneType
    return lambda value: isinstance(value, of) and _is_stored(value)


def _is_stored(value: Any) -> bool:
    """Whether a value is one that `encode` writes, of no other class than those listed."""
    if isinstance(value, Mapping):
        return all(_is_stored(k) and _is_stored(v) for k, v in value.items())
    if isinstance(value, (tuple, list)):
        return all(map(_is_stored, value))
    return type(value) in _NAMES or isinstance(value, _PLAIN)


def _value(v: Any, built: list[Any], arrays: ArrayReader) -> Any:
    if isinstance(v, list):
        return tuple(_value(x, built, arrays) for x in v)
    if not isinstance(v, dict):
        return v
    ((tag, x),) = v.items()
    match tag:
        case "r":
            if not 0 <= x < len(built):
                raise IndexError(f"row {x} is not an earlier one")
            return built[x]
        case "float":
            return float.fromhex(x)
        case "map":
            return {_value(k, built, arrays): _value(y, built, arrays) for k, y in x}
        case "dtype":
            return DTYPES[x]
        case "operator":
            return operator(x)
        case "array":
            return arrays.get(x)
        case "scalar":
            return np.frombuffer(bytes.fromhex(x[1]), dtype(x[0]).numpy)[0]
        case _:
            raise KeyError(tag)
