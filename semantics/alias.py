"""Aliasing: which bytes a variable names (specs/semantics.md, "Aliasing").

The one relation that every client of liveness uses. A variable of an ANF function names a list of *origins*, one for
each tensor inside its value, left to right. An origin is what made the bytes: a parameter, a constant, one result of a
call, or one result of a choice whose branches give different ones. Let, tuples, projections, views and match-casts pass
origins on, and so does a choice whose branches give the same; a call of a function gives those that the function gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from assay.semantics import graph
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.errors import Unsupported
from assay.semantics.operator import Operator
from assay.semantics.size_facts import cast_sizes
from assay.semantics.types import TensorType, TupleType, flatten, same_type

Look = Callable[[graph.Expr], "tuple[Origin, ...]"]


@dataclass(frozen=True)
class Origin:
    """Where bytes come from: the variable or constant that names them first, and which of its tensors."""

    name: str
    index: int
    type: TensorType
    kind: str
    """One of "parameter", "constant", "call", "choice", and "carried" for a variable of a loop."""
    device: VirtualDevice = field(default=ANYWHERE, compare=False)
    """Where they are, as far as what made them says."""


def bindings(function: graph.Function) -> Iterator[tuple[graph.Var, graph.Expr]]:
    """The let chain of an ANF function, in order."""
    return ((let.var, let.value) for let in graph.let_chain(function.body)[0])


def result(function: graph.Function) -> graph.Expr:
    """The expression at the end of the let chain, which is the function's result."""
    return graph.let_chain(function.body)[1]


def passed(value: graph.Expr, look: Look) -> tuple[Origin, ...] | None:
    """The origins of a value that makes no bytes; None where something has to be run to make it.

    `look` gives those of operands. Unsupported: a constant that is not in the table, a match-cast that may fail.
    """
    match value:
        case graph.Var() | graph.GlobalVar():
            return look(value)
        case graph.OnDevice():
            return look(value.value)
        case graph.Tuple():
            return tuple(o for f in value.fields for o in look(f))
        case graph.TupleGetItem():
            assert isinstance(value.value.type, TupleType)
            before = sum(len(flatten(t)) for t in value.value.type.fields[: value.index])
            return look(value.value)[before : before + len(flatten(value.type))]
        case graph.Call() if isinstance(value.op, Operator) and value.op.view:
            return look(value.args[0])
        case graph.MatchCast():
            if not same_type(value.type, value.value.type):
                raise Unsupported(
                    f"a match-cast from {value.value.type} to {value.type}: only one to the type that the value has,"
                    " with sizes that are known, can be planned",
                    where=value.span,
                    label="alias.C3",
                )
            return look(value.value)
        case graph.Constant():
            raise Unsupported("a constant that is not in the module's table", where=value.span, label="alias.C1")
        case _:
            return None


def device_of(var: graph.Var, value: graph.Expr) -> VirtualDevice:
    """Where a bound value lives: its own device, or else that of its variable."""
    return var.device if value.device == ANYWHERE else value.device


def made(name: str, call: graph.CallTIR, device: VirtualDevice = ANYWHERE) -> tuple[Origin, ...]:
    """The origins that a call makes on a device."""
    return tuple(Origin(name, i, t, "call", device) for i, t in enumerate(flatten(call.type)))


def choice_origins(
    name: str, then: Sequence[Origin], otherwise: Sequence[Origin], device: VirtualDevice = ANYWHERE
) -> tuple[Origin, ...]:
    """The origins of a choice, given those of its branches: new ones, on a device, where the branches differ."""
    return tuple(
        a if a == b else Origin(name, i, a.type, "choice", device)
        for i, (a, b) in enumerate(zip(then, otherwise, strict=True))
    )


def from_outside(expr: graph.Expr) -> tuple[Origin, ...]:
    """The origins of a name of the module: a constant of its table."""
    assert isinstance(expr, graph.GlobalVar)
    return tuple(Origin(expr.name, i, t, "constant", expr.device) for i, t in enumerate(flatten(expr.type)))


def origins(function: graph.Function) -> Look:
    """For each operand of an ANF function of calls: its origins, a cast of tensors being its operand. Unsupported for
    branches and inner functions, and where an operand is no name."""
    of: dict[graph.Expr, tuple[Origin, ...]] = {
        p: tuple(Origin(p.name, i, t, "parameter", p.device) for i, t in enumerate(flatten(p.type)))
        for p in function.params
    }

    def look(expr: graph.Expr) -> tuple[Origin, ...]:
        if isinstance(expr, graph.GlobalVar):
            return from_outside(expr)
        if expr not in of:
            what = f"{graph.show_head(expr)} has no name: only functions in A-normal form can be reordered"
            raise Unsupported(what, where=expr.span, label="alias.C4")
        return of[expr]

    for var, value in bindings(function):
        found: tuple[Origin, ...] | None
        if isinstance(value, graph.MatchCast) and cast_sizes(value.value.type, value.type) is not None:
            found = look(value.value)  # whatever it asserts, the bytes are the operand's
        else:
            found = made(var.name, value) if isinstance(value, graph.CallTIR) else passed(value, look)
        if found is None:
            raise Unsupported(
                f"{type(value).__name__.lower()} in {var.name}: only straight-line calls of tensor functions can be"
                " reordered",
                where=value.span,
                label="alias.C2",
            )
        of[var] = found
    return look
