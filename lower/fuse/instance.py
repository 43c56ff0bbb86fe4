"""One use of a tensor function, written out: its statements over the buffers of the caller (specs/lower.md, "fuse").

Loop variables and allocations are new for each use; names of integers are replaced by what they stand for, so that an
index says itself which element it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from assay.semantics import tensor
from assay.semantics.scalar import Const, Dim, Expr, Var, const, simplify
from assay.semantics.tensor.blocks import without_blocks
from assay.semantics.tensor.mapping import Mapper
from assay.semantics.walk import occurrences

Held: TypeAlias = tuple[tensor.Buffer, tensor.AllocateConst | None]
"""A buffer, and for a constant the statement that holds it."""


@dataclass(eq=False)
class InstanceBody:
    """Statements one after another, and the buffers that exist around them, and what holds those that are constants."""

    statements: list[tensor.Stmt] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)


def instantiate_body(func: tensor.PrimFunc, buffers: Sequence[tensor.Buffer], sizes: Mapping[Var, Dim]) -> InstanceBody:
    """The body of `func` with `buffers` as its parameters and `sizes` for its symbols and scalars."""
    plain = without_blocks(func)
    made = _Instance()
    made.vars.update((v, d if isinstance(d, Expr) else const(d, v.dtype)) for v, d in sizes.items())
    made.buffers.update(zip(plain.params, buffers, strict=True))
    for stmt in tensor.program_order(plain.body):
        match stmt:
            case tensor.LetStmt() if stmt.value.dtype.is_integer and not tensor.loads(stmt.value):
                made.vars[stmt.var] = made.expr(stmt.value)
                made.inlined.add(stmt.var)
            case tensor.For() | tensor.LetStmt():
                made.vars[stmt.var] = Var(stmt.var.name, stmt.var.dtype)
            case tensor.Allocate() | tensor.AllocateConst():
                b = stmt.buffer
                made.buffers[b] = tensor.Buffer(b.name, tuple(map(made.size, b.shape)), b.dtype, b.scope, b.notes)
    return _opened(made.run(plain.body))


def substituted(
    stmt: tensor.Stmt, vars: Mapping[Var, Expr], buffers: Mapping[tensor.Buffer, tensor.Buffer]
) -> tensor.Stmt:
    """A statement with free variables and buffers replaced."""
    return Mapper(dict(vars), dict(buffers)).run(stmt)


@dataclass
class _Instance(Mapper):
    inlined: set[Var] = field(default_factory=set)

    def own(self, s: tensor.Stmt) -> tensor.Stmt:
        return s.body if isinstance(s, tensor.LetStmt) and s.var in self.inlined else super().own(s)

    def size(self, of: Dim) -> Dim:
        new = self.dim(of)
        return int(new.value) if isinstance(new, Const) else simplify(new)


def _opened(body: tensor.Stmt) -> InstanceBody:
    """Statements without the allocations around them."""
    found = InstanceBody()
    for stmt in occurrences(
        body, lambda s: s.children if isinstance(s, (tensor.Seq, tensor.Allocate, tensor.AllocateConst)) else ()
    ):
        match stmt:
            case tensor.Seq():
                pass
            case tensor.Allocate():
                found.held.append((stmt.buffer, None))
            case tensor.AllocateConst():
                found.held.append((stmt.buffer, stmt))
            case _:
                found.statements.append(stmt)
    return found
