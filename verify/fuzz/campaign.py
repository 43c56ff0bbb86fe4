"""A campaign: examples without end, judged by workers, failures kept once (specs/verify.md, "Fuzzing")."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from assay.semantics.errors import Invalid
from assay.verify.fuzz.cases import Recipe, again, campaign_example
from assay.verify.fuzz.corpus import COUNTERS, Corpus, StoredFailure
from assay.verify.fuzz.targets import judged, target
from assay.verify.fuzz.worker import ExampleReport, Failure, Task


class Workers(Protocol):
    """Whoever does tasks: processes of this machine, or a cluster."""

    def run(self, tasks: Iterable[Task]) -> Iterator[ExampleReport]:
        """Do tasks, and give their reports as they are finished."""
        ...


@dataclass(frozen=True)
class Plan:
    """What a campaign is to do. It ends after so many `examples` or `seconds`, whichever comes first; None: never."""

    target: str
    recipe: Recipe
    seed: int = 0
    examples: int | None = None
    seconds: float | None = None
    batch: int = 16


@dataclass
class Campaign:
    """One run of a plan. Afterwards `done` says what was judged in this run and those before, `new` which failures the
    corpus did not have."""

    plan: Plan
    corpus: Corpus | None = None
    tell: Callable[[Campaign], None] = lambda campaign: None
    done: ExampleReport = field(default_factory=lambda: ExampleReport(()))
    new: list[Failure] = field(default_factory=list)
    started: float = 0.0
    judged: int = 0
    """Examples of this run."""
    before: int = 0
    """Examples of the runs before."""
    open: set[int] = field(default_factory=set)
    known: set[tuple[str, str, str]] = field(default_factory=set)
    names: set[str] = field(default_factory=set)

    def run(self, workers: Workers) -> None:
        """Judge until the plan's end. KeyboardInterrupt passes through; what was done until then is kept."""
        target(self.plan.target)
        first, waiting = self._resume()
        self.open = set(waiting)
        self.started = time.monotonic()
        kept = self.started
        self.next = first
        try:
            for report in workers.run(self._tasks(first, waiting)):
                self._take(report)
                self.tell(self)
                if time.monotonic() - kept > 5:
                    self._keep()
                    kept = time.monotonic()
        finally:
            self._keep()

    @property
    def rate(self) -> float:
        """Examples a second of this run."""
        return self.judged / max(time.monotonic() - self.started, 1e-9)

    def _tasks(self, first: int, waiting: list[int]) -> Iterator[Task]:
        """Tasks until the plan's end: first what an earlier run had begun and not ended."""
        plan, given, number = self.plan, 0, first
        while True:
            room = plan.batch if plan.examples is None else min(plan.batch, plan.examples - given)
            late = plan.seconds is not None and time.monotonic() - self.started >= plan.seconds
            if room <= 0 or late:
                return
            if waiting:
                numbers, waiting = tuple(waiting[:room]), waiting[room:]
            else:
                numbers = tuple(range(number, number + room))
                number += room
            given += len(numbers)
            self.next = max(self.next, number)
            self.open |= set(numbers)
            yield Task(plan.target, plan.recipe, plan.seed, numbers, frozenset(self.known))

    def _take(self, report: ExampleReport) -> None:
        self.judged += len(report.numbers)
        self.open -= set(report.numbers)
        failures, report.failures = report.failures, []
        report.numbers = ()
        self.done.add(report)
        for failure in failures:
            self.known.add(failure.result.key)
            self._store(failure)

    def _store(self, failure: Failure) -> None:
        """Keep a failure, unless there is one like it."""
        recipe, plan = self.plan.recipe, self.plan
        if failure.result.where.startswith("generator"):
            raise Invalid(
                f"the generator made what is not valid: example {failure.number} of seed {plan.seed}:"
                f" {failure.result.detail}", label="fuzz.C4"
            )  # fmt: skip
        case = again(recipe, failure.picks) if failure.picks else campaign_example(recipe, plan.seed, failure.number)
        key = str((failure.result.key, () if failure.result.culprit else case.operators))
        if key in self.names:
            return
        self.names.add(key)
        if self.corpus is None or self.corpus.add(plan.target, failure.result, case, recipe, plan.seed, failure.number):
            self.new.append(failure)

    def _resume(self) -> tuple[int, list[int]]:
        """The number of the next example, and those that were begun and not ended."""
        state = self.corpus.state(self.plan.target) if self.corpus is not None else {}
        same = state and state["seed"] == self.plan.seed and state["recipe"] == self.plan.recipe.as_data()
        if not same:
            return 0, []
        for counter, name in zip(self.done.counters, COUNTERS, strict=True):
            counter.update(state[name])
        self.before = state["examples"]
        return state["next"], list(state["open"])

    def _keep(self) -> None:
        if self.corpus is None:
            return
        counted = {name: dict(c) for name, c in zip(COUNTERS, self.done.counters, strict=True)}
        state: dict[str, Any] = {
            "target": self.plan.target, "seed": self.plan.seed, "recipe": self.plan.recipe.as_data(),
            "next": self.next, "open": sorted(self.open), "examples": self.before + self.judged, **counted,
        }  # fmt: skip
        self.corpus.keep(self.plan.target, state)


@dataclass(frozen=True)
class ReplayedFailure:
    """A stored failure, judged again."""

    stored: StoredFailure
    still: bool
    detail: str


def replay_corpus(corpus: Corpus, name: str | None = None) -> Iterator[ReplayedFailure]:
    """Judge the failures of a corpus again, those against one target or all, from their files alone."""
    for stored in corpus.failures():
        if name is None or stored.target == name:
            module, inputs = stored.program()
            result = judged(target(stored.target), module, inputs)
            yield ReplayedFailure(
                stored, result.failed, f"{result.kind}: {result.detail}" if result.detail else result.kind
            )


def unseen(counter: Counter[str], wanted: Iterable[str]) -> list[str]:
    """What was wanted and never met."""
    return [n for n in wanted if not counter[n]]
