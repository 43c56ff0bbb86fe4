"""Each kind of goal where it holds and where it just does not; what is too much to ask; replays of counterexamples."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.semantics.dtypes import BOOL, DTYPES, INT32, INT64
from assay.semantics.errors import Invalid
from assay.semantics.scalar import Expr, Var, apply, cast, choice, const
from assay.semantics.tensor import (
    Alias,
    Allocate,
    AllocateConst,
    Assert,
    Block,
    Buffer,
    Call,
    Evaluate,
    For,
    IterVar,
    LetStmt,
    PrimFunc,
    Region,
    Stmt,
    View,
    While,
    loops,
    seq,
    store,
    when,
)
from assay.verify.symbolic import (
    ProofReport,
    command,
    initialisation,
    prove_accesses,
    races,
    replay as module_of_replay,
)
from assay.verify.symbolic.events import events_of
from assay.verify.symbolic.goals import TRAPS
from assay.verify.symbolic.replay import leaves_dtype, replay_counterexample
from tests.museum.symbolic_functions import F, K, M, N, func

ZERO = const(0, F)


def over(value: Callable[[Expr, Buffer], Expr], size: Any = N, of: Any = F) -> PrimFunc:
    """out[i] = value(i, x)."""
    x, out = Buffer("x", (size,), of), Buffer("out", (size,), of)
    return func("over", loops("i", (size,), lambda i: store(out, i, value(i, x))), x, out)


def block(start: int = 0, value: int = 0, stop: int = 1, reads: int = 2, predicate: bool = True) -> PrimFunc:
    """A block over 1, ..., n - 1 that reads two neighbours, as it says."""
    x, out = Buffer("x", (N,), F), Buffer("out", (N - 1,), F)
    v, i = Var("v"), Var("i")
    iterators = (IterVar(v, "spatial", N - stop, i + value, start=const(1 + start)),)
    region = Region(x, (v - 1,), (v + (reads - 1),))
    body = store(out, v - 1, x[v - 1] + x[v])
    inner = Block(
        "pairs", iterators, body, None, i < N if predicate else None, (region,), (Region(out, (v - 1,), (None,)),)
    )
    return func(
        "block", For(i, N, inner, start=const(1)) if predicate else For(i, N - 1, inner, start=const(1)), x, out
    )


def view(scope: str = "global", constant: bool = False) -> PrimFunc:
    x, out = Buffer("x", (N,), F), Buffer("out", (N,), F)
    part = Buffer("part", (N,), F, scope)
    body = loops("i", (N,), lambda i: store(part, i, x[i]))
    return func("view", Alias(View(part, out, const(0), (const(1),), constant=constant), body), x, out)


def lookup(size: int = 4) -> PrimFunc:
    """The elements of a constant say where: 0 to 3."""
    x, out, table = Buffer("x", (size,), F), Buffer("out", (N,), F), Buffer("table", (4,), INT64)
    body = loops("i", (N,), lambda i: store(out, i, x[table[i % 4]]))
    return func("lookup", AllocateConst(table, np.array([3, 0, 2, 1]), body), x, Buffer("like", (N,), F), out)


def other_branch(last: int = 1) -> PrimFunc:
    """Right because of what does not hold in the other branch."""
    return over(lambda i, x: choice(i >= N - last, x[i], x[i + 1]))


def branches(last: int = 1) -> PrimFunc:
    x, out = Buffer("x", (N,), F), Buffer("out", (N,), F)
    body = loops("i", (N,), lambda i: when(i >= N - last, store(out, i, x[i]), store(out, i, x[i + 1])))
    return func("branches", body, x, out)


def in_while(far: int = 0) -> PrimFunc:
    x, out, more = Buffer("x", (N,), F), Buffer("out", (N,), F), Buffer("more", (), BOOL)
    inner = loops("j", (N - 1,), lambda j: store(out, j, x[j + 1 + far]))
    body = seq(store(more, (), const(True, BOOL)), While(more[()], seq(inner, store(more, (), const(False, BOOL)))))
    return func("in_while", seq(loops("i", (N,), lambda i: store(out, i, ZERO)), Allocate(more, body)), x, out)


def from_start(start: int = 1, twice: bool = False, kind: Any = "parallel") -> PrimFunc:
    """A loop that starts at 1: iterations apart, or each beside the next."""
    x, out = Buffer("x", (N,), F), Buffer("out", (N + 1,), F)
    i = Var("i")
    head = loops("j", (N + 1,), lambda j: store(out, j, ZERO))
    body = seq(store(out, i, x[i - 1]), *([store(out, i - 1, x[i - 1])] if twice else []))
    return func("from_start", seq(head, For(i, N, body, kind, start=const(start))), x, out)


def read_beside(kind: Any, ahead: int = 0) -> PrimFunc:
    """Each iteration reads what another writes."""
    x, out, line = Buffer("x", (N,), F), Buffer("out", (N,), F), Buffer("line", (N + 1,), F)
    fill = loops("j", (N + 1,), lambda j: store(line, j, ZERO))
    body = loops("i", (N,), lambda i: seq(store(line, i, x[i]), store(out, i, line[i + ahead])), kind)
    return func("read_beside", Allocate(line, seq(fill, body)), x, out)


def assumed(strict: bool = True) -> PrimFunc:
    """Held by an assert, in a name."""
    x, out, at = Buffer("x", (N,), F), Buffer("out", (M,), F), Var("at")
    move = loops("i", (M,), lambda i: LetStmt(at, i + K, store(out, i, x[at])))
    check = Assert(apply("and", K >= 0, M + K <= N if strict else M + K <= N + 1), "fits")
    return func("assumed", seq(check, move), x, Buffer("y", (K,), F), Buffer("like", (M,), F), out)


def flagged(otherwise: bool = True) -> PrimFunc:
    """Written on both sides of a flag that is given."""
    x, out, flag = Buffer("x", (N,), F), Buffer("out", (N,), F), Var("flag", BOOL)
    first, second = (loops(v, (N,), lambda i: store(out, i, x[i])) for v in "ij")
    return PrimFunc("flagged", (x, out), 1, when(flag, first, second if otherwise else None), scalars=(flag,))


def carried(first: int = 1) -> PrimFunc:
    """What the iteration before left; the first one starts it."""
    x, out, kept = Buffer("x", (N,), F), Buffer("out", (N,), F), Buffer("kept", (1,), F)
    body = loops(
        "i", (N,), lambda i: seq(when(i < first, store(kept, 0, ZERO)), store(out, i, kept[0]), store(kept, 0, x[i]))
    )
    return func("carried", Allocate(kept, body), x, out)


def turned(last: int = 1, width: int = 4) -> PrimFunc:
    """Rows from the last to the first, by their place."""
    x, out = Buffer("x", (4 * N,), F), Buffer("out", (4 * N,), F)
    return func(
        "turned",
        loops("i j", (N, width), lambda i, j: store(out, (N - last) * 4 - i * 4 + j, x[i * 4 + j]), "parallel"),
        x,
        Buffer("like", (N,), F),
        out,
    )


def minus(last: int = 1) -> PrimFunc:
    x, out = Buffer("x", (N,), F), Buffer("out", (N,), F)
    return func("minus", loops("i", (N,), lambda i: store(out, -(i - (N - last)), x[i]), "parallel"), x, out)


def seen_twice(rows: int = 2, far: int = 0) -> PrimFunc:
    """A view of rows of a view of all, each with two dims."""
    x, out = Buffer("x", (N, 6), F), Buffer("out", (N, 6), F)
    pairs, part = Buffer("pairs", (N, 3, 2), F), Buffer("part", (N, 3, 2), F)
    body = loops("i j k", (N, 3, rows), lambda i, j, k: store(part, (i, j, k), x[i, j * 2 + k]), "parallel")
    steps = (const(6), const(2), const(1))
    inner = Alias(View(part, pairs, const(far), steps), body)
    return func("seen_twice", Alias(View(pairs, out, const(0), steps), inner), x, out)


def halves_of(steps: tuple[int, int] = (4, 1)) -> PrimFunc:
    """The lower half through a view, the upper half not: through a view that is turned, the upper half twice."""
    x, out, part = Buffer("x", (4, 4), F), Buffer("out", (4, 4), F), Buffer("part", (4, 4), F)
    lower = loops("i j", (4, 4), lambda i, j: when(j <= i, store(part, (i, j), x[i, j])))
    upper = loops("p q", (4, 4), lambda p, q: when(p < q, store(out, (p, q), x[p, q])))
    return func("halves_of", seq(Alias(View(part, out, const(0), tuple(map(const, steps))), lower), upper), x, out)


def lanes(start: int = 1, ahead: int = 0) -> PrimFunc:
    """A loop inside of lanes: all take each of its steps at once, from where it starts."""
    x, out, i, j = Buffer("x", (N, 4), F), Buffer("out", (N, 4), F), Var("i"), Var("j")
    line = Buffer("line", (N + 1, 4), F)
    fill = loops("p q", (N + 1, 4), lambda p, q: store(line, (p, q), ZERO))
    inner = For(
        j, const(3), seq(store(line, (i, j), x[i, j]), store(out, (i, j), line[i + ahead, j - start])), start=const(1)
    )
    head = loops("p q", (N, 4), lambda p, q: store(out, (p, q), ZERO))
    return func("lanes", Allocate(line, seq(fill, head, For(i, N, inner, "vectorized"))), x, out)


def left_out(everywhere: bool = False) -> PrimFunc:
    """The same element twice in one statement: where it is written, and everywhere."""
    x, out, line = Buffer("x", (N,), F), Buffer("out", (N,), F), Buffer("line", (N,), F)

    def step(i: Expr) -> Stmt:
        wanted = choice(i < K, line[i], ZERO)
        return store(out, i, wanted + line[i] if everywhere else wanted + choice(i < K, line[i], ZERO))

    fill = loops("j", (N,), lambda j: when(j < K, store(line, j, x[j])))
    return func("left_out", Allocate(line, seq(fill, loops("i", (N,), step))), x, Buffer("like", (K,), F), out)


NEAR: dict[str, tuple[Callable[..., PrimFunc], dict[str, Any], str, dict[str, Any]]] = {
    "a block's iterator above": (block, {"value": 1}, "in domain", {}),
    "a block's iterator below": (block, {"start": 1}, "in domain", {}),
    "a block's extent": (block, {"stop": 2}, "in domain", {}),
    "a block without its predicate": (lambda on=True: block(predicate=on), {}, "", {"n": (1, None)}),
    "a block's region": (block, {"reads": 1}, "in region", {}),
    "a view in another memory": (view, {"scope": "shared"}, "own memory", {}),
    "a store through a constant view": (view, {"constant": True}, "writable", {}),
    "indices in a constant": (lookup, {"size": 3}, "in bounds", {}),
    "the other side of a choice": (other_branch, {"last": 0}, "in bounds", {}),
    "the other branch": (branches, {"last": 0}, "in bounds", {}),
    "inside a while loop": (in_while, {"far": 1}, "in bounds", {"n": (1, None)}),
    "a loop from 1": (from_start, {"start": 2}, "in bounds", {}),
    "two iterations write one element": (from_start, {"twice": True}, "independent", {}),
    "an iteration reads the next one's": (
        lambda ahead=0: read_beside("parallel", ahead),
        {"ahead": 1},
        "independent",
        {},
    ),
    "lanes read the last one's": (lambda ahead=0: read_beside("vectorized", ahead), {"ahead": 1}, "side by side", {}),
    "without the other side of a flag": (flagged, {"otherwise": False}, "output written", {}),
    "what the iteration before left": (carried, {"first": 0}, "written before", {}),
    "what a choice leaves out": (left_out, {"everywhere": True}, "written before", {}),
    "rows from the last": (turned, {"last": 0}, "in bounds", {}),
    "rows from the last, one column short": (turned, {"width": 3}, "output written", {}),
    "elements from the last": (minus, {"last": 0}, "in bounds", {}),
    "a view of a view": (seen_twice, {"rows": 1}, "output written", {}),
    "a view of a view, one further": (seen_twice, {"far": 1}, "in bounds", {}),
    "a view that is turned": (halves_of, {"steps": (1, 4)}, "output written", {}),
    "lanes with a loop, the last one's step before": (lanes, {"ahead": 1}, "side by side", {}),
    "an assert": (assumed, {"strict": False}, "in bounds", {}),
}


@pytest.mark.parametrize("name", NEAR)
def test_each_goal_where_it_holds_and_where_it_just_does_not(name: str) -> None:
    make, fault, kind, bounds = NEAR[name]
    right = prove_accesses(make(), bounds)
    assert right.verdict == "proved", [(g.kind, g.claim, g.detail) for g in right.goals if g.verdict != "proved"]
    if not fault:
        return
    wrong = prove_accesses(make(**fault), bounds)
    kinds = {g.kind for g in wrong.of("refuted")}
    assert kind in kinds, [(g.kind, g.verdict, g.claim, g.detail) for g in wrong.goals if g.verdict != "proved"]
    found = next(g for g in wrong.of("refuted") if g.kind == kind)
    assert f"trap ({TRAPS[found.kind]})" in found.detail


def test_a_function_that_is_called_writes_a_constant() -> None:
    x, out, table = Buffer("x", (4,), F), Buffer("out", (4,), F), Buffer("table", (4,), F)
    a, b = Buffer("a", (4,), F), Buffer("b", (4,), F)
    inner = func("inner", loops("i", (4,), lambda i: store(b, i, a[i])), a, b)
    for first, second in ((table, out), (x, table)):
        body = AllocateConst(table, np.arange(4, dtype=np.float32), Call("inner", (first, second)))
        made = func(
            "outer", seq(body, *([] if second is out else [loops("i", (4,), lambda i: store(out, i, x[i]))])), x, out
        )
        report = prove_accesses(made, functions={"inner": inner})
        assert {g.kind for g in report.of("refuted")} == (set() if second is out else {"writable"})
        assert (report.verdict == "proved") == (second is out)


# --- arithmetic -----------------------------------------------------------------------------------------------------

LIMITS: dict[str, tuple[Callable[[], PrimFunc], str, dict[str, Any], dict[str, Any]]] = {
    "shifted by 63": (lambda: over(lambda i, x: apply("shl", x[i], i), of=INT64), "shift", {"n": (0, 64)},
        {"n": (0, 65)}),
    "shifted by less than 0": (
        lambda: over(lambda i, x: apply("shr", x[i], i - (N - 2)), of=INT64), "shift", {"n": (0, 2)}, {"n": (0, 3)}
    ),
    "divided by a size": (lambda: over(lambda i, x: x[i] // (N - 3), of=INT64), "no division by zero",
        {"n": (4, None)}, {"n": (3, None)}),
    "divided where it is not 0": (
        lambda: over(lambda i, x: choice(apply("ne", i, K), x[i] // (i - K), x[i]), K + N, INT64), "", {}, {}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LIMITS)
def test_arithmetic_up_to_its_limits(name: str) -> None:
    make, kind, fits, beyond = LIMITS[name]
    report = prove_accesses(make(), fits)
    assert report.verdict == "proved", [(g.kind, g.claim, g.detail) for g in report.goals if g.verdict != "proved"]
    if kind:
        assert {g.kind for g in prove_accesses(make(), beyond).of("refuted")} == {kind}


def test_casts_of_floats_are_left_to_the_run() -> None:
    x, out = Buffer("x", (N,), F), Buffer("out", (N,), INT32)
    report = prove_accesses(func("casts", loops("i", (N,), lambda i: store(out, i, cast(x[i], INT32))), x, out))
    (goal,) = report.of("unknown")
    assert (goal.kind, goal.claim) == ("cast", "x[i] fits int32") and "depends on the values of floats" in goal.detail


@pytest.mark.parametrize(("start", "most"), [(None, 2**31), (5, 2**31 - 5)])
def test_a_loop_variable_that_may_wrap_leaves_everything_open(start: int | None, most: int) -> None:
    """Up to the greatest number of its dtype it is proved; one more, and nothing is believed."""
    x, out, i = Buffer("x", (N,), F), Buffer("out", (N,), F), Var("i", INT32)
    body = store(out, cast(i, INT64) - (start or 0), x[cast(i, INT64) - (start or 0)])
    made = func("narrow", For(i, N, body, start=None if start is None else const(start)), x, out)
    assert prove_accesses(made, {"n": (0, most)}).verdict == "proved"
    report = prove_accesses(made, {"n": (0, most + 1)})
    assert report.verdict == "unknown" and not report.of("proved")
    assert "the variable of the loop over i may wrap around" in "".join(g.detail for g in report.goals)


def test_bounds_that_nothing_is_within_are_refused() -> None:
    with pytest.raises(Invalid, match="no sizes of over are within these bounds") as caught:
        prove_accesses(over(lambda i, x: x[i]), {"n": (5, 4)})
    assert caught.value.label == "symbolic.C1"
    assert prove_accesses(over(lambda i, x: x[i]), {"n": (4, 4)}).verdict == "proved"


# --- what is too much -----------------------------------------------------------------------------------------------


def unknown(report: ProofReport, words: str) -> set[str]:
    return {g.kind for g in report.of("unknown") if words in g.detail}


def test_what_is_too_much_is_left_to_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    x, out, line = Buffer("x", (N,), F), Buffer("out", (N,), F), Buffer("line", (N,), F)
    twice = loops(
        "i",
        (N,),
        lambda i: seq(store(line, i, x[i]), store(line, i, line[i] + 1.0), store(out, i, line[i])),
        "parallel",
    )
    made = func("twice", Allocate(line, twice), x, out)
    assert prove_accesses(made).verdict == "proved"
    monkeypatch.setattr(initialisation, "MOST_READS", 1)
    assert unknown(prove_accesses(made), "too many reads") == {"written before"}
    monkeypatch.setattr(initialisation, "MOST_READS", 2)
    assert prove_accesses(made).verdict == "proved"
    several = func("several", seq(*(store(out, k, ZERO) for k in range(3))), x, out)
    assert prove_accesses(several, {"n": (3, 3)}).verdict == "proved"
    monkeypatch.setattr(initialisation, "MOST_WRITES", 2)
    assert unknown(prove_accesses(several, {"n": (3, 3)}), "3 writes of out") == {"output written"}
    monkeypatch.setattr(races, "MOST_PAIRS", 1)
    assert unknown(prove_accesses(made), "pairs of accesses") == {"independent"}


# --- replays --------------------------------------------------------------------------------------------------------


def answered(
    made: PrimFunc, kind: Any, about: Any = ("x",), n: int = 4, element: Any = lambda b, at: None
) -> tuple[bool, str]:
    found = replay_counterexample(made, kind, {N: np.int64(n)}, element, {}, about)
    return found.confirmed, found.detail


def test_a_run_confirms_only_what_the_goal_is_about(monkeypatch: pytest.MonkeyPatch) -> None:
    far = over(lambda i, x: x[i + 1])
    assert (
        answered(far, "in bounds") == (True, answered(far, "in bounds", ())[1])
        and "out of bounds" in answered(far, "in bounds")[1]
    )
    assert answered(far, "in bounds", ("out",)) == (False, answered(far, "shift")[1]), "another buffer"
    assert "the run ends otherwise, with" in answered(far, "shift")[1] and answered(far, "shift")[1].endswith(
        "at n = 4"
    )
    assert answered(over(lambda i, x: x[i]), "in bounds") == (False, "the run ends well, at n = 4")
    assert answered(far, "in bounds", n=2_000_000) == (False, "too large to run: n = 2000000")
    assert answered(over(lambda i, x: x[i], N - 5), "in bounds")[0] is False
    slow = func(
        "slow", loops("i j", (N, N), lambda i, j: Evaluate(i + j)), Buffer("x", (N,), F), Buffer("out", (N,), F)
    )
    monkeypatch.setattr(module_of_replay, "MOST_STATEMENTS", 20)
    assert answered(slow, "output written", ())[0] and answered(slow, "output written", n=5) == (
        False,
        "more than 20 statements to run: n = 5",
    )


@pytest.mark.parametrize(("value", "confirmed"), [(3, True), (-1, True), (0, False), (2, False), (None, False)])
def test_a_run_is_on_the_values_of_the_counterexample(value: int | None, confirmed: bool) -> None:
    """Where it has none, on zeros and then on ones."""
    x, out = Buffer("x", (N,), INT64), Buffer("out", (3,), INT64)
    made = func("gather", seq(store(out, x[1], 1), *(store(out, k, k) for k in range(3))), x, out)
    assert answered(made, "in bounds", ("out",), 2, lambda b, at: value if at == (1,) else None)[0] is confirmed
    ones = func(
        "ones", seq(*(store(out, k, k) for k in range(3)), when(apply("eq", x[0], 1), store(out, 3, 1))), x, out
    )
    assert answered(ones, "in bounds", ("out",), 2)[0]


def the_store(made: PrimFunc) -> Any:
    """The site of the one store."""
    return next(a.site for a in events_of(made, {}).accesses if a.write)


WIDE: dict[str, tuple[Callable[[Expr, Expr], Expr], int, int, int | None]] = {
    "a product": (lambda a, b: a * b, 50_000, 50_000, 2_500_000_000),
    "a product that fits": (lambda a, b: a * b, 50_000, 40_000, None),
    "a sum": (lambda a, b: a + b, 2**31 - 1, 1, 2**31),
    "a difference": (lambda a, b: a - b, -(2**31), 1, -(2**31) - 1),
    "a sum that just fits": (lambda a, b: a + b, 2**31 - 2, 1, None),
    "a difference that just fits": (lambda a, b: a - b, -(2**31) + 1, 1, None),
    "a shift": (lambda a, b: apply("shl", a, b), 3, 30, 3 << 30),
    "a magnitude": (lambda a, b: apply("abs", a), -(2**31), 0, 2**31),
    "a quotient": (lambda a, b: a // b, -(2**31), -1, 2**31),
    "a quotient by another number": (lambda a, b: a // b, -(2**31), -2, None),
    "a cast": (lambda a, b: cast(a, DTYPES["int8"]), 128, 0, 128),
    "a cast that fits": (lambda a, b: cast(a, DTYPES["int8"]), -128, 0, None),
}


@pytest.mark.parametrize("name", WIDE)
def test_what_a_step_would_be_without_its_dtype(name: str) -> None:
    step, a, b, exact = WIDE[name]
    s, t = Var("s", INT32), Var("t", INT32)
    value = step(s, t)
    out = Buffer("out", (1,), value.dtype)
    site = the_store(PrimFunc("f", (out,), 1, store(out, 0, value), scalars=(s, t)))
    found = leaves_dtype(site, value, {s: np.int32(a), t: np.int32(b)})
    assert found.confirmed == (exact is not None), found.detail
    if exact is not None:
        assert f"is {exact}, which {value.dtype} takes for " in found.detail


def test_a_step_that_is_not_reached_leaves_nothing() -> None:
    s = Var("s", INT32)
    x, out = Buffer("x", (1,), INT32), Buffer("out", (1,), INT32)
    far = s * s
    i = Var("i", INT32)

    def said(body: Stmt, **values: int) -> str:
        site = the_store(PrimFunc("f", (x, out), 1, body, scalars=(s,)))
        env = {s: np.int32(values.get("s", 50_000)), i: np.int32(values.get("i", 0))}
        return leaves_dtype(site, far, env).detail

    use = store(out, 0, far)
    assert "takes for" in said(use) and "takes for" in said(when(s > 0, use))
    assert said(when(s < 0, use)) == "a condition does not hold there"
    assert said(For(i, const(3, INT32), use), i=3) == "the loops do not get there" and "takes for" in said(
        For(i, const(3, INT32), use), i=2
    )
    shifted = For(i, const(3, INT32), use, start=const(2, INT32))
    assert said(shifted, i=1) == said(shifted, i=5) == "the loops do not get there" and "takes for" in said(
        shifted, i=4
    )
    assert said(when(x[0] > 0, use)) == "it depends on the values of elements"
    assert said(LetStmt(Var("v", INT32), x[0], use)) == "it depends on the values of elements"
    assert said(While(s > 0, use)) == "it is inside a while loop"
    assert said(store(out, 0, choice(s < 0, far, s))) == "the step is not reached there"
    assert "takes for" in said(store(out, 0, choice(s > 0, far, s)))
    assert "takes for" in said(store(out, 0, choice(far > 0, s, s))), "a condition is evaluated"
    assert said(store(out, 0, choice(x[0] > 0, far, s))) == "the step is not reached there", "for all that is known"
    assert said(use, s=40_000) == "(s * s) stays in int32"


def test_what_was_kept_of_a_proof_must_have_its_query(tmp_path: Path) -> None:
    report = prove_accesses(over(lambda i, x: x[i]))
    command.write_queries(tmp_path, [report])
    assert command.recheck_queries(tmp_path) == []
    manifest = tmp_path / command.MANIFEST
    data = json.loads(manifest.read_text("utf-8"))
    row = data["goals"][0]
    del row["query"]
    manifest.write_text(json.dumps(data), "utf-8")
    assert command.recheck_queries(tmp_path) == [f"{row['claim']}: proved without a query"]
    row["verdict"] = "unknown"
    manifest.write_text(json.dumps(data), "utf-8")
    assert command.recheck_queries(tmp_path) == []
    data["goals"][1]["verdict"] = "refuted"
    manifest.write_text(json.dumps(data), "utf-8")
    assert len(command.recheck_queries(tmp_path)) == 1
