"""Sizes and numbers that memory held are data: steps on them wrap (specs/verify.md, "For all sizes")."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from assay.interp import vector
from assay.lower.legalize.kernels.common import nest
from assay.semantics.dtypes import INT64
from assay.semantics.operator import Example
from assay.semantics.ops import OPERATORS
from assay.semantics.scalar import Expr, Var, const
from assay.semantics.tensor import Allocate, Buffer, If, LetStmt, PrimFunc, Stmt, seq, store
from assay.verify.all_sizes import prove_for_all_sizes
from assay.verify.all_sizes.symbols import symbolic_use

LARGE = const(1 << 62)
USE = symbolic_use(OPERATORS["full"], Example((), {"shape": (4,), "fill_value": 1 << 62, "dtype": "int64"}))
REAL_KERNEL = USE.kernel()
(OUT,) = REAL_KERNEL.outputs
HELD, V = Buffer("held", (1,), INT64), Var("v")
Step = Callable[[Expr], Expr]


def again(step: Step, kind: str) -> Stmt:
    """All elements stored, and then each taken once more."""
    first = nest("i", OUT.shape, lambda i: store(OUT, i, LARGE))
    return seq(first, nest("i", OUT.shape, lambda i: store(OUT, i, step(OUT[i])), kind))  # type: ignore[arg-type]


def once(step: Step) -> Stmt:
    """A loop of one turn that carries each element on."""
    turn = lambda i: nest("k", (1,), lambda k: store(OUT, i, step(OUT[i])), "serial")  # noqa: E731
    return nest("i", OUT.shape, lambda i: seq(store(OUT, i, LARGE), turn(i)))


def decided(step: Step, named: bool) -> Stmt:
    """What is stored is decided by what memory held, by a name or not."""

    def either(of: Expr) -> Stmt:
        return nest("i", OUT.shape, lambda i: If(step(of) > 0, store(OUT, i, LARGE), store(OUT, i, const(5))))

    inner = LetStmt(V, HELD[0], either(V)) if named else either(HELD[0])
    return Allocate(HELD, seq(store(HELD, 0, LARGE), inner))


BODIES: dict[str, Callable[[Step], Stmt]] = {
    "again": lambda step: again(step, "parallel"),
    "again, one after another": lambda step: again(step, "serial"),
    "in a loop of one turn": once,
    "by a condition": lambda step: decided(step, False),
    "by the condition of a name": lambda step: decided(step, True),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_step_on_what_memory_held_wraps(name: str) -> None:
    def kernel(step: Step) -> PrimFunc:
        return replace(REAL_KERNEL, body=BODIES[name](step))

    right, wrong = kernel(lambda a: a - 4 + 4), kernel(lambda a: a * 4 // 4)
    assert prove_for_all_sizes(right, USE.op, USE.attrs).reason == ""
    assert "may wrap" in prove_for_all_sizes(wrong, USE.op, USE.attrs).reason
    given, other = (vector.run(f, [], scalars=[3])[0].tolist() for f in (right, wrong))
    assert given == [1 << 62] * 3 != other
