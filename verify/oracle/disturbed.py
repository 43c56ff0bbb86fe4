"""Tensor functions that do the same in another order (specs/verify.md, "Adversarial runs").

A loop whose iterations are independent (rule M6) runs in a random order, and workspace and results are full of garbage
before anything is written. A right function gives the same; one that is wrong in saying "parallel", or reads what
was never written, does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import gcd
from typing import Any

import numpy as np

from assay.interp import vector
from assay.interp.values import Value
from assay.semantics.dtypes import DType
from assay.semantics.scalar import Const, Expr, Var, apply, const
from assay.semantics.tensor import INDEPENDENT, Allocate, Buffer, For, LetStmt, PrimFunc, Seq, Stmt, Store
from assay.semantics.walk import post_order

SMALL = 1 << 15
"""Extents from which on a loop is reversed only: products of two numbers below it are in range of every index dtype."""


def shuffled(func: PrimFunc, rng: np.random.Generator) -> PrimFunc:
    """The function with every loop of independent iterations as a serial one in another order."""
    new: dict[int, Stmt] = {}
    for stmt in post_order(func.body):
        made = stmt.with_children([new[id(c)] for c in stmt.children])
        new[id(stmt)] = _reordered(made, rng) if isinstance(made, For) and made.kind in INDEPENDENT else made
    return replace(func, body=new[id(func.body)])


def _reordered(loop: For, rng: np.random.Generator) -> For:
    of = loop.var.dtype
    step = Var(loop.var.name + "_", of)
    size = loop.extent.value if isinstance(loop.extent, Const) else None
    if isinstance(size, int) and 1 < size < SMALL:
        by = next(a for a in rng.permutation(np.arange(1, size + 1)).tolist() if gcd(a, size) == 1)
        off = int(rng.integers(size))
        place = apply("floormod", apply("add", apply("mul", step, const(by, of)), const(off, of)), const(size, of))
    else:
        place = apply("sub", apply("sub", loop.extent, const(1, of)), step)
    if loop.start is not None:
        place = apply("add", loop.start, place)
    return replace(loop, var=step, kind="serial", start=None, body=LetStmt(loop.var, place, loop.body))


def poisoned(func: PrimFunc) -> PrimFunc:
    """The function with garbage in its workspace and its results before anything else is written there."""
    new: dict[int, Stmt] = {}
    for stmt in post_order(func.body):
        made = stmt.with_children([new[id(c)] for c in stmt.children])
        new[id(stmt)] = (
            replace(made, body=Seq((_filled(made.buffer), made.body))) if isinstance(made, Allocate) else made
        )
    return replace(func, body=Seq((*map(_filled, func.outputs), new[id(func.body)])))


def _filled(buffer: Buffer) -> Stmt:
    loops = [Var(f"poison_{i}") for i in range(len(buffer.shape))]
    stmt: Stmt = Store(buffer, tuple(loops), const(_garbage(buffer.dtype), buffer.dtype))
    for var, size in reversed(list(zip(loops, buffer.shape, strict=True))):
        stmt = For(var, size if isinstance(size, Expr) else const(size), stmt)
    return stmt


def _garbage(of: DType) -> Any:
    return float("nan") if of.is_float else True if of.kind == "bool" else int(of.max) - 1


@dataclass
class Disturbed:
    """An engine for tensor functions, each disturbed once."""

    rng: np.random.Generator
    made: dict[PrimFunc, PrimFunc] = field(default_factory=dict)

    def run(
        self, func: PrimFunc, inputs: Sequence[Value], *, scalars: Sequence[Any] = (), **more: Any
    ) -> Sequence[Value]:
        """Run the disturbed form of a tensor function on the vector engine."""
        if func not in self.made:
            self.made[func] = poisoned(shuffled(func, self.rng))
        return vector.run(self.made[func], inputs, scalars=scalars, **more)
