"""Goals that are shown without z3 are those that z3 shows (specs/verify.md, "Proofs for all sizes")."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from assay.semantics.dtypes import FLOAT32, dtype
from assay.semantics.scalar import Expr, Var, apply, cast, const
from assay.semantics.tensor import Buffer, For, PrimFunc, Stmt, loops, seq, store, when
from assay.verify.proof_texts import keeping
from assay.verify.strategies.kernels import Kernels as Maker
from assay.verify.symbolic import prove_accesses
from assay.verify.symbolic.goals import ProofReport
from assay.verify.symbolic.plain import PlainRanges
from tests.museum import symbolic_functions as museum

X, OUT = (Buffer(n, (6, 4), FLOAT32) for n in ("x", "out"))


def kernel(body: Stmt) -> PrimFunc:
    return PrimFunc("k", (X, OUT), 1, body)


def copied(place: Callable[[Expr, Expr], tuple[Expr, Expr]], kind: str = "parallel", rows: int = 6) -> PrimFunc:
    return kernel(loops("i j", (rows, 4), lambda i, j: store(OUT, place(i, j), X[i, j]), kind))  # type: ignore[arg-type]


def unasked(report: ProofReport) -> list[str]:
    return [g.kind for g in report.goals if g.verdict == "proved" and not g.query]


def test_a_copy_needs_no_query_but_where_texts_are_kept() -> None:
    report = prove_accesses(copied(lambda i, j: (i, j)), initialised=False, brief=True)
    assert report.verdict == "proved" and not any(g.query for g in report.goals)
    texts: dict[str, str] = {}
    with keeping(texts, "kernel"):
        report = prove_accesses(copied(lambda i, j: (i, j)), initialised=False, brief=True)
    assert report.verdict == "proved" and all(g.query for g in report.goals) and texts


FAULTS = {
    "one row too many": (copied(lambda i, j: (i, j), rows=7), "in bounds"),
    "one row further": (copied(lambda i, j: (i + 1, j)), "in bounds"),
    "one column before": (copied(lambda i, j: (i, j - 1)), "in bounds"),
    "exchanged": (copied(lambda i, j: (j, i)), "in bounds"),
    "a row for all": (copied(lambda i, j: (i * 0, j)), "independent"),
    "a column for all, stored in another axis": (copied(lambda i, j: (j, j)), "independent"),
    "lanes in one element": (copied(lambda i, j: (i * 0 + 1, j * 0), "vectorized"), "side by side"),
    "what another iteration stores": (
        kernel(loops("i j", (5, 4), lambda i, j: seq(store(OUT, (i, j), X[i, j]), store(OUT, (i + 1, j), X[i, j])),
                     "parallel")),
        "independent",
    ),
    "what another iteration stores, taken": (
        kernel(loops("i j", (5, 4), lambda i, j: store(OUT, (i, j), OUT[i + 1, j]), "parallel")), "independent"
    ),
    "an index of 8 bits": (
        PrimFunc(
            "k", (Buffer("x", (300,), FLOAT32), b := Buffer("out", (300,), FLOAT32)), 1,
            loops("i", (300,), lambda i: store(b, cast(cast(i, "int8") + const(1, "int8"), "int64"), 0.0)),
        ),
        "no overflow",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_no_plain_goal(name: str) -> None:
    func, kind = FAULTS[name]
    brief, full = (prove_accesses(func, initialised=False, brief=b) for b in (True, False))
    open_ = [[(g.kind, g.claim, g.verdict) for g in r.goals if g.verdict != "proved"] for r in (brief, full)]
    assert open_[0] == open_[1] and kind in {k for k, _, _ in open_[0]}


RIGHT = (
    "matmul",
    "matmul_blocks",
    "conv",
    "pool",
    "fused",
    "transpose",
    "concat",
    "triangular",
    "in_place",
    "layer_norm",
)


@pytest.mark.parametrize("name", RIGHT)
def test_a_brief_proof_says_what_a_full_one_says(name: str) -> None:
    func = getattr(museum, name)()
    brief, full = (prove_accesses(func, initialised=False, brief=b) for b in (True, False))
    assert [(g.kind, g.claim, g.verdict) for g in brief.goals] == [(g.kind, g.claim, g.verdict) for g in full.goals]


def test_what_is_shown_without_a_query_of_random_functions_has_one_that_holds() -> None:
    plain = 0
    for seed in range(12):
        func = Maker(Random(seed).randrange, f"k{seed}").make()
        brief, full = (prove_accesses(func, initialised=False, brief=b) for b in (True, False))
        plain += len(unasked(brief))
        assert {(g.kind, g.verdict) for g in brief.goals} == {(g.kind, g.verdict) for g in full.goals}, seed
    assert plain > 20


def test_a_loop_that_is_never_run_and_one_that_starts_elsewhere() -> None:
    i = Var("i")
    nothing = kernel(For(i, const(0), store(OUT, (i + 9, 0), 0.0), "serial"))
    assert prove_accesses(nothing, initialised=False, brief=True).verdict == "proved"
    moved = kernel(For(i, const(3), store(OUT, (i, 0), 0.0), "serial", const(4)))
    assert prove_accesses(moved, initialised=False, brief=True).verdict == "refuted"
    guarded = kernel(loops("i", (9,), lambda i: when(i < 6, store(OUT, (i, 0), 0.0))))
    assert prove_accesses(guarded, initialised=False, brief=True).verdict == "proved"


def test_ranges_do_not_pass_a_step_that_wraps() -> None:
    i = Var("i")
    ranges = PlainRanges({i: (0, 1 << 40)})
    far = i * (1 << 30)
    assert not ranges.stays([far]) and ranges.of(far)[0] == -(1 << 63)
    assert ranges.stays([i + 1]) and ranges.of(apply("min", i, 3)) == (0, 3)
    narrow = cast(i, dtype("int32"))
    assert not ranges.stays([narrow]) and ranges.of(cast(narrow, "int64")) == (-(1 << 31), (1 << 31) - 1)
