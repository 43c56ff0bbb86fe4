"""What a worker does: makes examples by their numbers, judges them, and makes failures simpler (specs/verify.md,
"Fuzzing")."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from assay.semantics.errors import AssayError, Invalid
from assay.verify.backends.protocol import ABSENT
from assay.verify.fuzz.cases import FuzzCase, Recipe, again, as_model, campaign_example
from assay.verify.fuzz.learning import TAKEN, Evidence, evidence_of
from assay.verify.fuzz.targets import FAILURES, BackendTarget, Result, Target, judged, plain, targets_of
from assay.verify.oracle.trial import BETWEEN
from assay.verify.reduce import ReducedCase, reduce
from assay.verify.strategies.choosing import reduce_picks

MOST_TRIES = 1_000
"""So often a failure as a model is made smaller at most."""
ASKED = 6
"""So often a backend is asked for one judgement at most: prepared twice, and run on each set of inputs."""


@dataclass(frozen=True)
class KnownFailure:
    """A failure that was met already: of which target, its key, and which operators its simplest program has, if not
    one of them is to blame."""

    target: str
    key: tuple[str, str, str]
    operators: tuple[str, ...] = ()

    def explains(self, target: str, result: Result, operators: Sequence[str]) -> bool:
        """Whether a failure is likely the same: of the same key, in a program that has these operators too."""
        return (target, result.key) == (self.target, self.key) and set(self.operators) <= set(operators)


@dataclass(frozen=True)
class Task:
    """Examples to judge: those of some numbers. What `known` failures explain is counted, and not kept again."""

    targets: tuple[str, ...]
    """Who is judged on each of them."""
    recipe: Recipe
    seed: int
    numbers: tuple[int, ...]
    known: frozenset[KnownFailure] = frozenset()
    seconds: float = 20.0
    """How long one failure may be made simpler."""
    avoided: tuple[tuple[str, ...], ...] = ()
    """What the examples of each target's turns avoid."""
    patience: float = 60.0
    """How long a backend in a process of its own may take for one answer."""

    def turn(self, number: int) -> int:
        """The place of the target whose turn an example is: it is made of what this one takes."""
        return number % len(self.targets)

    def recipe_of(self, number: int) -> Recipe:
        """What an example is made of."""
        return replace(self.recipe, avoided=self.avoided[self.turn(number)]) if self.avoided else self.recipe

    def longest(self, patience: float) -> float:
        """How many seconds one example may take where one judgement may take `patience`. Of several targets each has
        a process of its own, which is ended there; the worker has the time that they may take together."""
        one = self.seconds + patience
        return one if len(self.targets) == 1 else len(self.targets) * (one + ASKED * self.patience)


@dataclass(frozen=True)
class Failure:
    """A failure: the example's number, what came of it, and the choices that make the simplest program that shows
    it."""

    number: int
    result: Result
    picks: tuple[int, ...]
    reduced: tuple[bytes, dict[str, Any]] | None = None
    """The model and the inputs that are left when that program, as ONNX, is made smaller too."""

    def known(self, target: str, operators: tuple[str, ...]) -> KnownFailure:
        """What explains the next failures of a target: this one, whose simplest program has these operators."""
        return KnownFailure(target, self.result.key, () if self.result.culprit else operators)


@dataclass
class ExampleReport:
    """What came of some examples for one target."""

    numbers: tuple[int, ...]
    target: str = ""
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
    """Judge the examples one after another: a report of each for each target, all of one example together."""
    targets = targets_of(task.targets, task.patience)
    known = set(task.known)
    for number in task.numbers:
        try:
            case = campaign_example(task.recipe_of(number), task.seed, number)
        except AssayError as wrong:
            # the generator's own fault: what it makes is valid
            fault = Result("crash", f"generator {wrong.label}", "", wrong.message)
            yield from failed_everywhere(task, number, fault)
            continue
        # first all of them on the same program, then what failed on simpler ones
        results = [(of, judged(of, case.program, case.inputs)) for of in targets]
        yield from [_report(task, number, place, case, *each, known) for place, each in enumerate(results)]


def _report(
    task: Task,
    number: int,
    place: int,
    case: FuzzCase,
    of: Target,
    result: Result,
    known: set[KnownFailure],
) -> ExampleReport:
    """What came of an example for one target, with what it says of refusals and, if it failed, made simpler. Where the
    example was another target's turn a refusal says nothing new: it may well be made of what this one does not take."""
    name, recipe = task.targets[place], task.recipe_of(number)
    report = ExampleReport((number,), name)
    report.kinds[result.kind] += 1
    report.operators.update(case.operators)
    report.constructs.update(case.constructs)
    report.layers[result.where] += bool(result.where)
    if result.where in ABSENT:
        report.unusable = (result.where, result.detail)
    elif place == task.turn(number) or result.kind in TAKEN:
        report.evidence.append((number, evidence_of(of, case, result)))
    if result.failed and not any(k.explains(name, result, case.operators) for k in known):
        picks = case.picks
        if result.kind != "late":  # each try would be so too
            picks, result = simplest(of, recipe, case, result, task.seconds)
        simple = again(recipe, picks)
        reduced, result = reduced_failure(of, simple, result, task.seconds)
        failure = Failure(number, result, picks, reduced)
        known.add(failure.known(name, simple.operators))
        report.failures.append(failure)
    return report


def failed_everywhere(task: Task, number: int, result: Result) -> list[ExampleReport]:
    """Reports of an example that failed before any target was judged on it."""
    reports = [ExampleReport((number,), name) for name in task.targets]
    for report in reports:
        report.kinds[result.kind] += 1
        report.failures.append(Failure(number, result, ()))
    return reports


def lost(task: Task, number: int, why: str, detail: str) -> list[ExampleReport]:
    """Reports of an example whose worker is gone. The only target was judged in the worker, and has died with it;
    several have processes of their own, so the fault is ours."""
    alone = len(task.targets) == 1
    result = Result("died", why, "", detail) if alone else Result("crash", f"the worker {why}", "", detail)
    return failed_everywhere(task, number, result)


def simplest(
    of: Target, recipe: Recipe, case: FuzzCase, result: Result, seconds: float
) -> tuple[tuple[int, ...], Result]:
    """The choices of a simpler example of which the same came, and what came of it. Who fails only now and then may do
    so no more when the last one is asked again; what it did before stands then."""
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
    if best is result:
        return picks, result
    last = again(recipe, picks)
    found = judged(of, last.program, last.inputs)
    return picks, found if found.failed else best


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
