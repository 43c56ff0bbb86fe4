"""Makes the bindings of a StableHLO program, and remembers what is known of them (specs/lower.md, "StableHLO").

Every operation is a let, in the order of the text. A size that is computed by tensors is followed from where they are
defined: `get_dimension_size`, arithmetic and `concatenate` give dims over the sizes of the parameters. What is not
known is measured by the run, as for ONNX.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.lower.frontends.onnx.contents import Contents, derive, is_small, objects
from assay.semantics import graph
from assay.semantics.dtypes import INT64, DType
from assay.semantics.errors import Span, Unsupported
from assay.semantics.graph import Constant, Expr, Var
from assay.semantics.operator import Operator
from assay.semantics.scalar import Dim, Var as Symbol
from assay.semantics.types import ShapeType, TensorType, TupleType
from assay.semantics.walk import post_order

MOST_MEASURED = 8
"""Elements of a parameter that are taken for sizes at most."""


class Scope:
    """The bindings of a function, or of a region that becomes a branch or a function."""

    def __init__(self) -> None:
        self.first: list[tuple[Var, Expr]] = []
        """Those that measure its parameters: they stand before the others."""
        self.bindings: list[tuple[Var, Expr]] = []


@dataclass(frozen=True)
class Unset:
    """Memory that is not set, or in part: what to raise where a result hangs on it, which elements are not set (None:
    that is not known), and what has been written there."""

    why: Unsupported
    rest: np.ndarray[Any, np.dtype[np.bool_]] | None
    written: tuple[Expr, ...] = ()

    @property
    def is_set(self) -> bool:
        """Whether every element has been written."""
        return self.rest is not None and not self.rest.any()

    def after(self, places: Any, new: Expr) -> Unset:
        """The same when a tensor has been written at places, None where these are not known."""
        rest = self.rest
        if rest is not None and places is not None:
            rest = rest.copy()
            rest[places] = False
        return Unset(self.why, rest, (*self.written, new))


class HloBuilder:
    """Adds bindings to a scope."""

    def __init__(self) -> None:
        self.scope = Scope()
        self.span: Span | None = None
        self.values: dict[Var, Expr] = {}
        """What a variable is bound to."""
        self.params: dict[Var, Scope] = {}
        """Parameters of functions, which nothing here computes, and where each has its value."""
        self.numbers: set[Expr] = set()
        """Values that a program has as numbers, and not as tensors."""
        self.unset: dict[Expr, Unset] = {}
        """Tensors some of whose elements are whatever was in memory."""
        self._contents: dict[Expr, Contents | tuple[Contents, ...] | None] = {}

    # --- bindings --------------------------------------------------------------------------------------------------

    def named(self, x: Expr, name: str = "t") -> Var:
        """A name for a value: a let in the open scope."""
        var = graph.var(name, x.type)
        self.scope.bindings.append((var, x))
        self.values[var] = x
        return var

    def call(self, op: str, *args: Expr, **attrs: Any) -> Expr:
        """The call of an operator, by a name."""
        return self.named(graph.call(op, *args, span=self.span, **attrs))

    def constant(self, data: Any, of: DType) -> Constant:
        """A constant."""
        return graph.constant(np.asarray(data).astype(of.numpy), span=self.span)

    def around(self, body: Expr, scope: Scope) -> Expr:
        """The body inside the lets of a scope."""
        for var, value in reversed([*scope.first, *scope.bindings]):
            body = graph.let(var, value, body, span=value.span)
        return body

    # --- what integer tensors hold ---------------------------------------------------------------------------------

    def contents(self, x: Expr) -> Contents | None:
        """What a small integer tensor holds: numbers, and dims over sizes that have values here; None where that is
        not known."""
        found: Contents | tuple[Contents, ...] | None = None
        for node in post_order(x, self._parts):
            found = self._contents.get(node)
            if found is None:
                found = self._contents[node] = self._derived(node)
        return found if isinstance(found, np.ndarray) else None

    def _parts(self, node: Expr) -> Sequence[Expr]:
        """What the contents of a node hang on."""
        if node in self._contents:
            return ()
        match node:
            case Var():
                return (self.values[node],) if node in self.values else ()
            case graph.Call(op=Operator() as op):
                return () if op.name == "shape_of" else node.args
            case graph.TupleGetItem() | graph.Tuple():
                return node.children
            case _:
                return ()

    def _derived(self, node: Expr) -> Contents | tuple[Contents, ...] | None:
        match node:
            case Constant() if node.data.dtype.kind in "biu" and node.data.size <= 1024:
                return objects(node.data, node.data.shape)
            case Var() if node in self.values:
                return self._contents.get(self.values[node])
            case Var() if node in self.params:
                return self._measured(node)
            case graph.Call(op=Operator(name="shape_of")):
                (arg,) = node.args
                assert isinstance(arg.type, TensorType)
                return objects(arg.type.shape, (arg.type.ndim,))
            case graph.Call(op=Operator() as op):
                args = [self._contents.get(a) for a in node.args]
                if not all(isinstance(a, np.ndarray) for a in args) or not isinstance(
                    node.type, (TensorType, TupleType)
                ):
                    return None
                return derive(op.name, node.attrs, [a for a in args if isinstance(a, np.ndarray)], node.type)
            case graph.TupleGetItem():
                whole = self._contents.get(node.value)
                return whole[node.index] if isinstance(whole, tuple) else None
            case _:
                return None

    def _measured(self, param: Var) -> Contents | None:
        """A parameter of a few whole numbers as sizes: symbols that take its values. A run traps where one is below
        0."""
        of = param.type
        if not isinstance(of, TensorType) or not of.dtype.is_integer or of.dtype.bits < 32 or not is_small(of):
            return None
        count = int(np.prod(of.static_shape, dtype=np.int64))
        if not 0 < count <= MOST_MEASURED:
            return None
        wide = graph.call("astype", param, dtype=INT64.name)
        symbols = tuple(Symbol(f"{param.name}_{i}" if count > 1 else param.name) for i in range(count))
        cast = graph.match_cast(graph.call("reshape", wide, shape=(count,)), ShapeType(symbols))
        self.params[param].first.append((graph.var(f"{param.name}_sizes", cast.type), cast))
        return objects(symbols, of.static_shape)

    def measured(self, vector: Expr, name: str) -> tuple[Dim, ...]:
        """The elements of a vector of int64, of known length, as symbols."""
        assert isinstance(vector.type, TensorType)
        count = vector.type.static_shape[0]
        symbols = tuple(Symbol(f"{name}_{i}") for i in range(count))
        self.named(graph.match_cast(vector, ShapeType(symbols), self.span), "sizes")
        return symbols

    def dims(self, vector: Expr, name: str) -> tuple[Dim, ...]:
        """The elements of a vector of whole numbers as dims: known, or measured by the run."""
        known = self.contents(vector)
        if known is not None:
            return tuple(int(v) if isinstance(v, (bool, np.integer)) else v for v in known.reshape(-1))
        return self.measured(self.call("astype", vector, dtype=INT64.name), name)
