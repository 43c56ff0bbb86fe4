"""Aliasing: which bytes a variable names (specs/semantics.md, "Aliasing").

The one relation that every client of liveness uses. A variable of an ANF function names a list of *origins*, one for
each tensor inside its value, left to right. An origin is what made the bytes: a parameter, a constant, one result of a
call, or one result of a choice whose branches give different ones. Let, tuples, projections, views and match-casts pass
origins on, and so does a choice whose branches give the same; a call of a function gives those that the function gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.errors import Unsupported
from assay.semantics.graph import (
    Call,
    CallTIR,
    Constant,
    Expr,
    Function,
    GlobalVar,
    MatchCast,
    OnDevice,
    Tuple,
    TupleGetItem,
    Var,
    let_chain,
    show_head,
)
from assay.semantics.operator import Operator
from assay.semantics.types import TensorType, TupleType, flatten, same_type

Look = Callable[[Expr], "tuple[Origin, ...]"]


@dataclass(frozen=True)
class Origin:
    """Where bytes come from: the variable or constant that names them first, and which of its tensors."""

    name: str
    index: int
    type: TensorType
    kind: str
    """One of "parameter", "constant", "call", "choice"."""
    device: VirtualDevice = field(default=ANYWHERE, compare=False)
    """Where they are, as far as what made them says."""


def bindings(function: Function) -> Iterator[tuple[Var, Expr]]:
    """The let chain of an ANF function, in order."""
    return ((let.var, let.value) for let in let_chain(function.body)[0])


def result(function: Function) -> Expr:
    """The expression at the end of the let chain, which is the function's result."""
    return let_chain(function.body)[1]


def passed(value: Expr, look: Look) -> tuple[Origin, ...] | None:
    """The origins of a value that makes no bytes; None where something has to be run to make it.

    `look` gives those of operands. Unsupported: a constant that is not in the table, a match-cast that may fail.
    """
    match value:
        case Var() | GlobalVar():
            return look(value)
        case OnDevice():
            return look(value.value)
        case Tuple():
            return tuple(o for f in value.fields for o in look(f))
        case TupleGetItem():
            assert isinstance(value.value.type, TupleType)
            before = sum(len(flatten(t)) for t in value.value.type.fields[: value.index])
            return look(value.value)[before : before + len(flatten(value.type))]
        case Call() if isinstance(value.op, Operator) and value.op.view:
            return look(value.args[0])
        case MatchCast():
            if not same_type(value.type, value.value.type):
                raise Unsupported(
                    f"a match-cast from {value.value.type} to {value.type}: only one to the type that the value has,"
                    " with sizes that are known, can be planned",
                    where=value.span,
                    label="alias.C3",
                )
            return look(value.value)
        case Constant():
            raise Unsupported("a constant that is not in the module's table", where=value.span, label="alias.C1")
        case _:
            return None


def device_of(var: Var, value: Expr) -> VirtualDevice:
    """Where a bound value lives: its own device, or else that of its variable."""
    return var.device if value.device == ANYWHERE else value.device


def made(name: str, call: CallTIR, device: VirtualDevice = ANYWHERE) -> tuple[Origin, ...]:
    """The origins that a call makes on a device."""
    return tuple(Origin(name, i, t, "call", device) for i, t in enumerate(flatten(call.type)))


def chosen(
    name: str, then: Sequence[Origin], otherwise: Sequence[Origin], device: VirtualDevice = ANYWHERE
) -> tuple[Origin, ...]:
    """The origins of a choice, given those of its branches: new ones, on a device, where the branches differ."""
    return tuple(
        a if a == b else Origin(name, i, a.type, "choice", device)
        for i, (a, b) in enumerate(zip(then, otherwise, strict=True))
    )


def from_outside(expr: Expr) -> tuple[Origin, ...]:
    """The origins of a name of the module: a constant of its table."""
    assert isinstance(expr, GlobalVar)
    return tuple(Origin(expr.name, i, t, "constant", expr.device) for i, t in enumerate(flatten(expr.type)))


def origins(function: Function) -> Look:
    """For each operand of an ANF function of calls: its origins. Unsupported for branches and inner functions,
    and where an operand is no name."""
    of: dict[Expr, tuple[Origin, ...]] = {
        p: tuple(Origin(p.name, i, t, "parameter", p.device) for i, t in enumerate(flatten(p.type)))
        for p in function.params
    }

    def look(expr: Expr) -> tuple[Origin, ...]:
        if isinstance(expr, GlobalVar):
            return from_outside(expr)
        if expr not in of:
            what = f"{show_head(expr)} has no name: only functions in A-normal form can be reordered"
            raise Unsupported(what, where=expr.span, label="alias.C4")
        return of[expr]

    for var, value in bindings(function):
        found = made(var.name, value) if isinstance(value, CallTIR) else passed(value, look)
        if found is None:
            raise Unsupported(
                f"{type(value).__name__.lower()} in {var.name}: only straight-line calls of tensor functions can be"
                " reordered",
                where=value.span,
                label="alias.C2",
            )
        of[var] = found
    return look
