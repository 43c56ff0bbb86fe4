"""A campaign: examples without end, judged by workers, failures kept once (specs/verify.md, "Fuzzing")."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import onnx

from assay.semantics.errors import Invalid
from assay.verify.fuzz.cases import Recipe, again, campaign_example, of_model
from assay.verify.fuzz.corpus import COUNTERS, Corpus, StoredFailure
from assay.verify.fuzz.learning import Evidence, Learnt
from assay.verify.fuzz.targets import BackendTarget, judged, target
from assay.verify.fuzz.worker import ExampleReport, Failure, Task

ROUND = 8
"""Examples of the first rounds; a later one has a half of those before it, and no more than LONGEST."""
LONGEST = 512


def round_end(number: int) -> int:
    """The first number of the round after that of an example. What is learnt counts from the next round on: so what an
    example is does not depend on who is faster."""
    end = ROUND
    while end <= number:
        end += max(ROUND, min(LONGEST, end // 2 // ROUND * ROUND))
    return end


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
    next: int = 0
    """The number of the next example."""
    given: int = 0
    learnt: Learnt = field(default_factory=Learnt)
    avoided: tuple[str, ...] = ()
    """What the examples of this round avoid."""
    declared: tuple[str, ...] = ()
    """What is avoided because of what the backend declares of itself."""
    pending: list[tuple[int, list[Evidence]]] = field(default_factory=list)
    """What was met in this round."""

    @property
    def recipe(self) -> Recipe:
        """What the examples of this round are made of."""
        return replace(self.plan.recipe, avoided=tuple(dict.fromkeys((*self.declared, *self.avoided))))

    def run(self, workers: Workers) -> None:
        """Judge until the plan's end. KeyboardInterrupt passes through; what was done until then is kept."""
        of = target(self.plan.target)
        self.declared = self.declared or (of.undeclared if isinstance(of, BackendTarget) else ())
        waiting = self._resume()
        self.open = set(waiting)
        self.started = time.monotonic()
        kept = self.started
        try:
            while not self._ended:
                for report in workers.run(self._tasks(waiting)):
                    self._take(report)
                    self.tell(self)
                    if time.monotonic() - kept > 5:
                        self._keep()
                        kept = time.monotonic()
                waiting = []
                self._learn()
        finally:
            self._keep()

    @property
    def rate(self) -> float:
        """Examples a second of this run."""
        return self.judged / max(time.monotonic() - self.started, 1e-9)

    @property
    def _ended(self) -> bool:
        """Whether the plan is at its end."""
        plan = self.plan
        late = plan.seconds is not None and time.monotonic() - self.started >= plan.seconds
        return late or (plan.examples is not None and self.given >= plan.examples)

    def _tasks(self, waiting: list[int]) -> Iterator[Task]:
        """Tasks until the end of the round or of the plan: first what an earlier run had begun and not ended."""
        plan, end = self.plan, self._end
        while not self._ended:
            room = min(plan.batch, max(1, (end - min(self.open, default=self.next)) // 4))  # work for several
            room = room if plan.examples is None else min(room, plan.examples - self.given)
            if waiting:
                numbers, waiting = tuple(waiting[:room]), waiting[room:]
            else:
                numbers = tuple(range(self.next, min(self.next + room, end)))
                self.next += len(numbers)
            if not numbers:
                return
            self.given += len(numbers)
            self.open |= set(numbers)
            yield Task(plan.target, self.recipe, plan.seed, numbers, frozenset(self.known))

    @property
    def _end(self) -> int:
        """Where the round ends: that of what is still to be judged, if there is such."""
        return round_end(min(self.open, default=self.next))

    def _learn(self) -> None:
        """What was met in a round that is over counts from now on, in the order of the examples."""
        if self.open or not self.pending or round_end(self.pending[0][0]) > self.next:
            return
        for _, found in sorted(self.pending):
            self.learnt.add(found)
        self.pending = []
        self.avoided = self.learnt.avoided

    def _take(self, report: ExampleReport) -> None:
        self.judged += len(report.numbers)
        self.open -= set(report.numbers)
        failures, report.failures = report.failures, []
        if report.unusable:
            raise Invalid(report.unusable[1], label=report.unusable[0])
        report.numbers = ()
        self.pending += report.evidence
        report.evidence = []
        self.done.add(report)
        for failure in failures:
            self.known.add(failure.result.key)
            self._store(failure)

    def _store(self, failure: Failure) -> None:
        """Keep a failure, unless there is one like it."""
        recipe, plan = self.recipe, self.plan
        if failure.result.where.startswith("generator"):
            raise Invalid(
                f"the generator made what is not valid: example {failure.number} of seed {plan.seed}:"
                f" {failure.result.detail}", label="fuzz.C4"
            )  # fmt: skip
        case = again(recipe, failure.picks) if failure.picks else campaign_example(recipe, plan.seed, failure.number)
        if failure.reduced is not None:
            data, inputs = failure.reduced
            case = of_model(onnx.load_model_from_string(data), inputs, failure.picks)
        key = str((failure.result.key, () if failure.result.culprit else case.operators))
        if key in self.names:
            return
        self.names.add(key)
        if self.corpus is None or self.corpus.add(plan.target, failure.result, case, recipe, plan.seed, failure.number):
            self.new.append(failure)

    def _resume(self) -> list[int]:
        """Go on where an earlier run ended; the numbers of the examples that it began and did not end."""
        state = self.corpus.state(self.plan.target) if self.corpus is not None else {}
        if self.corpus is not None:
            self.learnt = self.corpus.learnt(self.plan.target)
            self.avoided = self.learnt.avoided
        same = state and state["seed"] == self.plan.seed and state["recipe"] == self.plan.recipe.as_data()
        if not same:
            return []
        for counter, name in zip(self.done.counters, COUNTERS, strict=True):
            counter.update(state[name])
        self.before = state["examples"]
        self.next = state["next"]
        if self.learnt.seen or state["pending"]:  # else it was forgotten
            self.avoided = tuple(state["avoided"])
            self.pending = [(n, [(tuple(t), refused) for t, refused in found]) for n, found in state["pending"]]
        return list(state["open"])

    def _keep(self) -> None:
        if self.corpus is None:
            return
        counted = {name: dict(c) for name, c in zip(COUNTERS, self.done.counters, strict=True)}
        state: dict[str, Any] = {
            "target": self.plan.target, "seed": self.plan.seed, "recipe": self.plan.recipe.as_data(),
            "next": self.next, "open": sorted(self.open), "examples": self.before + self.judged,
            "avoided": self.avoided, "pending": self.pending, **counted,
        }  # fmt: skip
        self.corpus.keep(self.plan.target, state, self.learnt)


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
