"""Equivalence of tensor functions: data in conditions and indices, and the rest of the language."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from assay.semantics.dtypes import BOOL, INT32, INT64
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.scalar import Expr, Var, apply, choice, const, select
from assay.semantics.tensor import (
    Allocate,
    AllocateConst,
    Assert,
    Buffer,
    Evaluate,
    For,
    LetStmt,
    LoopKind,
    PrimFunc,
    Stmt,
    While,
    loops,
    seq,
    store,
    when,
)
from assay.verify.equivalence import BIT_EXACT, REAL, UNKNOWN, Equivalence, equivalent
from tests.verify.equivalence.test_equivalence import FAULTS, F, binary, from_the_end, matmul, tiled, unary

# --- data in conditions and indices ------------------------------------------------------------------------------


def where(then: Callable[[Buffer, Buffer, Expr], Stmt]) -> PrimFunc:
    c, x, out = Buffer("c", (6,), BOOL), Buffer("x", (6,), F), Buffer("out", (6,), F)
    body = loops("i", (6,), lambda i: seq(store(out, i, x[i] * 2.0), when(c[i], then(x, out, i))))
    return PrimFunc("where", (c, x, out), 1, body)


def test_branches_on_data_are_terms() -> None:
    by_branch = where(lambda x, out, i: store(out, i, out[i] + 1.0))
    by_select = where(lambda x, out, i: store(out, i, x[i] * 2.0 + 1.0))
    assert equivalent(by_branch, by_select).notion is BIT_EXACT
    other = where(lambda x, out, i: store(out, i, x[i] * 2.0 + 2.0))
    assert equivalent(by_branch, other).witness is not None


def take(negative: bool, safe: bool = True) -> PrimFunc:
    x, index, out = Buffer("x", (6, 3), F), Buffer("index", (4,), INT64), Buffer("out", (4, 3), F)

    def element(i: Expr, j: Expr) -> Stmt:
        at: Expr = apply("floormod", index[i], 6) if safe else index[i]
        return store(out, (i, j), -x[at, j] if negative else x[at, j])

    return PrimFunc("take", (x, index, out), 1, loops("i j", (4, 3), element))


def test_gathers_are_terms() -> None:
    assert equivalent(take(False), take(False)).notion is BIT_EXACT
    assert equivalent(take(False), take(True)).witness is not None
    worse = equivalent(take(False), take(False, safe=False))
    assert worse.notion is UNKNOWN and "may trap" in worse.reason, str(worse)


def test_what_may_trap_anew_is_said() -> None:
    safe = binary(lambda a, b: select(apply("ne", b, 0), a, b), INT32)
    divides = binary(lambda a, b: a // b, INT32)
    hidden = binary(lambda a, b: choice(apply("ne", b, 0), a // b, b), INT32)
    assert "may trap" in equivalent(safe, binary(lambda a, b: select(apply("ne", b, 0), a // b, b), INT32)).reason
    assert equivalent(hidden, hidden).notion is BIT_EXACT
    by_words = equivalent(divides, divides, method="words")
    assert by_words.notion is UNKNOWN and "may trap" in by_words.reason, "words know nothing of traps"
    assert equivalent(divides, binary(lambda a, b: choice(apply("ne", b, 0), a // b, b), INT32)).notion is UNKNOWN


def test_written_only_under_a_condition() -> None:
    c, x, out, t = Buffer("c", (6,), BOOL), Buffer("x", (6,), F), Buffer("out", (6,), F), Buffer("t", (), F)

    def func(guard: bool) -> PrimFunc:
        def element(i: Expr) -> Stmt:
            use = store(out, i, t[()])
            return seq(
                store(out, i, 0.0), Allocate(t, seq(when(c[i], store(t, (), x[i])), when(c[i], use) if guard else use))
            )

        return PrimFunc("f", (c, x, out), 1, loops("i", (6,), element))

    assert equivalent(func(True), func(True)).notion is BIT_EXACT
    worse = equivalent(func(True), func(False))
    assert worse.notion is UNKNOWN and worse.witness is not None and "target traps" in str(worse.witness)


def undecidable(body: Callable[[Buffer, Buffer, Buffer], Stmt]) -> PrimFunc:
    n, x, out = Buffer("n", (6,), INT64), Buffer("x", (6,), F), Buffer("out", (6,), F)
    return PrimFunc("f", (n, x, out), 1, seq(loops("i", (6,), lambda i: store(out, i, x[i])), body(n, x, out)))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (lambda n, x, out: loops("i", (6,), lambda i: store(out, apply("floormod", n[i], 6), x[i])), "depends on data"),
        (lambda n, x, out: For(Var("i"), apply("min", n[0], 6), store(out, 0, x[1])), "depends on data"),
        (lambda n, x, out: While(n[0] < 0, store(out, 0, x[1])), "depends on data"),
        (
            lambda n, x, out: loops("i", (6,), lambda i: store(out, i, out[apply("floormod", n[i], 6)])),
            "depends on data",
        ),
    ],
)
def test_what_depends_on_data_is_unknown(body: Callable[[Buffer, Buffer, Buffer], Stmt], reason: str) -> None:
    """Never said to be equal, and not wrong either: a function and itself."""
    func = undecidable(body)
    verdict = equivalent(func, func)
    assert verdict.notion is UNKNOWN and reason in verdict.reason and verdict.witness is None


# --- the rest of the language ------------------------------------------------------------------------------------


def test_every_statement() -> None:
    def func(flip: bool) -> PrimFunc:
        x, out, lut = Buffer("x", (4,), F), Buffer("out", (4,), F), Buffer("lut", (4,), INT64)
        i, v = Var("i"), Var("v", F)
        inner = LetStmt(
            v, x[lut[i]] * 2.0, seq(Evaluate(v + 1.0), Assert(x[i] < 3.0, "small"), store(out, i, -v if flip else v))
        )
        table = np.array([2, 0, 3, 1])
        return PrimFunc("f", (x, out), 1, AllocateConst(lut, table, For(i, const(4), inner)))

    assert equivalent(func(False), func(False)).notion is BIT_EXACT
    assert equivalent(func(False), func(True)).witness is not None


def test_scalars_and_symbolic_sizes() -> None:
    n, s = Var("n"), Var("s", F)

    def func(scale: Expr, size: Var) -> PrimFunc:
        x, out = Buffer("x", (size,), F), Buffer("out", (size,), F)
        scalar = Var("s", F)
        by = {s: scalar}.get(s, scalar) if scale is s else scale
        return PrimFunc("f", (x, out), 1, loops("i", (size,), lambda i: store(out, i, x[i] * by)), scalars=(scalar,))

    assert equivalent(func(s, n), func(s, Var("n")), {"n": 5}).notion is BIT_EXACT
    verdict = equivalent(func(s, n), func(const(2.0, F), n), {"n": 5})
    assert verdict.notion is UNKNOWN and verdict.witness is not None
    with pytest.raises(Invalid, match=r"equivalence\.C2"):
        equivalent(func(s, n), func(s, n))


def test_a_scalar_is_the_same_one_in_both() -> None:
    """Scalars are handed over by place: a number by name is of both functions only where it stands at one place."""
    out, s, t = Buffer("out", (1,), INT64), Var("s", INT64), Var("t", INT64)
    first = PrimFunc("first", (out,), 1, store(out, 0, s), scalars=(s, t))
    second = PrimFunc("second", (out,), 1, store(out, 0, s), scalars=(t, s))
    assert equivalent(first, second).notion is UNKNOWN
    with pytest.raises(Invalid, match="at different places"):
        equivalent(first, second, {"s": 3})


@pytest.mark.parametrize("size", [-1, 2.5, "many", 1 << 70, None])
def test_sizes_must_be_sizes(size: object) -> None:
    n = Var("n")
    x, out = Buffer("x", (n,), F), Buffer("out", (n,), F)
    func = PrimFunc("f", (x, out), 1, loops("i", (n,), lambda i: store(out, i, x[i])))
    with pytest.raises(Invalid, match=r"equivalence\.C2"):
        equivalent(func, func, {"n": size})


@pytest.mark.parametrize("inside", [False, True])
def test_sizes_that_no_memory_holds_are_refused_first(inside: bool) -> None:
    n = Var("n")
    x, out, t = Buffer("x", (n,), F), Buffer("out", (n,), F), Buffer("t", (n * 1_000_000_000,), F)
    body = loops("i", (n,), lambda i: store(out, i, x[i]))
    func = PrimFunc("f", (x, out), 1, Allocate(t, body) if inside else body)
    with pytest.raises(Unsupported, match="give smaller sizes") as caught:
        equivalent(func, func, {"n": 3 if inside else 1_000_000_000})
    assert caught.value.label == "equivalence.C3"
    assert inside or equivalent(func, func, {"n": 3}).notion is BIT_EXACT


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(Invalid, match="'any', 'terms', 'words'") as caught:
        equivalent(unary(lambda a: a), unary(lambda a: a), method="foo")
    assert caught.value.label == "equivalence.C4"


def test_two_interfaces_are_refused() -> None:
    with pytest.raises(Invalid, match=r"equivalence\.C1"):
        equivalent(unary(lambda a: a), unary(lambda a: a, n=7))


def test_words_where_terms_would_be_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fingerprints and the field take over, and say how sure they are."""
    monkeypatch.setattr("assay.verify.equivalence.trace.MOST_INSTANCES", 100)
    exact = equivalent(matmul(), tiled())
    assert exact.notion is BIT_EXACT and exact.how == "words" and 0 < exact.error < 1e-9
    other = equivalent(matmul(), from_the_end())
    assert other.notion is REAL and "random words" in str(other)
    wrong = equivalent(*FAULTS["tail guard one short"])
    assert wrong.notion is UNKNOWN and wrong.witness is not None


def test_words_follow_names_of_names() -> None:
    x, out, a, b = Buffer("x", (8,), F), Buffer("out", (8,), F), Var("a", F), Var("b", F)
    inner = lambda i: LetStmt(a, x[i], LetStmt(b, a + 1.0, store(out, i, b * a)))  # noqa: E731
    func = PrimFunc("names", (x, out), 1, loops("i", (8,), inner))
    assert equivalent(func, func, method="words").holds(BIT_EXACT)


def test_lanes_that_read_what_a_later_one_overwrites() -> None:
    """No race (rule E5). Terms do not follow lanes; words are run by an interpreter that does."""

    def shifted(kind: LoopKind, by: int) -> PrimFunc:
        x, out, i = Buffer("x", (9,), F), Buffer("out", (9,), F), Var("i")
        body = For(i, const(7), store(out, i + 1, out[i + (1 + by)]), kind)
        return PrimFunc("shifted", (x, out), 1, seq(loops("p", (9,), lambda p: store(out, p, x[p])), body))

    assert equivalent(shifted("serial", 1), shifted("vectorized", 1)).holds(BIT_EXACT)
    assert equivalent(shifted("vectorized", 1), shifted("serial", 1)).holds(BIT_EXACT)
    assert equivalent(shifted("serial", -1), shifted("vectorized", -1)).notion is UNKNOWN


def test_long_chains() -> None:
    """Statements, loops and terms any number deep."""
    out, x = Buffer("out", (), F), Buffer("x", (3,), F)
    value: Expr = x[0]
    for k in range(1_500):
        value = value + x[k % 3]
    deep: Stmt = store(out, (), value)
    for _ in range(1_500):
        deep = For(Var("i"), const(1), deep)
    func = PrimFunc("f", (x, out), 1, deep)
    verdict: Equivalence = equivalent(func, func)
    assert verdict.notion is BIT_EXACT
    other = PrimFunc("f", (x, out), 1, store(out, (), value + x[1]))
    assert len(str(equivalent(func, other, weakest=BIT_EXACT))) < 2000
