"""A backend at each choice of sizes, as one line of `assay check` (specs/verify.md, "Sizes that are tried")."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from assay.interp import graph
from assay.semantics.errors import Invalid, Trap
from assay.semantics.graph import Expr
from assay.semantics.module import Module
from assay.semantics.types import TensorType
from assay.verify.app.judging import JudgedOutputs, judge_outputs
from assay.verify.evidence import Evidence
from assay.verify.exits import Exit, gravest
from assay.verify.oracle import Expected
from assay.verify.trials.sizes import Sizes, told_point, told_sizes

Array = np.ndarray[Any, Any]


@dataclass
class SizedRun:
    """A run at given sizes: the program there, its tensors, inputs, and what may come of them."""

    sizes: Sizes
    module: Module
    tensors: Mapping[str, Expr]
    inputs: Mapping[str, Array]
    refused: str = ""
    """Why the model itself has no such run, though what was made of it for all sizes has: backends are not asked."""

    @cached_property
    def expected(self) -> Expected:
        """What correct implementations may give."""
        return Expected(self.module, self.inputs)


@dataclass(frozen=True)
class JudgedThere:
    """The verdict at some sizes; and, where it is one on 1 for whole numbers, why those drawn left it undecided."""

    sizes: Sizes
    did: str
    evidence: Evidence
    undecided: str = ""


def judged_at_all(who: JudgedOutputs, runs: Sequence[SizedRun], given: Collection[str]) -> tuple[str, Evidence]:
    """The verdict on a backend, or on outputs: the gravest of those at all sizes."""
    judged = [run for run in runs if not run.refused]
    if not judged:
        raise Invalid(f"no run of the model was found: {runs[0].refused}", label="input.C6")
    at = f"at {told_sizes([r.sizes for r in judged])}"
    did, evidence = together([judged_there(who, run, given) for run in judged], at)
    odd = [f"no run of the model has {told_point(r.sizes)}: {r.refused}" for r in runs if r.refused]
    return did, replace(evidence, detail="; ".join([evidence.detail, *odd]))


def judged_there(who: JudgedOutputs, run: SizedRun, given: Collection[str]) -> JudgedThere:
    """The verdict at the sizes of a run.

    What was drawn may leave nothing to say: a row of a mask that is all 0, of which the softmax is that of numbers next
    to the largest one. Where a backend is undecided on whole numbers that were drawn, it is judged once more with 1 in
    their place. That decides if it can, and what was not decided is told beside it.
    """
    dims = {**who.dims, **{s.name: n for s, n in run.sizes.items()}}
    here = replace(who, dims=dims)
    did, evidence = judge_outputs(here, run.expected, run.tensors)
    if evidence.outcome != "undecided" or who.outputs is not None:
        return JudgedThere(run.sizes, did, evidence)
    ones = with_ones(run, given)
    if ones is None:
        return JudgedThere(run.sizes, did, evidence)
    by_ones, second = judge_outputs(here, Expected(run.module, ones), run.tensors)
    if second.holds is None:
        return JudgedThere(run.sizes, did, evidence)
    return JudgedThere(run.sizes, by_ones, second, evidence.detail)


def with_ones(run: SizedRun, given: Collection[str]) -> Mapping[str, Array] | None:
    """The inputs with 1 for all whole numbers that were drawn; None where there are none, or the program traps so."""
    made = dict(run.inputs)
    for p in run.module.main.params:
        if isinstance(p.type, TensorType) and p.type.dtype.is_integer and p.name not in given:
            made[p.name] = np.ones_like(run.inputs[p.name])
    if all(np.array_equal(made[n], a) for n, a in run.inputs.items() if made[n] is not a):
        return None
    try:
        graph.run(run.module, made)
    except Trap:
        return None
    return made


def together(found: Sequence[JudgedThere], told: str) -> tuple[str, Evidence]:
    """One line for all sizes: the gravest verdict, and where it does not hold, each verdict with its sizes."""
    worst = gravest(f.evidence.exit for f in found)
    there = next(f for f in found if f.evidence.exit is worst)
    did, detail = there.did, there.evidence.detail
    if there.sizes and worst is Exit.HOLDS:
        did += f" {told}"
    elif there.sizes:
        detail = f"at {told_point(there.sizes)}: {detail}{_each(found)}"
    return did, replace(there.evidence, detail=detail + _by_ones([f for f in found if f.undecided]))


def _by_ones(found: Sequence[JudgedThere]) -> str:
    """Which verdicts are those on 1 for whole numbers; and of the first, why that was needed."""
    if not found:
        return ""
    told = "; ".join(
        f"{outcome} at {' and at '.join(points)}" if any(points) else outcome
        for outcome, points in _by_outcome(found, told_point).items()
    )
    others = "" if len(found) == 1 else f" at the first of these {len(found)} sizes"
    return f"; with 1 for whole numbers {told}; undecided with those that were drawn{others}: {found[0].undecided}"


def _by_outcome(found: Sequence[JudgedThere], tell: Callable[[Sizes], str]) -> dict[str, list[str]]:
    """The sizes at which each verdict was found, by verdict."""
    by: dict[str, list[str]] = {}
    for f in found:
        by.setdefault(f.evidence.outcome, []).append(tell(f.sizes))
    return by


def _each(found: Sequence[JudgedThere]) -> str:
    """Each verdict with the sizes at which it was found."""
    if len(found) == 1:
        return ""
    told = _by_outcome(found, lambda sizes: f"({', '.join(map(str, sizes.values()))})")
    names = ", ".join(s.name for s in found[0].sizes)
    each = "; ".join(f"{outcome} at {', '.join(points)}" for outcome, points in told.items())
    return f"; of all ({names}): {each}"
