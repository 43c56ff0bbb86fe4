"""What the vector interpreter shows before it runs: affine forms, bounds, initialisation, independence."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, strategies as st

from assay.interp.vector.blocks import Blocks, Loop, walk
from assay.interp.vector.building import build
from assay.interp.vector.regions import Regions, analyse
from assay.semantics.dtypes import FLOAT32, INT64
from assay.semantics.integers.affine import Affine, affine, decide
from assay.semantics.scalar import Expr, Var, apply, cast, const, evaluate
from assay.semantics.tensor import Allocate, Buffer, Evaluate, For, PrimFunc, Seq, Stmt, loops, seq, store, when
from tests.interp.programs import agree

X = Buffer("x", (40,), FLOAT32)
OUT = Buffer("out", (40,), FLOAT32)
GRID = Buffer("grid", (12, 12), FLOAT32)
TMP = Buffer("tmp", (8,), FLOAT32)
N = Buffer("n", (40,), INT64)
ONE = const(1, FLOAT32)


def shown(body: Stmt, outputs: tuple[Buffer, ...] = (OUT,)) -> tuple[Blocks, Regions]:
    blocks = build(PrimFunc("f", (X, N, *outputs), len(outputs), body), {})
    return blocks, analyse(blocks)


# --- affine forms ------------------------------------------------------------------------------------------------

VARS = (Var("i"), Var("j"), Var("k"))
TRIPS = (5, 4, 6)
RANGES = {v: (0, n - 1) for v, n in zip(VARS, TRIPS, strict=True)}


@st.composite
def indices(draw: st.DrawFn, depth: int = 0) -> Expr:
    """Index arithmetic as schedules make it."""
    if depth > 3 or draw(st.booleans()):
        return draw(st.sampled_from([*VARS, const(draw(st.integers(-3, 24)))]))
    op = draw(st.sampled_from(["add", "sub", "mul", "floordiv", "floormod", "truncdiv", "truncmod", "neg"]))
    a = draw(indices(depth + 1))
    if op == "neg":
        return -a
    if op in ("add", "sub"):
        return apply(op, a, draw(indices(depth + 1)))
    return apply(op, a, const(draw(st.sampled_from([1, 2, 3, 4, 6, 12, 20, 24]))))


def value_of(form: Affine, env: dict[Var, int]) -> int:
    total = form.constant
    for atom, factor in form.terms.items():
        total += factor * (env[atom] if isinstance(atom, Var) else value_of(atom.form, env) // atom.divisor)
    return total


@given(indices())
def test_a_form_is_its_expression(expr: Expr) -> None:
    form = affine(expr, RANGES)
    if form is None:
        return
    inside = form.interval(RANGES)
    assert inside is not None
    for place in np.ndindex(*TRIPS):
        env = dict(zip(VARS, place, strict=True))
        value = int(evaluate(expr, {v: np.int64(n) for v, n in env.items()}))
        assert value == value_of(form, env)
        assert inside[0] <= value <= inside[1]


@given(indices(), indices(), st.sampled_from(["lt", "le", "gt", "ge", "eq", "ne"]))
def test_a_decided_condition_holds_everywhere_or_nowhere(a: Expr, b: Expr, op: str) -> None:
    condition = apply(op, a, b)
    decided = decide(condition, RANGES)
    if decided is not None:
        for place in np.ndindex(*TRIPS):
            env = {v: np.int64(n) for v, n in zip(VARS, place, strict=True)}
            assert bool(evaluate(condition, env)) == decided


@pytest.mark.parametrize(
    ("expr", "simple"),
    [
        ((VARS[0] * 12 + VARS[1]) // 12, VARS[0] + 0),
        ((VARS[0] * 12 + VARS[1]) % 12, VARS[1] + 0),
        ((VARS[0] * 12 + VARS[1] * 3 + 2) // 3, VARS[0] * 4 + VARS[1]),
        ((VARS[0] * 24 + VARS[2] * 4 + VARS[1]) // 4 % 6, VARS[2] + 0),
        (VARS[0] // 2 // 3, VARS[0] // 6),
    ],
)
def test_quotients_that_arithmetic_removes(expr: Expr, simple: Expr) -> None:
    assert affine(expr, RANGES) == affine(simple, RANGES)


def test_quotients_that_it_does_not() -> None:
    """The rest may reach the divisor: k goes up to 5."""
    assert affine((VARS[0] * 5 + VARS[2]) // 5, RANGES) != affine(VARS[0] + 0, RANGES)
    assert affine((VARS[0] * 10 + VARS[2] * 2) // 10, RANGES) != affine(VARS[0] + 0, RANGES)
    assert affine((VARS[0] * 10 + VARS[2]) // 10, RANGES) == affine(VARS[0] + 0, RANGES)


@pytest.mark.parametrize("expr", [VARS[0] * VARS[1], N[VARS[0]], Var("unknown") + 1, apply("max", VARS[0], VARS[1])])
def test_expressions_without_a_form(expr: Expr) -> None:
    assert affine(expr, RANGES) is None


def test_a_form_that_could_wrap_is_none() -> None:
    big = Var("big")
    assert affine(big * 4, {big: (0, 2**61)}) is None
    assert affine(big * 4, {big: (0, 2**61 - 1)}) is not None


def test_a_condition_whose_other_side_may_trap_is_not_decided() -> None:
    always = VARS[0] < 100
    assert decide(apply("or", always, N[VARS[0]] < 0), RANGES) is None
    assert decide(apply("or", always, VARS[1] < 2), RANGES) is None
    assert decide(apply("or", always, VARS[1] < 9), RANGES) is True


# --- independence ------------------------------------------------------------------------------------------------


def over(body: Callable[[Expr], Stmt], count: int = 6) -> Stmt:
    return loops("v", (count,), body)


def nest(body: Callable[[Expr, Expr], Stmt], count: int = 3) -> Stmt:
    """A loop over v of 6 around one over u of `count`."""
    return loops("v u", (6, count), body)


INDEPENDENT: dict[str, Stmt] = {
    "each its own": over(lambda v: store(OUT, v, OUT[v] + 1.0)),
    "strided": over(lambda v: store(OUT, v * 5 + 2, X[v])),
    "backwards": over(lambda v: store(OUT, const(20) - v * 2, OUT[const(20) - v * 2])),
    "tiles that fit": nest(lambda v, u: store(OUT, v * 3 + u, OUT[v * 3] + 1.0)),
    "reads of another buffer": over(lambda v: store(OUT, v, X[const(5) - v] + X[0])),
    "halves": over(lambda v: store(OUT, v, OUT[v + 6])),
    "far apart": over(lambda v: store(OUT, v * 2, OUT[v * 2 + 1])),
    "one dimension is enough": over(lambda v: store(GRID, (3, v), GRID[5, v] + GRID[3, v])),
    "the other dimension tells them apart": nest(lambda v, u: store(GRID, (v, u), GRID[v, u + 1])),
    "own workspace": over(lambda v: Allocate(TMP, seq(store(TMP, 0, X[v]), store(OUT, v, TMP[0])))),
    "gathered in one dimension": over(lambda v: store(GRID, (N[v], v), ONE)),
    "nothing is written": over(lambda v: Evaluate(X[v])),
}
DEPENDENT: dict[str, Stmt] = {
    "one element": over(lambda v: store(OUT, 0, X[v])),
    "a sum": over(lambda v: store(OUT, 0, OUT[0] + X[v])),
    "the one before": over(lambda v: store(OUT, v + 1, OUT[v])),
    "tiles that overlap": nest(lambda v, u: store(OUT, v * 3 + u, X[v]), 4),
    "reads into the next tile": nest(lambda v, u: store(OUT, v * 3 + u, OUT[v * 3 + 3])),
    "crossing": over(lambda v: store(OUT, v, OUT[const(5) - v])),
    "halves that meet": over(lambda v: store(OUT, v, OUT[v + 5])),
    "scattered": over(lambda v: store(OUT, N[v], X[v])),
    "other strides": over(lambda v: store(OUT, v * 2, OUT[v * 3])),
    "workspace of all": Allocate(TMP, over(lambda v: seq(store(TMP, 0, X[v]), store(OUT, v, TMP[0])))),
    "an index of another loop": nest(lambda v, u: store(GRID, (u, 0), GRID[u, 0] + X[v])),
    "a read in a condition": over(lambda v: when(OUT[0] < X[v], store(OUT, v, X[v]))),
    "a read in an index": over(lambda v: store(OUT, v, X[cast(OUT[0], INT64)])),
    "a quotient": nest(lambda v, u: store(OUT, (v * 3 + u) // 2, X[v])),
}


@pytest.mark.parametrize("name", INDEPENDENT)
def test_loops_shown_independent(name: str) -> None:
    assert outer(INDEPENDENT[name]).independent


@pytest.mark.parametrize("name", DEPENDENT)
def test_loops_not_shown_independent(name: str) -> None:
    assert not outer(DEPENDENT[name]).independent


def outer(body: Stmt) -> Loop:
    blocks, _ = shown(body, (OUT, GRID))
    return next(i for i in walk(blocks.body) if isinstance(i, Loop))


def test_an_offset_of_an_outer_loop_must_be_the_same() -> None:
    """Rows t and t+1 of a grid: apart for the inner loop, whose rows are fixed; not if the column shifts with t."""
    t, v = Var("t"), Var("v")
    steady = For(t, const(5), For(v, const(6), store(GRID, (t + 1, v), GRID[t, v])))
    shift = For(t, const(5), For(v, const(6), store(GRID, (t, v + t), GRID[t, v])))
    for body, expected in ((steady, [False, True]), (shift, [True, False])):
        blocks, _ = shown(body, (OUT, GRID))
        assert [i.independent for i in walk(blocks.body) if isinstance(i, Loop)] == expected


# --- definite initialisation -------------------------------------------------------------------------------------


def fill(count: int, index: Callable[[Expr], Expr]) -> Stmt:
    return loops("f", (count,), lambda f: store(OUT, index(f), ONE))


WRITTEN: dict[str, Stmt] = {
    "whole": fill(40, lambda f: f),
    "backwards": fill(40, lambda f: const(39) - f),
    "two parts": seq(fill(15, lambda f: f), fill(25, lambda f: f + 15)),
    "parts in another order": seq(fill(10, lambda f: f + 30), fill(20, lambda f: f), fill(15, lambda f: f + 18)),
    "tiles": loops("f g", (10, 4), lambda f, g: store(OUT, f * 4 + g, ONE)),
    "tiles that overlap": loops("f g", (13, 4), lambda f, g: store(OUT, f * 3 + g, ONE)),
    "evens and odds in one loop": loops("f", (20,), lambda f: seq(store(OUT, f * 2, ONE), store(OUT, f * 2 + 1, ONE))),
    "in both branches": when(X[0] < 1.0, fill(40, lambda f: f), fill(40, lambda f: f)),
    "one loop taken apart": loops("f", (40,), lambda f: store(OUT, f // 4 * 4 + f % 4, ONE)),
}
NOT_WRITTEN: dict[str, Stmt] = {
    "one missing at the end": fill(39, lambda f: f),
    "one missing at the start": fill(39, lambda f: f + 1),
    "a gap": seq(fill(15, lambda f: f), fill(24, lambda f: f + 16)),
    "tiles with holes": loops("f g", (10, 3), lambda f, g: store(OUT, f * 4 + g, ONE)),
    "only evens": fill(20, lambda f: f * 2),
    "evens and the last": seq(fill(20, lambda f: f * 2), store(OUT, 39, ONE)),
    "in one branch": when(X[0] < 1.0, fill(40, lambda f: f)),
    "less in one branch": when(X[0] < 1.0, fill(40, lambda f: f), fill(39, lambda f: f)),
    "by index": fill(40, lambda f: N[f]),
    "in a loop that may not run": For(Var("t"), N[0], fill(40, lambda f: f)),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_outputs_shown_written(name: str) -> None:
    assert not shown(WRITTEN[name])[1].shadowed


@pytest.mark.parametrize("name", NOT_WRITTEN)
def test_outputs_not_shown_written(name: str) -> None:
    blocks, regions = shown(NOT_WRITTEN[name])
    assert regions.shadowed == set(blocks.outputs)


def reads(write: Stmt, read: Stmt) -> bool:
    """Whether the reads of a workspace after a write are shown to be of what was written."""
    _, regions = shown(Seq((fill(40, lambda f: f), Allocate(TMP, seq(write, read)))))
    return not regions.shadowed


def test_reads_of_what_was_written() -> None:
    part = loops("f", (6,), lambda f: store(TMP, f + 1, ONE))
    assert reads(part, loops("r", (6,), lambda r: Evaluate(TMP[r + 1])))
    assert reads(part, loops("r", (3,), lambda r: Evaluate(TMP[const(6) - r * 2])))
    assert not reads(part, loops("r", (6,), lambda r: Evaluate(TMP[r])))
    assert not reads(part, loops("r", (6,), lambda r: Evaluate(TMP[r + 2])))
    assert not reads(part, Evaluate(TMP[7]))


def test_a_workspace_is_unwritten_each_time_that_it_begins() -> None:
    once = Allocate(TMP, seq(store(TMP, 0, ONE), Evaluate(TMP[0])))
    again = For(Var("t"), const(3), Allocate(TMP, seq(when(X[0] < 0.0, store(TMP, 0, ONE)), Evaluate(TMP[0]))))
    twice = For(Var("t"), const(3), seq(Allocate(TMP, store(TMP, 0, ONE)), Allocate(TMP, Evaluate(TMP[0]))))
    whole = fill(40, lambda f: f)
    assert not shown(seq(whole, once))[1].shadowed
    assert shown(seq(whole, again))[1].shadowed
    assert shown(seq(whole, twice))[1].shadowed


def test_what_an_earlier_iteration_wrote_is_checked_on_the_run() -> None:
    carry = loops("v", (39,), lambda v: store(OUT, v + 1, OUT[v]))
    assert shown(seq(store(OUT, 0, ONE), carry))[1].shadowed
    out = Buffer("out", (40,), FLOAT32)
    later = loops("v", (39,), lambda v: store(out, v + 1, out[v]))
    got = agree(PrimFunc("f", (out,), 1, seq(store(out, 0, ONE), later)), [], planned=True)
    assert not isinstance(got[0], str)
    got = agree(PrimFunc("f", (out,), 1, seq(store(out, 1, ONE), later)), [], planned=True)
    assert got[0] == "unwritten read"
