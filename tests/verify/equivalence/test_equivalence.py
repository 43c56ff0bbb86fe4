"""Tensor functions that are equal for all inputs, in which sense, and every planted difference found."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from assay.interp import tensor
from assay.semantics.dtypes import DTYPES, FLOAT32, FLOAT64, INT32, DType
from assay.semantics.errors import Trap
from assay.semantics.scalar import Const, Expr, Var, apply, cast, choice, const, select
from assay.semantics.tensor import (
    Allocate,
    Buffer,
    PrimFunc,
    Stmt,
    loops,
    seq,
    store,
    when,
)
from assay.verify.equivalence import BIT_EXACT, REAL, REASSOCIATED, UNKNOWN, Notion, equivalent
from assay.verify.equivalence.order import UndecidedTrace
from assay.verify.strategies.kernels import Kernels as Maker
from tests.lower.c.test_c_random import values
from tests.lower.legalize.kernel_check import same_bits
from tests.verify.oracle import numbers

F, INT8 = FLOAT32, DTYPES["int8"]
N, M, K = 7, 9, 5


def zero(of: DType = F) -> Expr:
    return const(0, of)


def matmul(
    element: Callable[[Buffer, Buffer, Buffer, Expr, Expr, Expr], Stmt] | None = None,
    order: str = "i j k",
    init: bool = True,
    of: DType = F,
) -> PrimFunc:
    a, b, c = Buffer("a", (N, K), of), Buffer("b", (K, M), of), Buffer("c", (N, M), of)
    extents = {"i": N, "j": M, "k": K}

    def inside(*vars: Expr) -> Stmt:
        at = dict(zip(order.split(), vars, strict=True))
        i, j, k = at["i"], at["j"], at["k"]
        return element(a, b, c, i, j, k) if element else store(c, (i, j), c[i, j] + a[i, k] * b[k, j])

    body = loops(order, [extents[v] for v in order.split()], inside)
    start = loops("i j", (N, M), lambda i, j: store(c, (i, j), zero(of)))
    return PrimFunc("matmul", (a, b, c), 1, seq(start, body) if init else body)


def unary(value: Callable[[Expr], Expr], n: int = 6, of: DType = F) -> PrimFunc:
    x, out = Buffer("x", (n,), of), Buffer("out", (n,), of)
    return PrimFunc("unary", (x, out), 1, loops("i", (n,), lambda i: store(out, i, value(x[i]))))


def binary(value: Callable[[Expr, Expr], Expr], of: DType = F) -> PrimFunc:
    x, y, out = Buffer("x", (6,), of), Buffer("y", (6,), of), Buffer("out", (6,), of)
    return PrimFunc("binary", (x, y, out), 1, loops("i", (6,), lambda i: store(out, i, value(x[i], y[i]))))


# --- the evaluator -----------------------------------------------------------------------------------------------


def agree(func: PrimFunc, seed: int) -> str:
    """The trace over numbers gives the definition's bits; or why it does not run."""
    rng = np.random.default_rng(seed)
    inputs = [values(b.static_shape, b.dtype, rng) for b in func.inputs]
    try:
        got = numbers.run(func, inputs)
    except UndecidedTrace:
        return "undecided"
    except (Trap, AssertionError):  # both sides of a condition are evaluated here, so that more may trap
        return "trap"
    want = tensor.run(func, inputs)
    assert all(same_bits(g, w) for g, w in zip(got, want, strict=True)), func
    return "same"


def test_the_trace_is_the_definition() -> None:
    seen = Counter(agree(Maker(random.Random(seed).randrange, "kernel").make(), seed) for seed in range(250))
    assert seen["same"] > 60, seen


@settings(max_examples=40)
@given(st.data())
def test_any_trace_is_the_definition(data: st.DataObject) -> None:
    func = Maker(lambda n: data.draw(st.integers(0, n - 1)) if n > 1 else 0, "kernel").make()
    agree(func, data.draw(st.integers(0, 9)))


# --- equal -------------------------------------------------------------------------------------------------------

x, y = Var("x", F), Var("y", F)


def tiled() -> PrimFunc:
    def body(a: Buffer, b: Buffer, c: Buffer, i: Expr, j: Expr, k: Expr) -> Stmt:
        return store(c, (i, j), c[i, j] + a[i, k] * b[k, j])

    a, b, c = Buffer("a", (N, K), F), Buffer("b", (K, M), F), Buffer("c", (N, M), F)
    start = loops("i j", (N, M), lambda i, j: store(c, (i, j), zero()))

    def tile(io: Expr, jo: Expr, k: Expr, ii: Expr, ji: Expr) -> Stmt:
        i, j = io * 4 + ii, jo * 4 + ji
        return when(apply("and", i < N, j < M), body(a, b, c, i, j, k))

    return PrimFunc("tiled", (a, b, c), 1, seq(start, loops("io jo k ii ji", (2, 3, K, 4, 4), tile, "serial")))


def in_local() -> PrimFunc:
    """Each element is added up in a cell of its own, its loops parallel."""
    a, b, c, s = Buffer("a", (N, K), F), Buffer("b", (K, M), F), Buffer("c", (N, M), F), Buffer("s", (), F)

    def element(i: Expr, j: Expr) -> Stmt:
        add = loops("k", (K,), lambda k: store(s, (), s[()] + b[k, j] * a[i, k]))
        return Allocate(s, seq(store(s, (), zero()), add, store(c, (i, j), s[()])))

    return PrimFunc("in_local", (a, b, c), 1, loops("i j", (N, M), element, "parallel"))


def from_the_end() -> PrimFunc:
    return matmul(lambda a, b, c, i, j, k: store(c, (i, j), c[i, j] + a[i, K - 1 - k] * b[K - 1 - k, j]))


EXACT = {
    "other loop order": (matmul(), matmul(order="k j i")),
    "tiled, with guards": (matmul(), tiled()),
    "in a local cell, parallel, operands swapped": (matmul(), in_local()),
    "integers in another order": (
        matmul(of=INT8),
        matmul(lambda a, b, c, i, j, k: store(c, (i, j), a[i, K - 1 - k] * b[K - 1 - k, j] + c[i, j]), of=INT8),
    ),
    "integer sum less its parts": (binary(lambda a, b: a - b + a, INT32), binary(lambda a, b: (a + a) - b, INT32)),
    "max in another order": (
        binary(lambda a, b: apply("max", apply("max", a, b), a)),
        binary(lambda a, b: apply("max", b, a)),
    ),
    "max of -inf": (unary(lambda a: apply("max", const(-np.inf, F), a)), unary(lambda a: a)),
    "greater is less, swapped": (binary(lambda a, b: select(a > b, a, b)), binary(lambda a, b: select(b < a, a, b))),
    "choice and select": (binary(lambda a, b: choice(a < b, a, b)), binary(lambda a, b: select(a < b, a, b))),
    "literals folded": (
        unary(lambda a: a * (const(0.1, F) + const(0.2, F))),
        unary(lambda a: a * const(np.float32(0.1) + np.float32(0.2), F)),
    ),
}


@pytest.mark.parametrize("name", EXACT)
def test_bit_exact(name: str) -> None:
    verdict = equivalent(*EXACT[name])
    assert verdict.notion is BIT_EXACT and verdict.how == "terms", str(verdict)
    assert equivalent(*reversed(EXACT[name])).holds(BIT_EXACT)


WEAKER: dict[str, tuple[PrimFunc, PrimFunc, Notion]] = {
    "sum from the end": (matmul(), from_the_end(), REASSOCIATED),
    "zero added": (unary(lambda a: a), unary(lambda a: a + 0.0), REASSOCIATED),
    "product in another order": (binary(lambda a, b: a * b * a), binary(lambda a, b: a * a * b), REASSOCIATED),
    "difference in another order": (binary(lambda a, b: a - b - a), binary(lambda a, b: -b - a + a), REASSOCIATED),
    "distributed": (binary(lambda a, b: (a + b) * a), binary(lambda a, b: a * a + b * a), REAL),
    "divided by a number": (binary(lambda a, b: a / b / 4.0), binary(lambda a, b: a / (4.0 * b)), REAL),
    "inside a function": (binary(lambda a, b: apply("exp", (a + b) * a)),
        binary(lambda a, b: apply("exp", a * a + b * a)), REAL),
    "in double": (binary(lambda a, b: a * b + a),
        binary(lambda a, b: cast(cast(a, FLOAT64) * cast(b, FLOAT64) + cast(a, FLOAT64), F)), REAL),
}  # fmt: skip


@pytest.mark.parametrize("name", WEAKER)
def test_the_notion_is_named(name: str) -> None:
    """Not bit-exact, and said to be as much as it is."""
    source, target, notion = WEAKER[name]
    verdict = equivalent(source, target)
    assert verdict.notion is notion, str(verdict)
    assert verdict.difference is not None
    assert not verdict.holds(BIT_EXACT) and verdict.holds(notion)
    assert (verdict.how == "words") == (notion is REAL) and (verdict.error < 1e-12)
    strict = equivalent(source, target, weakest=BIT_EXACT)
    assert strict.notion is UNKNOWN and strict.witness is not None and strict.witness.replayed, str(strict)


def test_a_notion_is_not_tried_below_the_weakest() -> None:
    source, target, _ = WEAKER["distributed"]
    assert equivalent(source, target, weakest=REASSOCIATED).notion is UNKNOWN


# --- planted faults ----------------------------------------------------------------------------------------------


def step(value: Callable[[Buffer, Buffer, Buffer, Expr, Expr, Expr], Expr]) -> Callable[..., Stmt]:
    return lambda a, b, c, i, j, k: store(c, (i, j), value(a, b, c, i, j, k))


def guarded(i_limit: int, j_limit: int) -> PrimFunc:
    def element(a: Buffer, b: Buffer, c: Buffer, i: Expr, j: Expr, k: Expr) -> Stmt:
        return when(apply("and", i < i_limit, j < j_limit), store(c, (i, j), c[i, j] + a[i, k] * b[k, j]))

    return matmul(element)


def prefix(factor: int) -> PrimFunc:
    x, out = Buffer("x", (6,), F), Buffer("out", (6,), F)
    return PrimFunc("prefix", (x, out), 1, seq(
        loops("i", (6,), lambda i: store(out, i, x[i])),
        loops("i", (5,), lambda i: store(out, i + 1, out[i + 1] + out[factor * i])),
    ))  # fmt: skip


FAULTS: dict[str, tuple[PrimFunc, PrimFunc]] = {
    "tail guard one short": (matmul(), guarded(N - 1, M)),
    "tail guard of the other index": (matmul(), guarded(N, N)),
    "operands of the wrong row": (matmul(),
        matmul(step(lambda a, b, c, i, j, k: c[i, j] + a[i, k] * b[k, select(j < 8, j + 1, j)]))),
    "reduction one short": (matmul(),
        matmul(lambda a, b, c, i, j, k: when(k < K - 1, store(c, (i, j), c[i, j] + a[i, k] * b[k, j])))),
    "added twice": (matmul(),
        matmul(lambda a, b, c, i, j, k: seq(*2 * [store(c, (i, j), c[i, j] + a[i, k] * b[k, j])]))),
    "not added, overwritten": (matmul(), matmul(step(lambda a, b, c, i, j, k: a[i, k] * b[k, j]))),
    "subtracted": (matmul(), matmul(step(lambda a, b, c, i, j, k: c[i, j] - a[i, k] * b[k, j]))),
    "init of one": (matmul(),
        matmul(lambda a, b, c, i, j, k: seq(when(apply("eq", k, 0), store(c, (i, j), 1.0)),
        store(c, (i, j), c[i, j] + a[i, k] * b[k, j])))),
    "init inside the reduction": (matmul(),
        matmul(lambda a, b, c, i, j, k: seq(when(k < 2, store(c, (i, j), 0.0)),
        store(c, (i, j), c[i, j] + a[i, k] * b[k, j])))),
    "wrong neighbour": (prefix(1), prefix(0)),
    "max by comparison": (binary(lambda a, b: apply("max", a, b)), binary(lambda a, b: select(a > b, a, b))),
    "relu that drops NaN": (unary(lambda a: apply("max", a, 0.0)), unary(lambda a: select(a > 0.0, a, 0.0))),
    "branches swapped": (binary(lambda a, b: select(a < b, a, b)), binary(lambda a, b: select(a < b, b, a))),
    "less or equal": (binary(lambda a, b: select(a < b, a, b)), binary(lambda a, b: select(a <= b, a, b))),
    "minus zero": (unary(lambda a: a * 0.0 + 0.0), unary(lambda a: a * 0.0)),
    "narrow sum": (binary(lambda a, b: cast(cast(a, INT32) + cast(b, INT32), INT32), INT32),
        binary(lambda a, b: cast(cast(a, INT8) + cast(b, INT8), INT32), INT32)),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str) -> None:
    source, target = FAULTS[name]
    verdict = equivalent(source, target, weakest=BIT_EXACT)
    assert verdict.notion is UNKNOWN and verdict.difference is not None, str(verdict)
    assert verdict.witness is not None and verdict.witness.replayed, str(verdict)
    words = equivalent(source, target, method="words")
    assert not words.holds(BIT_EXACT), str(words)


@pytest.mark.parametrize("method", ["any", "words"])
@pytest.mark.parametrize(
    ("of", "one", "other"),
    [
        (INT32, lambda a: a + (2**31 - 1), lambda a: a),
        (INT32, lambda a: apply("bitxor", a, const(2**31 - 1, INT32)), lambda a: apply("bitxor", a, const(0, INT32))),
        (F, lambda a: a * 2.0**31, lambda a: a),
        (F, lambda a: a * 65536.0 * 32768.0, lambda a: a),
        (F, lambda a: apply("max", a, 2.0**31), lambda a: apply("max", a, 1.0)),
    ],
)
def test_literals_that_one_prime_does_not_tell_apart(
    of: DType, one: Callable[[Expr], Expr], other: Callable[[Expr], Expr], method: str
) -> None:
    verdict = equivalent(unary(one, of=of), unary(other, of=of), method=method)
    assert verdict.notion is UNKNOWN and verdict.witness is not None, str(verdict)
    assert equivalent(unary(one, of=of), unary(one, of=of), method=method).holds(BIT_EXACT)


def test_the_bits_of_a_literal_nan_are_told() -> None:
    x, out = Buffer("x", (3,), F), Buffer("out", (3,), INT32)

    def told(bits: int) -> PrimFunc:
        nan = Const(F, np.uint32(bits).view(np.float32))
        chosen = lambda i: apply("bits_of", select(x[i] > 0.0, nan, x[i]))  # noqa: E731
        return PrimFunc("told", (x, out), 1, loops("i", (3,), lambda i: store(out, i, chosen(i))))

    plain, other = told(0x7FC00000), told(0xFFC00001)
    assert equivalent(plain, told(0x7FC00000)).holds(BIT_EXACT)
    assert not equivalent(plain, other, method="terms").holds(REAL)
    assert not equivalent(plain, other).holds(BIT_EXACT)


def test_a_missing_init_traps() -> None:
    verdict = equivalent(matmul(), matmul(init=False))
    assert verdict.notion is UNKNOWN and "before it is written" in verdict.reason
    assert verdict.witness is not None and "target traps" in str(verdict.witness)


def test_fused_multiply_add_is_not_bit_exact() -> None:
    """One rounding instead of two: equal over the reals, and an input on which the bits differ."""
    fused = step(
        lambda a, b, c, i, j, k: cast(cast(c[i, j], FLOAT64) + cast(a[i, k], FLOAT64) * cast(b[k, j], FLOAT64), F)
    )
    verdict = equivalent(matmul(), matmul(fused))
    assert verdict.notion is REAL, str(verdict)
    strict = equivalent(matmul(), matmul(fused), weakest=BIT_EXACT)
    assert strict.witness is not None and strict.witness.replayed


def test_the_difference_is_shown_small() -> None:
    verdict = equivalent(*FAULTS["tail guard one short"])
    text = str(verdict)
    assert verdict.difference is not None and verdict.difference.element == "c[6, 0]"
    assert "c[6, 0] is 0.0, was (0.0 + (a[6, 0] * b[0, 0])" in text and len(text) < 900, text


def test_a_race_is_no_equal() -> None:
    def racing(kind: str) -> PrimFunc:
        x, out = Buffer("x", (6,), F), Buffer("out", (6,), F)
        again = loops("i", (5,), lambda i: store(out, i + 1, out[i] + x[i]), kind)  # type: ignore[arg-type]
        return PrimFunc("f", (x, out), 1, seq(loops("i", (6,), lambda i: store(out, i, x[i])), again))

    verdict = equivalent(racing("serial"), racing("parallel"))
    assert verdict.notion is UNKNOWN and "race" in verdict.reason, str(verdict)
    both = equivalent(racing("parallel"), racing("parallel"))
    assert both.notion is UNKNOWN and "itself traps" in both.reason


@pytest.mark.parametrize("kind", ["parallel", "vectorized"])
def test_a_race_of_stores_alone(kind: str) -> None:
    x, out = Buffer("x", (6,), F), Buffer("out", (3,), F)
    body = loops("i", (6,), lambda i: store(out, i // 2, x[i]), kind)  # type: ignore[arg-type]
    plain = loops("i", (6,), lambda i: store(out, i // 2, x[i]))
    verdict = equivalent(PrimFunc("f", (x, out), 1, plain), PrimFunc("f", (x, out), 1, body))
    assert verdict.notion is UNKNOWN and ("race" if kind == "parallel" else "touch one element") in verdict.reason
    assert verdict.witness is not None and "target traps" in verdict.witness.what
