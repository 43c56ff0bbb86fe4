"""What the rows of the table of Relax operators are made of (specs/semantics.md, "Text")."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from assay.semantics import graph
from assay.semantics.dtypes import DType, dtype
from assay.semantics.errors import Invalid, Span, Unsupported
from assay.semantics.graph import Call, Constant, Expr, ShapeExpr, Tuple
from assay.semantics.ops.common import normalize_axis
from assay.semantics.scalar import Const, Dim, Expr as Scalar, Var as Symbol, provably_equal, variables
from assay.semantics.types import MOST_AXES, ShapeType, TensorType, TupleType, with_dims
from assay.semantics.walk import Worklist

MISSING: Any = object()
"""The default of what has none."""

Attrs: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """An operator: its operands and attributes with their defaults, and the expression that it means."""

    operands: Mapping[str, Any]
    attrs: Mapping[str, Any]
    make: Callable[[Any, list[Any], Attrs], Expr]
    """Its first argument is a `Build`, of Relay's rows a `Relay`."""

    def filled(
        self, name: str, args: Sequence[Any], attrs: Attrs, label: str, read: Callable[[Any], Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Operands and attributes, as `read` reads them, with the defaults of those that are missing."""
        if len(args) > len(self.operands):
            raise Invalid(f"{name} takes {len(self.operands)} operands, {len(args)} given", label=label)
        operands = [*args, *list(self.operands.values())[len(args) :]]
        given = dict(self.attrs)
        for param, value in zip(self.operands, operands, strict=True):
            if value is MISSING:
                raise Invalid(f"{name} needs the operand {param}", label=label)
        for key, value in attrs.items():
            if key not in given:
                raise Invalid(f"{name} has no attribute {key}; it has {', '.join(given) or 'none'}", label=label)
            given[key] = read(value)
        for key, value in given.items():
            if value is MISSING:
                raise Invalid(f"{name} needs the attribute {key}", label=label)
        return operands, given


@dataclass(frozen=True)
class RelaxCall:
    """A call as Relax says it. An operand is an expression, a tuple of them or of numbers, or a number."""

    name: str
    operands: tuple[Any, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    field: int | None = None
    """Which field of the result is meant, where Relax gives a tuple."""


@dataclass(frozen=True)
class Shape:
    """An operand that is a shape, by its dims."""

    dims: tuple[Dim, ...]


@dataclass(frozen=True)
class Number:
    """An operand that is a scalar constant of a dtype: `R.const(value, dtype)`."""

    value: float | int | bool
    dtype: str


@dataclass(frozen=True)
class Build:
    """Makes the expressions for one Relax call; they all stand where it stands."""

    name: str
    span: Span | None

    def call(self, op: str, *args: Expr, **attrs: Any) -> Call:
        """A call of the operator `op`."""
        return graph.call(op, *args, span=self.span, **attrs)

    def constant(self, value: Any, of: DType) -> Constant:
        """A tensor literal of `value`, converted to dtype `of`."""
        with np.errstate(all="ignore"):
            return graph.constant(np.asarray(np.asarray(value).astype(of.numpy)), span=self.span)

    def like(self, x: Expr, value: Any) -> Constant:
        """A scalar of the dtype of `x`."""
        return self.constant(value, self.tensor(x).dtype)

    def tuple_of(self, *fields: Expr) -> Tuple:
        """A tuple of these fields."""
        return graph.tuple_of(*fields, span=self.span)

    def tensor(self, x: Any) -> TensorType:
        """The type of an operand that must be a tensor."""
        if not isinstance(x, Expr) or not isinstance(x.type, TensorType):
            what = x.type if isinstance(x, Expr) else repr(x)
            raise Invalid(f"R.{self.name}: {what} is given where a tensor is taken", label="relax.C3")
        return x.type

    def tensors(self, value: Any) -> list[Expr]:
        """The fields of an operand that is a tuple of tensors."""
        if isinstance(value, Tuple):
            return list(value.fields)
        if isinstance(value, Expr) and isinstance(value.type, TupleType):
            return [graph.get(value, i, span=self.span) for i in range(len(value.type.fields))]
        if isinstance(value, tuple) and all(isinstance(v, Expr) for v in value):
            return list(value)
        raise Invalid(f"R.{self.name} takes a tuple of tensors", label="relax.C3")

    def cast(self, x: Expr, of: Any) -> Expr:
        """`x` in the dtype that is asked for; None, "" and "void" ask for none."""
        if of in (None, "", "void", "handle") or str(of) == self.tensor(x).dtype.name:
            return x
        return self.call("astype", x, dtype=str(of))

    def shaped(self, x: Expr, shape: Sequence[Dim]) -> Expr:
        """`x` in another shape; `x` itself where it has that shape already."""
        given = self.tensor(x).shape
        if len(given) == len(shape) and all(map(provably_equal, given, shape)):
            return x
        return self.call("reshape", x, shape=tuple(shape))

    def axis(self, axis: Any, rank: int) -> int:
        """An axis as a number from 0; Invalid if it is no integer or not within the rank."""
        if not isinstance(axis, int) or isinstance(axis, bool):
            raise self.wrong(f"axis is {axis!r}, not a whole number")
        return normalize_axis(f"R.{self.name}", axis, rank)

    def fields(self, value: Expr, count: int) -> list[Expr]:
        """The first fields of a tuple."""
        return [graph.get(value, i, span=self.span) for i in range(count)]

    def measured(self, vector: Expr, count: int, made: Callable[[tuple[Dim, ...]], Expr]) -> Expr:
        """What `made` makes of the elements of a vector, `count` of int64, as sizes; the run reads them (M4.8). What it
        makes has sizes of its own outside."""
        if count > MOST_AXES:
            raise self.unsupported(f"{count:,} sizes; {MOST_AXES} are the most")
        sizes = tuple(Symbol("d") for _ in range(count))
        cast = graph.match_cast(vector, ShapeType(sizes), span=self.span)
        inner = graph.let(graph.var("sizes", cast.type), cast, made(sizes), span=self.span)
        hidden = set(sizes)

        def own(d: Dim) -> Dim:
            return Symbol("d") if not isinstance(d, int) and hidden & set(variables(d)) else d

        return graph.match_cast(inner, with_dims(inner.type, own), span=self.span)

    def wrong(self, message: str) -> Invalid:
        """The failure (relax.C3) for operands and attributes that do not fit."""
        return Invalid(f"R.{self.name}: {message}", label="relax.C3")

    def shape(self, value: Any) -> tuple[Dim, ...]:
        """The dims of an operand that is a shape."""
        if isinstance(value, ShapeExpr):
            return value.dims
        if isinstance(value, Expr) and isinstance(value.type, ShapeType):
            return value.type.dims
        if isinstance(value, (int, Scalar)) and not isinstance(value, bool):
            return (plain(value),)
        if isinstance(value, tuple) and all(isinstance(d, (int, Scalar)) for d in value):
            return value
        raise Invalid(f"R.{self.name} takes a shape, such as R.shape([2, 3])", label="relax.C3")

    def number(self, value: Any) -> Any:
        """The Python number that an operand is: a number, or a scalar constant."""
        if isinstance(value, Constant) and value.data.ndim == 0:
            return python_number(value.data)
        value = plain(value)
        if isinstance(value, (bool, int, float)):
            return value
        raise self.unsupported("an operand that is not known when the module is read")

    def axes(self, value: Any) -> tuple[int, ...] | None:
        """An attribute that is one axis, several or None."""
        if value is None:
            return None
        if isinstance(value, int):
            return (value,)
        if isinstance(value, tuple):
            return value
        raise Invalid(f"R.{self.name}: {value!r} is no axis and no list of axes", label="relax.C3")

    def unsupported(self, what: str) -> Unsupported:
        """The failure (relax.C4) for a use of the operator that is not handled."""
        return Unsupported(f"R.{self.name} with {what} is not handled", label="relax.C4")

    def at(self, node: Expr) -> Expr:
        """The node where the call stands, unless it has a place of its own."""
        return node if node.span is not None else replace(node, span=self.span)


def python_number(data: np.ndarray[Any, Any]) -> Any:
    """The element of a scalar array as a bool, an int or a float of Python."""
    of = dtype(data.dtype)
    if of.kind == "bool":
        return bool(data)
    return int(data) if of.is_integer else float(data)


def plain(value: Any) -> Any:
    """An attribute's value in Python: numbers for literals, tuples for lists."""
    if isinstance(value, Const):
        return python_number(np.asarray(value.value))
    if isinstance(value, np.generic):
        return python_number(np.asarray(value))
    if isinstance(value, (list, tuple)):
        return tuple(plain(v) for v in value)
    return value


def attribute(value: Any) -> Any:
    """An attribute's value in Python; Invalid for what no attribute can be, such as a tensor."""
    value = plain(value)
    work = Worklist[Any]([value])
    for v in work:
        if isinstance(v, tuple):
            work.add(v)
        elif isinstance(v, dict):
            work.add([*v.keys(), *v.values()])
        elif v is not None and not isinstance(v, (bool, int, float, str, Scalar)):
            raise Invalid("an attribute is a number, a text, a size, None, or a list or dict of such", label="relax.C3")
    return value


MISFITS = (TypeError, ValueError, AttributeError, IndexError, ZeroDivisionError)
"""What a row raises for operands or attributes of another kind than it expects."""


def misfit(name: str, operands: Sequence[Any], given: Attrs) -> str:
    """The message for operands that do not fit."""
    shown = ", ".join(f"{k}={v!r}" for k, v in given.items()) or "no attributes"
    return f"{name} cannot have these operands and attributes: {len(operands)} operands, {shown}"


def same_number(a: Any, b: Any) -> bool:
    """Whether two Python numbers are one: of one type, with one sign of zero."""
    return type(a) is type(b) and repr(a) == repr(b)


# --- rows and writers for operators that both have ----------------------------------------------------------------


def operands(names: str) -> dict[str, Any]:
    """Operands without defaults, but for those that end in ?, whose default is None."""
    return {n.removesuffix("?"): None if n.endswith("?") else MISSING for n in names.split()}


def make_row(params: str | Mapping[str, Any], make: Callable[..., Expr], **attrs: Any) -> Row:
    """A row whose `make` takes the operands by place and the attributes by name."""
    taken = operands(params) if isinstance(params, str) else params
    return Row(taken, attrs, lambda b, args, given: make(b, *args, **given))


def direct(names: str, op: str, **attrs: Any) -> Row:
    """A Relax operator that is ours, with attributes of the same names and meaning."""

    def make(b: Build, args: list[Any], given: Attrs) -> Expr:
        for a in args:
            b.tensor(a)
        return b.call(op, *args, **given)

    return Row(operands(names), attrs, make)


def same_relax_call(name: str) -> Callable[[Call], RelaxCall | None]:
    """Our operator as the Relax operator `name` with the same attributes."""
    return lambda node: RelaxCall(name, node.args, node.attrs)


def as_list(value: Sequence[Any] | None) -> list[Any] | None:
    """A tuple of numbers as TVM writes it."""
    return None if value is None else list(value)
