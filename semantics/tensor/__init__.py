"""The tensor IR: loops over buffers (rule M6; specs/semantics.md, "Tensor IR").

A `PrimFunc` takes buffers and writes into the last `num_outputs` of them (destination passing). Its meaning is one
iteration after another, as `assay.interp.tensor` spells out. The nodes are those of
`assay.semantics.tensor.statements`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from assay.semantics.dtypes import BOOL
from assay.semantics.errors import Invalid
from assay.semantics.scalar import Dim, Expr, Number, Var, const
from assay.semantics.scalar.expression import Buffer as Buffer, as_indices as as_indices
from assay.semantics.tensor.statements import (
    INDEPENDENT as INDEPENDENT,
    Alias as Alias,
    Allocate as Allocate,
    AllocateConst as AllocateConst,
    Assert as Assert,
    Block as Block,
    Call as Call,
    Evaluate as Evaluate,
    For as For,
    If as If,
    IterKind as IterKind,
    IterVar as IterVar,
    LetStmt as LetStmt,
    LoopKind as LoopKind,
    Pragma as Pragma,
    PrimFunc as PrimFunc,
    Seq as Seq,
    Stmt as Stmt,
    Store as Store,
    While as While,
    allocated as allocated,
    loads as loads,
    program_order as program_order,
    show_stmt as show_stmt,
)
from assay.semantics.tensor.views import Region as Region, View as View


def store(buffer: Buffer, indices: Number | tuple[Number, ...], value: Number) -> Store:
    """`buffer[indices] = value`, checked: the value has the buffer's dtype."""
    value = value if isinstance(value, Expr) else const(value, buffer.dtype)
    if value.dtype is not buffer.dtype:
        raise Invalid(
            f"store of {value.dtype} into {buffer.name}, which holds {buffer.dtype}",
            label="tensor.C3",
        )
    return Store(buffer, as_indices(buffer, indices), value)


def store_lanes(lanes: Sequence[Store]) -> Stmt:
    """The store of a vector, given for each lane: every value is computed before the first is stored (rule M6.16)."""
    names = [Var(f"lane{k}", s.value.dtype) for k, s in enumerate(lanes)]
    body: Stmt = Seq(tuple(replace(s, value=name) for s, name in zip(lanes, names, strict=True)))
    for s, name in reversed(list(zip(lanes, names, strict=True))):
        body = LetStmt(name, s.value, body, span=s.span)
    return body


def seq(*body: Stmt) -> Stmt:
    """Statements one after another; a single one stands for itself."""
    return body[0] if len(body) == 1 else Seq(body)


def loops(names: str, extents: Sequence[Dim], body: Callable[..., Stmt], kind: LoopKind = "serial") -> Stmt:
    """A nest of loops, outermost first. `names` has one word for each extent; `body` gets the loop variables.

    loops("i j", (n, m), lambda i, j: store(out, (i, j), a[i, j] + b[j]))
    """
    words = names.split()
    if len(words) != len(extents):
        raise Invalid(f"{len(extents)} loops need as many names, got {names!r}", label="tensor.C4")
    vars = [Var(w) for w in words]
    stmt = body(*vars)
    for var, extent in zip(reversed(vars), reversed(extents), strict=True):
        stmt = For(var, extent if isinstance(extent, Expr) else const(extent), stmt, kind)
    return stmt


def when(condition: Expr, then: Stmt, otherwise: Stmt | None = None) -> If:
    """`then` where `condition` holds, else `otherwise`; Invalid (tensor.C5) unless the condition is of dtype bool."""
    if condition.dtype is not BOOL:
        raise Invalid(f"a condition is bool, not {condition.dtype}", label="tensor.C5")
    return If(condition, then, otherwise)
