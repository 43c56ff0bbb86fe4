"""Kernels of symbolic sizes in C: rows that begin before a loop, and loops over whole trailing dims as one.

Each kernel is run at several sizes beside the machine, and its text shows whether the loops are one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from assay.interp import machine
from assay.lower.c import emit
from assay.lower.c.helpers import Library
from assay.lower.c.kernel import write_kernel
from assay.semantics.dtypes import FLOAT32, INT64
from assay.semantics.errors import Trap
from assay.semantics.module import Module, Program, Slot, Step
from assay.semantics.scalar import Expr, Var, apply, cast, const, variables
from assay.semantics.tensor import Buffer, For, PrimFunc, Seq, Stmt, loops, store
from assay.semantics.types import TensorType
from assay.verify.c.compiled import compile_c
from assay.verify.c.tools import STRICT
from tests.lower.memory.planned import Array, same_bits

N, M = Var("n"), Var("m")
X, OUT = Buffer("x", (2, N, M), FLOAT32), Buffer("out", (2, N, M), FLOAT32)
BIAS, PLACES = Buffer("bias", (N,), FLOAT32), Buffer("places", (N,), INT64)
TURNED = Buffer("out", (2, M, N), FLOAT32)
WHOLE = Buffer("whole", (2, N, M), INT64)
SIZES = ((1, 1), (3, 5), (0, 4), (4, 0), (7, 16))


def lone(kernel: PrimFunc) -> Module:
    """A kernel as a program whose slots are called as its buffers."""
    slots = {
        b.name: Slot(b.name, TensorType(b.shape, b.dtype), "output" if b in kernel.outputs else "input", ((0, 1),), 4)
        for b in kernel.params
    }
    reads, writes = (tuple(b.name for b in part) for part in (kernel.inputs, kernel.outputs))
    used = {s for b in kernel.params for d in b.shape if isinstance(d, Expr) for s in variables(d)}
    step = Step(kernel.name, reads, writes, dims=tuple((s, s) for s in (N, M) if s in used))
    return Module({"main": Program(slots, (step,), reads, writes, sizes={"workspace": 0}), kernel.name: kernel})


def nest(body: Callable[..., Stmt]) -> Stmt:
    return loops("i j k", (2, N, M), body)


def value(i: Expr, j: Expr, k: Expr) -> Expr:
    return apply("add", X[i, j, k], const(1.0, FLOAT32))


ZERO = const(0, INT64)
STRETCHED = apply("select", apply("eq", N, const(1)), M, N)
"""A dim that is stretched where it is 1: no sum of others."""
WIDE, WIDER = Buffer("x", (M, STRETCHED), FLOAT32), Buffer("out", (M, STRETCHED), FLOAT32)
CASES: dict[str, tuple[PrimFunc, int]] = {
    "all dims": (PrimFunc("f", (X, OUT), 1, nest(lambda i, j, k: store(OUT, (i, j, k), value(i, j, k)))), 1),
    "a zero is added": (
        PrimFunc("f", (X, OUT), 1, nest(lambda i, j, k: store(OUT, (i, j, apply("add", k, ZERO)), value(i, j, k)))),
        1,
    ),
    "the inner dim": (
        PrimFunc(
            "f", (X, BIAS, OUT), 1, nest(lambda i, j, k: store(OUT, (i, j, k), apply("mul", X[i, j, k], BIAS[j])))
        ),
        3,
    ),
    "a row that is found in memory": (
        PrimFunc("f", (X, PLACES, OUT), 1, nest(lambda i, j, k: store(OUT, (i, j, k), X[i, PLACES[j], k]))),
        3,
    ),
    "a value that hangs on the place": (
        PrimFunc("f", (X, WHOLE), 1, nest(lambda i, j, k: store(WHOLE, (i, j, k), cast(k, INT64)))),
        3,
    ),
    "a dim that is chosen": (
        PrimFunc(
            "f",
            (WIDE, BIAS, WIDER),
            1,
            loops("j k", (M, STRETCHED), lambda j, k: store(WIDER, (j, k), WIDE[j, k])),
        ),
        1,
    ),
    "two orders": (
        PrimFunc(
            "f",
            (X, TURNED),
            1,
            nest(lambda i, j, k: store(TURNED, (i, k, j), X[i, j, k])),
        ),
        3,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_same_bits_in_as_many_loops(name: str) -> None:
    kernel, count = CASES[name]
    module = lone(kernel)
    source = emit(module, "m")
    text = source.source[source.source.index("int m_k_f(") : source.source.index("/* What depends on sizes")]
    assert text.count("for (") == count, text
    assert ("const int64_t row" in text) == (count > 1), "one loop over everything has no row, any other one has"
    compiled = compile_c(source, reproducible=True, flags=(*STRICT, "-O1"))
    rng = np.random.default_rng(1)
    for n, m in SIZES:
        given = {b.name: made(b, n, m, rng) for b in kernel.inputs}
        found, wanted = compiled.run(given), machine.run(module, given)
        assert all(same_bits(found[k], wanted[k]) for k in wanted), (n, m)


def made(buffer: Buffer, n: int, m: int, rng: np.random.Generator) -> Array:
    sizes = {N: n, M: m, STRETCHED: m if n == 1 else n}
    shape = tuple(d if isinstance(d, int) else sizes[d] for d in buffer.shape)
    if buffer is PLACES:
        return rng.integers(0, max(n, 1), shape)
    return rng.standard_normal(shape).astype(np.float32)


def test_one_variable_of_two_loops_is_two_variables() -> None:
    """What is known of the first says nothing of the second, which leaves the buffer."""
    x, out, k = Buffer("x", (4,), FLOAT32), Buffer("out", (8,), FLOAT32), Var("k")
    passes = (For(k, const(4), store(out, k, x[k])), For(k, const(10), store(out, k, x[0])))
    kernel = write_kernel(PrimFunc("f", (x, out), 1, Seq(passes)), "k_f", "M", Library("m", "M"))
    first, second = "".join(kernel.text(set(), "")).split("for (")[1:]
    assert "TRAP_OUT_OF_BOUNDS" not in first and "TRAP_OUT_OF_BOUNDS" in second


def test_an_index_that_may_be_outside_is_looked_at_in_the_loop() -> None:
    """The row of such an element does not begin before the loop: nothing is computed of it, and the run traps."""
    kernel = CASES["a row that is found in memory"][0]
    module = lone(kernel)
    compiled = compile_c(emit(module, "m"), reproducible=True, flags=(*STRICT, "-O1"))
    given = {"x": np.ones((2, 3, 5), np.float32), "places": np.array([0, 3, 1])}
    for run in (compiled.run, lambda x: machine.run(module, x)):
        with pytest.raises(Trap, match="bounds"):
            run(given)
    nothing = {"x": np.ones((2, 3, 0), np.float32), "places": np.array([0, 3, 1])}
    assert compiled.run(nothing)["out"].shape == (2, 3, 0)
