"""What a worker does: makes examples by their numbers, judges them, and makes failures simpler (specs/verify.md,
"Fuzzing")."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from assay.semantics.errors import AssayError, Invalid
from assay.verify.backends.protocol import ABSENT
from assay.verify.fuzz.cases import FuzzCase, Recipe, again, as_model, campaign_example
from assay.verify.fuzz.learning import Evidence, evidence_of
from assay.verify.fuzz.targets import FAILURES, BackendTarget, Result, Target, judged, plain, target
from assay.verify.oracle.trial import BETWEEN
from assay.verify.reduce import ReducedCase, reduce
from assay.verify.strategies.choosing import reduce_picks

MOST_TRIES = 1_000
"""So often a failure as a model is made smaller at most."""


@dataclass(frozen=True)
class Task:
    """Examples to judge: those of some numbers. `known` are keys of failures that need not be made simpler again."""

    target: str
    recipe: Recipe
    seed: int
    numbers: tuple[int, ...]
    known: frozenset[tuple[str, str, str]] = frozenset()
    seconds: float = 20.0
    """How long one failure may be made simpler."""


@dataclass(frozen=True)
class Failure:
    """A failure: the example's number, what came of it, and the choices that make the simplest program that shows
    it."""

    number: int
    result: Result
    picks: tuple[int, ...]
    reduced: tuple[bytes, dict[str, Any]] | None = None
    """The model and the inputs that are left when that program, as ONNX, is made smaller too."""


@dataclass
class ExampleReport:
    """What came of some examples."""

    numbers: tuple[int, ...]
    kinds: Counter[str] = field(default_factory=Counter)
    operators: Counter[str] = field(default_factory=Counter)
    constructs: Counter[str] = field(default_factory=Counter)
    layers: Counter[str] = field(default_factory=Counter)
    """Which rule decided: layers of the oracle, labels of what was refused."""
    failures: list[Failure] = field(default_factory=list)
    evidence: list[tuple[int, list[Evidence]]] = field(default_factory=list)
    """By the examples' numbers, what they say of refusals."""
    unusable: tuple[str, str] | None = None
    """Why nobody can be judged here, as a label and in words: there is no such backend."""

    def add(self, other: ExampleReport) -> None:
        """Add the counts and failures of another report."""
        self.numbers += other.numbers
        for mine, theirs in zip(self.counters, other.counters, strict=True):
            mine.update(theirs)
        self.failures += other.failures
        self.evidence += other.evidence
        self.unusable = self.unusable or other.unusable

    @property
    def counters(self) -> tuple[Counter[str], ...]:
        """What is counted: kinds of results, operators, constructs and layers."""
        return self.kinds, self.operators, self.constructs, self.layers


def judge_examples(task: Task) -> Iterator[ExampleReport]:
    """Judge the examples one after another."""
    of = target(task.target)
    known = set(task.known)
    for number in task.numbers:
        report = ExampleReport((number,))
        try:
            case = campaign_example(task.recipe, task.seed, number)
        except AssayError as wrong:
            # the generator's own fault: what it makes is valid
            report.kinds["crash"] += 1
            report.failures.append(Failure(number, Result("crash", f"generator {wrong.label}", "", wrong.message), ()))
            yield report
            continue
        result = judged(of, case.program, case.inputs)
        report.kinds[result.kind] += 1
        report.operators.update(case.operators)
        report.constructs.update(case.constructs)
        report.layers[result.where] += bool(result.where)
        if result.where in ABSENT:
            report.unusable = (result.where, result.detail)
        report.evidence.append((number, evidence_of(of, case, result)))
        if result.failed:
            picks = case.picks
            if result.key not in known or not result.culprit:
                picks, result = simplest(of, task.recipe, case, result, task.seconds)
                known.add(result.key)
            reduced, result = reduced_failure(of, again(task.recipe, picks), result, task.seconds)
            report.failures.append(Failure(number, result, picks, reduced))
        yield report


def simplest(
    of: Target, recipe: Recipe, case: FuzzCase, result: Result, seconds: float
) -> tuple[tuple[int, ...], Result]:
    """The choices of a simpler example of which the same came, and what came of it."""
    stop = time.monotonic() + seconds
    best = result

    def still(picks: Sequence[int]) -> Sequence[int] | None:
        nonlocal best
        if time.monotonic() > stop:
            return None
        try:
            simpler = again(recipe, picks)
        except AssayError:
            return None
        found = judged(of, simpler.program, simpler.inputs)
        if found.key != result.key:
            return None
        best = found
        return simpler.picks

    picks = tuple(reduce_picks(case.picks, still))
    return picks, judged(of, (last := again(recipe, picks)).program, last.inputs) if best is not result else result


def reduced_failure(
    of: Target, case: FuzzCase, result: Result, seconds: float
) -> tuple[tuple[bytes, dict[str, Any]] | None, Result]:
    """A failure of a backend as a model of fewer elements and rounder numbers (`assay reduce`), and what came of that;
    None where it is no such model."""
    model = as_model(case) if isinstance(of, BackendTarget) and result.kind == "wrong" else None
    if model is None:
        return None, result
    begun, stop = ReducedCase(model, plain(case.inputs)), time.monotonic() + seconds
    best = result

    def shows(now: ReducedCase) -> bool:
        nonlocal best
        if time.monotonic() > stop:
            return False
        found = judged(of, now.model, now.inputs)
        if found.key != result.key or found.detail.startswith(BETWEEN) > result.detail.startswith(BETWEEN):
            return False
        best = found
        return True

    try:
        small = reduce(begun, shows, MOST_TRIES)
    except Invalid:  # as a model of its own it does not show it
        return None, result
    return (small.model.SerializeToString(), dict(small.inputs)), best


def merged_report(reports: Sequence[ExampleReport]) -> ExampleReport:
    """Several reports as one."""
    found = ExampleReport(())
    for r in reports:
        found.add(r)
    return found


def failed(report: ExampleReport) -> int:
    """How many examples failed."""
    return sum(report.kinds[k] for k in FAILURES)
