"""The sizes that a node uses: symbols that must have values when it is evaluated (rule M4; specs/semantics.md,
"Well-formed").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from assay.semantics.graph.nodes import Call, CallTIR, Expr, Function, MatchCast, ShapeExpr
from assay.semantics.scalar import Expr as Scalar, Var as Symbol, variables
from assay.semantics.types import Type, dims, symbols
from assay.semantics.walk import occurrences, post_order

EXPLICIT = "explicit_shapes"
"""The attribute of a function whose own statements check and name its sizes; nothing else does (rule M4.7)."""


def has_explicit_shapes(function: Function) -> bool:
    """Whether the function's own statements check and name its sizes: its attribute `EXPLICIT` is True."""
    return function.attrs.get(EXPLICIT) is True


def sizes_used(node: Expr) -> Iterator[Symbol]:
    """The symbols in a node's attributes, dims and scalars, in the results of a tensor function, and in what a type
    computes: a match-cast's, or a function's parameters when it is called."""
    match node:
        case Call():
            yield from sizes_in(node.attrs.values())
        case CallTIR():
            yield from symbols(node.type)
            yield from sizes_in(node.scalars)
        case ShapeExpr():
            yield from sizes_in(node.dims)
        case MatchCast():
            yield from _computed([node.type])
        case Function():
            yield from _computed([p.type for p in node.params])
        case _:
            pass


def sizes_in(values: Iterable[object]) -> Iterator[Symbol]:
    """The symbols in dims, and in tuples of them, such as attributes are; left to right."""
    return (s for d in dims_in(values) for s in variables(d))


def dims_in(values: Iterable[object]) -> Iterator[Scalar]:
    """The symbolic dims among values, and in tuples of them; left to right."""
    root: object = tuple(values)
    inside = occurrences(root, lambda v: v if isinstance(v, (tuple, list)) else ())
    return (v for v in inside if isinstance(v, Scalar))


def _computed(types: Iterable[Type]) -> Iterator[Symbol]:
    """The symbols that types use in larger expressions, and nowhere as a whole dim."""
    found = [d for of in types if symbols(of) for t in post_order(of) for d in dims(t)]
    plain = {d for d in found if isinstance(d, Symbol)}
    yield from (s for s in sizes_in(found) if s not in plain)
