"""Aliasing: which bytes a variable names (design, section 2; specs/semantics.md, "Aliasing").

The one relation that every client of liveness uses. A variable of an ANF function names a list of *origins*, one for
each tensor inside its value, left to right. An origin is what made the bytes: a parameter, a constant, or one result
of a call. Let, tuples, projections and views pass origins on; nothing else does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from assay.semantics.errors import Unsupported
from assay.semantics.graph import Call, CallTIR, Constant, Expr, Function, GlobalVar, Let, Tuple, TupleGetItem, Var
from assay.semantics.operator import Operator
from assay.semantics.types import TensorType, TupleType, flatten


@dataclass(frozen=True)
class Origin:
    """Where bytes come from: the variable or constant that names them first, and which of its tensors."""

    name: str
    index: int
    type: TensorType
    kind: str
    """One of "parameter", "constant", "call"."""


def bindings(function: Function) -> Iterator[tuple[Var, Expr]]:
    """The let chain of an ANF function, in order."""
    body = function.body
    while isinstance(body, Let):
        yield body.var, body.value
        body = body.body


def result(function: Function) -> Expr:
    """What stands at the end of the let chain."""
    body = function.body
    while isinstance(body, Let):
        body = body.body
    return body


def origins(function: Function) -> Callable[[Expr], tuple[Origin, ...]]:
    """For each operand of an ANF function of calls: its origins. Unsupported for branches and inner functions."""
    of: dict[Expr, tuple[Origin, ...]] = {
        p: tuple(Origin(p.name, i, t, "parameter") for i, t in enumerate(flatten(p.type))) for p in function.params
    }

    def look(expr: Expr) -> tuple[Origin, ...]:
        if isinstance(expr, GlobalVar):
            return tuple(Origin(expr.name, i, t, "constant") for i, t in enumerate(flatten(expr.type)))
        return of[expr]

    for var, value in bindings(function):
        match value:
            case Var() | GlobalVar():
                found = look(value)
            case Tuple():
                found = tuple(o for f in value.fields for o in look(f))
            case TupleGetItem():
                assert isinstance(value.value.type, TupleType)
                before = sum(len(flatten(t)) for t in value.value.type.fields[: value.index])
                found = look(value.value)[before : before + len(flatten(value.type))]
            case Call() if isinstance(value.op, Operator) and value.op.view:
                found = look(value.args[0])
            case CallTIR():
                found = tuple(Origin(var.name, i, t, "call") for i, t in enumerate(flatten(value.type)))
            case Constant():
                raise Unsupported("a constant that is not in the module's table", where=value.span, label="alias.C1")
            case _:
                raise Unsupported(
                    f"{type(value).__name__.lower()} in {var.name}: only straight-line calls of tensor functions can be"
                    " planned",
                    where=value.span,
                    label="alias.C2",
                )
        of[var] = found
    return look
