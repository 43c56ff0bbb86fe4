"""What the type rules show of a value's sizes, so that no run has to ask (specs/lower.md, "shapes")."""

from __future__ import annotations

from collections.abc import Iterator

from assay.semantics.dtypes import INT64
from assay.semantics.graph import Call, CallTIR, Constructor, Expr, GlobalVar, If, Match, MatchCast
from assay.semantics.graph.matching import Bound, instantiate_dim
from assay.semantics.graph.rules import derive
from assay.semantics.instance import hidden_symbols
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.scalar import Dim, Var as Symbol
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import ShapeType, TensorType, TupleType, Type, flatten


def evidence(node: Expr, module: Module) -> Type | None:
    """A type that the value of `node` surely has, of the form of the node's own; None if nothing is known.

    Operators are held to their type rules. A function of the module checks its result on return, so what its type says
    of it at these arguments holds; a function that is a value may declare less than the type it is called at.
    """
    match node:
        case Call() if isinstance(node.op, (Operator, Constructor)):
            return node.type
        case Call():
            return derive(node, module) if isinstance(node.op, GlobalVar) else None
        case If() | Match():
            return derive(node, module)
        case MatchCast():
            given = node.value.type
            return None if isinstance(node.type, ShapeType) and not isinstance(given, ShapeType) else given
        case CallTIR():
            return _filled(node, module.kernel(node.func))
        case _:
            return node.type


def _filled(node: CallTIR, kernel: PrimFunc) -> Type:
    """What a tensor function makes of operands of these types; sizes that nothing tells are those that it is given."""
    bound: Bound = {v: d for v, d in zip(kernel.scalars, node.scalars, strict=True) if v.dtype is INT64}
    operands = [t for a in node.args for t in flatten(a.type)]
    made = flatten(node.type)
    for b, t in zip(kernel.inputs, operands, strict=True):
        for d, n in zip(b.shape, t.shape, strict=True):
            if isinstance(d, Symbol) and d not in kernel.scalars:
                bound.setdefault(d, n)
    hidden = set(hidden_symbols(kernel))
    for b, t in zip(kernel.outputs, made, strict=True):
        bound.update((d, n) for d, n in zip(b.shape, t.shape, strict=True) if isinstance(d, Symbol) and d in hidden)
    types = tuple(TensorType(tuple(instantiate_dim(d, bound) for d in b.shape), b.dtype) for b in kernel.outputs)
    return TupleType(types) if isinstance(node.type, TupleType) else types[0]


def hidden_sizes(node: CallTIR, kernel: PrimFunc) -> Iterator[Dim]:
    """The sizes that a tensor function takes from the type of its call."""
    hidden = set(hidden_symbols(kernel))
    if hidden:
        for b, t in zip(kernel.outputs, flatten(node.type), strict=True):
            yield from (n for d, n in zip(b.shape, t.shape, strict=True) if d in hidden)
