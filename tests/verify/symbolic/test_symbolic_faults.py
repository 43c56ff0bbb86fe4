"""Faults in the prover itself: each would call something proved that a run refutes, and a program here shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import z3

from assay.semantics.scalar import Expr, Var, apply, choice, smt
from assay.semantics.scalar.smt import Terms
from assay.semantics.tensor import Allocate, Assert, Buffer, For, PrimFunc, Stmt, loops, seq, store, when
from assay.verify.symbolic import alignment, function, goals, initialisation, instance, places, prove_accesses, races
from assay.verify.symbolic.events import AccessEvent, EventScope, Guard, Loop
from tests.museum import symbolic_functions as museum
from tests.museum.symbolic_functions import F, K, M, N


def late() -> PrimFunc:
    """What is read is written only afterwards."""
    x, out, tmp = Buffer("x", (N,), F), Buffer("out", (N,), F), Buffer("tmp", (N,), F)
    body = loops("i", (N,), lambda i: seq(store(out, i, tmp[i]), store(tmp, i, x[i])))
    return museum.func("late", Allocate(tmp, body), x, out)


def late_in_another_iteration() -> PrimFunc:
    """What is read is written in the next iteration."""
    x, out, tmp = Buffer("x", (N,), F), Buffer("out", (N,), F), Buffer("tmp", (N,), F)

    def element(i: Expr) -> Stmt:
        return seq(store(tmp, i, x[i]), store(out, i, x[i]), when(i < N - 1, store(out, i, tmp[i + 1])))

    return museum.func("late_in_another_iteration", Allocate(tmp, loops("i", (N,), element)), x, out)


def forgotten() -> PrimFunc:
    """A buffer that begins again in each iteration keeps nothing."""
    x, out, tmp = Buffer("x", (N,), F), Buffer("out", (N,), F), Buffer("tmp", (1,), F)
    body = loops("i", (N,), lambda i: Allocate(tmp, seq(when(i < 1, store(tmp, 0, x[i])), store(out, i, tmp[0]))))
    return museum.func("forgotten", body, x, out)


def no_tiles() -> PrimFunc:
    """A size of 0 is handled apart, and wrongly."""
    x, tile, out = Buffer("x", (N,), F), Buffer("tile", (K,), F), Buffer("out", (N,), F)

    def element(i: Expr) -> Stmt:
        return store(out, i, x[choice(apply("eq", K, 0), i + 1, i + apply("min", N // K, 0))])

    return museum.func("no_tiles", loops("i", (N,), element), x, tile, out)


def sometimes() -> PrimFunc:
    """Written only where a condition holds."""
    x, out = Buffer("x", (N,), F), Buffer("out", (N,), F)
    return museum.func(
        "sometimes", loops("i", (N,), lambda i: when(i < M, store(out, i, x[i]))), x, Buffer("y", (M,), F), out
    )


def checked_too_late() -> PrimFunc:
    """The assert comes after the access."""
    x, out = Buffer("x", (N,), F), Buffer("out", (M,), F)
    like = Buffer("like", (M,), F)
    move = loops("i", (M,), lambda i: store(out, i, x[i]))
    return museum.func("checked_too_late", seq(move, Assert(M <= N, "too late")), x, like, out)


def wrapping() -> PrimFunc:
    """An index that wraps at int64."""
    x, out = Buffer("x", (N,), F), Buffer("out", (N,), F)
    i, s = Var("i"), Var("s")
    far = apply("max", (i + s) - s, 0)
    body = For(i, N, when(i + s >= s, store(out, i, x[i]), store(out, far + N, x[i])))
    return PrimFunc("wrapping", (x, out), 1, body, scalars=(s,))


def other_pairs(accesses: Any) -> Any:
    return [(a, a) for a in accesses if a.write]


def unguarded(self: Terms, a: Any, b: Any) -> Any:
    q, r = self.fresh("q"), self.fresh("r")
    self.known += [a == b * q + r, 0 <= r, r < b]
    return q, r


def no_guards(enter: Callable[..., None]) -> Callable[..., None]:
    def changed(made: Any, frame: EventScope, given: Any) -> None:
        if not (isinstance(frame, Guard) and given is None and frame.positive):
            enter(made, frame, given)

    return changed


def anywhere(frame: EventScope | None, outer: EventScope) -> bool:
    return isinstance(outer, Loop)


def any_order(w: AccessEvent, read: Any, begin: Any) -> Any:
    yield len(initialisation._common(w.site.frame, read.frame)), "first"


def no_time(covers: Any) -> Any:
    def changed(f: Any, read: Any, w: AccessEvent, level: int, how: str) -> Any:
        found = covers(f, read, w, level, how)
        strict = level < len(initialisation._common(w.site.frame, read.frame))
        return z3.And(*found.children()[1:]) if found is not None and strict else found

    return changed


def never_begins(root_of: Any) -> Any:
    return lambda buffer, frame: (root_of(buffer, frame)[0], None)


FAULTS: dict[str, tuple[Callable[[], PrimFunc], Any, str, Any]] = {
    "a divisor is not 0": (no_tiles, Terms, "divided", unguarded),
    "only one access at a time": (lambda: museum.in_place(ahead=1), races, "_pairs", other_pairs),
    "conditions always hold": (sometimes, instance, "enter", no_guards(instance.enter)),
    "all is private": (lambda: museum.layer_norm(private=False), races, "is_within", anywhere),
    "later is before": (late, initialisation, "_ways", any_order),
    "later iterations are before": (
        late_in_another_iteration,
        initialisation,
        "_covers",
        no_time(initialisation._covers),
    ),
    "buffers live on": (forgotten, initialisation, "root_of", never_begins(initialisation.root_of)),
    "no choice is strict": (lambda: museum.conv_guarded(lazy=False), smt, "conditions", None),
    "windows on windows": (lambda: museum.placed(start=2), alignment, "views_below", lambda buffer, frame: ()),
    "nothing wraps": (wrapping, places, "may_overflow", None),
}


def wrap_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no step could leave its dtype: it is neither asked nor translated."""
    for module in (places, smt):
        monkeypatch.setattr(module, "may_overflow", lambda node: False)


def lazy_select(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the sides of a `select` were evaluated only where they are chosen."""
    real = smt.conditions

    def changed(roots: Any, value: Any) -> Any:
        found = real(roots, value)
        return {k: z3.BoolVal(False) for k in found}

    monkeypatch.setattr(instance, "conditions", changed)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_prover_is_seen(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, owner, name, wrong = FAULTS[fault]
    assert prove_accesses(make()).verdict != "proved"
    if wrong is None:
        (wrap_nothing if owner is places else lazy_select)(monkeypatch)
    else:
        monkeypatch.setattr(owner, name, wrong)
    report = prove_accesses(make())
    assert report.verdict == "proved", "\n".join(
        f"{g.kind}: {g.claim}: {g.detail}" for g in report.goals if g.verdict != "proved"
    )


def test_an_assert_counts_only_for_what_comes_after_it() -> None:
    assert prove_accesses(checked_too_late()).verdict == "refuted"


def test_a_counterexample_that_the_run_does_not_confirm_is_no_refutation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(function, "replay_counterexample", lambda *_: function.ReplayedGoal(False, "the run ends well"))
    report = prove_accesses(museum.matmul(k_from=1))
    assert report.verdict == "unknown" and not report.of("refuted")


def test_no_answer_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(goals, "RLIMIT", 1)
    monkeypatch.setattr(goals._solver, "__defaults__", (1,))
    report = prove_accesses(museum.fused())
    assert report.verdict == "unknown" and "z3 does not know" in "".join(g.detail for g in report.goals)
