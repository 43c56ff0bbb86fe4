"""Every node of every language as a head and parts: what equality, hash and dump read (specs/semantics.md, "Equality").

A head is what a node says itself, as plain values that compare exactly: numbers by type and bits, operators by name.
Its parts are the nodes that it refers to, types and variables included. Names that are only for people and places in a
source are left out. The fields of a node's class say which is which, so a new node needs nothing here.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeAlias

import numpy as np

from assay.semantics import tensor
from assay.semantics.bits import same_bits
from assay.semantics.devices import VirtualDevice
from assay.semantics.dtypes import INT64, DType
from assay.semantics.errors import Span
from assay.semantics.graph.nodes import (
    LEAVES,
    Bind,
    Dataflow,
    Expr,
    Function,
    Let,
    Var,
)
from assay.semantics.operator import Operator
from assay.semantics.scalar import Const, Var as Symbol
from assay.semantics.types import DataDef, FuncType, TensorType, TypeVar
from assay.semantics.walk import Worklist

Node: TypeAlias = Any
"""A node of any of the languages: expression, pattern, type, scalar, statement, buffer, definition."""

NAMES = (Var, Symbol, TypeVar, tensor.Buffer, Dataflow)
"""The nodes that stand for something by being what they are: they compare up to renaming."""
DIMS = ("shape", "dims", "scalars")
"""The fields in which a number stands for the int64 constant."""


@dataclass(frozen=True, eq=False)
class Bits:
    """An array by dtype, shape and bits."""

    array: np.ndarray[Any, Any]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Bits):
            return False
        return same_bits(self.array, other.array)

    def __hash__(self) -> int:
        return hash((str(self.array.dtype), self.array.shape))

    def __repr__(self) -> str:
        return f"array{self.array.shape} of {self.array.dtype}"


@dataclass(frozen=True)
class Named:
    """The contents of a constant that are in a module's table only: their name, NumPy's name of the dtype, and
    shape."""

    index: str
    dtype: str
    shape: tuple[Any, ...]


@dataclass(frozen=True)
class Opaque:
    """An attribute's value of a kind that only Python knows; it is equal to what Python says."""

    value: Any

    def __hash__(self) -> int:
        return hash(type(self.value).__name__)


View: TypeAlias = tuple[tuple[Hashable, ...], tuple[Node, ...]]


def has_identity(node: Node) -> bool:
    """Whether two parents of this one node are told from two parents of two equal ones: an evaluation (rule M2)."""
    return isinstance(node, Expr) and not isinstance(node, LEAVES)


def view(node: Node, data: bool = True) -> View:
    """The head and the parts of a node. Without `data`, constants are only their dtype and shape."""
    head: list[Hashable] = [type(node).__name__]
    parts: list[Node] = []
    for _, value, is_dim in _slots(node):
        _split(value, is_dim, data, head, parts)
    return tuple(head), tuple(parts)


def labels(node: Node) -> list[str]:
    """How each part of a node is reached from it, for messages."""
    return [path for path, _ in labelled(node)]


def labelled(node: Node) -> Iterator[tuple[str, Node]]:
    """The parts of a node with how each is reached."""
    for name, value, is_dim in _slots(node):
        work = Worklist([(name, value)])
        for path, v in work:
            if isinstance(v, (tuple, list)):
                work.add((f"{path}[{i}]", x) for i, x in enumerate(v))
            elif isinstance(v, Mapping):
                work.add((f"{path}[{k!r}]", v[k]) for k in sorted(v))
            elif _kind(type(v)) == "node" and not (is_dim and _number(v) is not None) and not _plain_type(v):
                yield path, v


def differing_fields(a: Node, b: Node, data: bool = True) -> list[tuple[str, Any, Any]]:
    """The fields in which two nodes of one class say different things themselves, with both values."""
    found: list[tuple[str, Any, Any]] = []
    for (name, x, is_dim), (_, y, _) in zip(_slots(a), _slots(b), strict=False):
        heads: tuple[list[Hashable], list[Hashable]] = ([], [])
        for head, value in zip(heads, (x, y), strict=True):
            _split(value, is_dim, data, head, [])
        if heads[0] != heads[1]:
            found.append((name, x, y))
    return found


def _slots(node: Node) -> Iterator[tuple[str, Any, bool]]:
    """The fields of a node that count: name, value, whether numbers in it are dims."""
    if isinstance(node, Function):  # its parameters' types are those of the variables
        type_ = node.type
        if isinstance(type_, FuncType):
            yield "type_params", type_.type_params, False
            yield "params", node.params, False
            yield "result", type_.result, False
            yield "pure", type_.pure, False
        else:
            yield "params", node.params, False
            yield "type", type_, False
        yield "device", node.device, False
        yield "attrs", node.attrs, False
        yield "body", node.body, False
        return
    for name in _fields(type(node)):
        value = getattr(node, name)
        if value is None and name == "data" and isinstance(node, tensor.AllocateConst):
            value = Named(node.index, node.buffer.dtype.numpy.name, node.buffer.shape)
        yield name, value, name in DIMS


_FIELDS: dict[type[Any], tuple[str, ...]] = {}
_KINDS: dict[type[Any], str] = {}


def _fields(of: type[Any]) -> tuple[str, ...]:
    """The fields of a class of nodes that count, in the order in which they are looked at."""
    if of not in _FIELDS:
        hidden = {"span"}
        if issubclass(of, (*NAMES, tensor.PrimFunc)):
            hidden.add("name")  # a tensor function is called by its key in the module
        if issubclass(of, tensor.AllocateConst):
            hidden.add("index")  # where the same data is once more
        names = [f.name for f in fields(of) if f.name not in hidden]
        late = ("attrs", "type", "body")
        # what binds comes before where it is used, so that a difference is shown where it arises
        _FIELDS[of] = tuple(sorted(names, key=lambda n: late.index(n) if n in late else -1))
    return _FIELDS[of]


def _split(value: Any, is_dim: bool, data: bool, head: list[Hashable], parts: list[Node]) -> None:
    work = [value]
    while work:  # by hand, for speed: each node of every comparison comes here
        v = work.pop()
        if is_dim and (number := _number(v)) is not None:
            head.append(("int", number))
            continue
        kind = _kind(type(v))
        if kind == "node":
            if isinstance(v, TensorType) and v.is_static:
                head.append(("tensor", v.shape, v.dtype.name))
            else:
                head.append("*")
                parts.append(v)
        elif kind == "sequence":
            head.append(("(", len(v)))
            work += reversed(v)
        elif kind == "mapping":
            keys = sorted(v)
            head.append(("{", *keys))
            work += [v[k] for k in reversed(keys)]
        else:
            head.append(_token(v, data))


def _kind(of: type[Any]) -> str:
    """How a value of this class is looked at: as a part, through its items, or as a plain value."""
    if of not in _KINDS:
        plain = (type, Span, Operator, DType, VirtualDevice, Named)
        if issubclass(of, (tuple, list)):
            _KINDS[of] = "sequence"
        elif issubclass(of, Mapping):
            _KINDS[of] = "mapping"
        else:
            _KINDS[of] = "node" if is_dataclass(of) and not issubclass(of, plain) else "plain"
    return _KINDS[of]


def _number(v: Any) -> int | None:
    """The number that a constant dim is."""
    if isinstance(v, int) and not isinstance(v, bool):
        return v
    return int(v.value) if isinstance(v, Const) and v.dtype is INT64 else None


def _plain_type(v: Any) -> bool:
    return isinstance(v, TensorType) and v.is_static


def _token(v: Any, data: bool) -> Hashable:
    match v:
        case None | bool() | int() | str() | bytes():
            return (type(v).__name__, v)
        case np.generic():
            return (v.dtype.name, v.tobytes())
        case float():
            return ("float", struct.pack(">d", v))
        case np.ndarray():
            return Bits(v) if data else ("array", v.dtype.name, v.shape)
        case Named():
            return v if data else ("array", v.dtype, v.shape)
        case DType():
            return ("dtype", v.name)
        case Operator():
            return ("operator", v.name)
        case VirtualDevice():
            return ("device", v.type, v.id, v.target, v.scope)
        case _:
            return Opaque(v)


def binds(node: Node) -> list[Node]:
    """The names that a node binds, in order. Symbols of dims are bound by types, not by nodes."""
    match node:
        case Let() | Bind() | tensor.For() | tensor.LetStmt() | tensor.IterVar():
            return [node.var]
        case Function():
            of = node.type
            return [*(of.type_params if isinstance(of, FuncType) else ()), *node.params]
        case tensor.Allocate() | tensor.AllocateConst() | tensor.Alias() | tensor.View():
            return [node.view.buffer if isinstance(node, tensor.Alias) else node.buffer]
        case tensor.Block():
            return list(node.allocated)
        case tensor.PrimFunc():
            return [*node.params, *node.scalars]
        case DataDef():
            return list(node.type_params)
        case _:
            return []
