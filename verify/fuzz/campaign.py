"""A campaign: examples without end, judged by workers, failures kept once (specs/verify.md, "Fuzzing")."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import onnx

from assay.semantics.errors import Invalid
from assay.verify.fuzz.cases import Recipe, again, campaign_example, of_model
from assay.verify.fuzz.corpus import COUNTERS, Corpus, StoredFailure
from assay.verify.fuzz.learning import Evidence, Learnt
from assay.verify.fuzz.targets import BackendTarget, judged, target, target_apart
from assay.verify.fuzz.worker import ExampleReport, Failure, KnownFailure, Task, merged_report

ROUND = 8
"""Examples of the first rounds; a later one has a half of those before it, and no more than LONGEST."""
LONGEST = 512
SIMPLER, LEAST_SIMPLER = 20.0, 4.0
"""Seconds in which a failure is made simpler: several targets share them, down to the least."""


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
    """What a campaign is to do: each example is judged on all targets. It ends after so many `examples` or `seconds`,
    whichever comes first; None: never. `patience`: seconds that a backend may take for one answer, where it has a
    process of its own."""

    targets: tuple[str, ...]
    recipe: Recipe
    seed: int = 0
    examples: int | None = None
    seconds: float | None = None
    batch: int = 16
    patience: float = 60.0


@dataclass
class Standing:
    """How a campaign stands with one target."""

    target: str
    done: ExampleReport = field(default_factory=lambda: ExampleReport(()))
    """What came of the examples of this run and of those before."""
    new: list[Failure] = field(default_factory=list)
    """The failures that the corpus did not have."""
    known: set[KnownFailure] = field(default_factory=set)
    """The failures that this run has met, and those of the corpus that have a culprit."""
    learnt: Learnt = field(default_factory=Learnt)
    avoided: tuple[str, ...] = ()
    """What the examples of its turns avoid in this round."""
    declared: tuple[str, ...] = ()
    """What is avoided because of what the backend declares of itself."""
    pending: list[tuple[int, list[Evidence]]] = field(default_factory=list)
    """What was met in this round."""

    @property
    def avoids(self) -> tuple[str, ...]:
        """All that the examples of its turns avoid."""
        return tuple(dict.fromkeys((*self.declared, *self.avoided)))

    def take(self, report: ExampleReport) -> list[Failure]:
        """Count what came of an example; its failures, of each kind the first."""
        failures, report.failures = report.failures, []
        self.pending += report.evidence
        report.evidence, report.numbers = [], ()
        self.done.add(report)
        return failures

    def learn(self, end: int) -> None:
        """What was met in a round that is over counts from now on, in the order of the examples."""
        if not self.pending or round_end(min(n for n, _ in self.pending)) > end:
            return
        for _, found in sorted(self.pending):
            self.learnt.add(found)
        self.pending = []
        self.avoided = self.learnt.avoided

    def as_data(self) -> dict[str, Any]:
        """What is kept of it from run to run."""
        counted = {name: dict(c) for name, c in zip(COUNTERS, self.done.counters, strict=True)}
        return {"avoided": self.avoided, "pending": self.pending, **counted}

    def go_on(self, data: Mapping[str, Any]) -> None:
        """Go on where an earlier run ended, which left this."""
        for counter, name in zip(self.done.counters, COUNTERS, strict=True):
            counter.update(data[name])
        if self.learnt.seen or data["pending"]:  # else it was forgotten
            self.avoided = tuple(data["avoided"])
            self.pending = [(n, [(tuple(t), refused) for t, refused in found]) for n, found in data["pending"]]


@dataclass
class Campaign:
    """One run of a plan. Afterwards `standings` say of each target what was judged in this run and those before, and
    which failures the corpus did not have."""

    plan: Plan
    corpus: Corpus | None = None
    tell: Callable[[Campaign], None] = lambda campaign: None
    standings: dict[str, Standing] = field(init=False)
    started: float = 0.0
    judged: int = 0
    """Examples of this run."""
    before: int = 0
    """Examples of the runs before."""
    spent: int = 0
    """Seconds that the runs before took."""
    open: set[int] = field(default_factory=set)
    next: int = 0
    """The number of the next example."""
    given: int = 0
    partial: dict[int, list[ExampleReport]] = field(default_factory=dict)
    """The reports of examples of which some targets' are still to come."""

    def __post_init__(self) -> None:
        self.standings = {name: Standing(name) for name in self.plan.targets}

    @property
    def done(self) -> ExampleReport:
        """What was judged for all targets together."""
        return merged_report([s.done for s in self.standings.values()])

    @property
    def new(self) -> list[Failure]:
        """The new failures of all targets."""
        return [f for s in self.standings.values() for f in s.new]

    def run(self, workers: Workers) -> None:
        """Judge until the plan's end. KeyboardInterrupt passes through; what was done until then is kept."""
        for each in self.standings.values():
            apart = target_apart if len(self.standings) > 1 else target
            of = apart(each.target, self.plan.patience)
            each.declared = each.declared or (of.undeclared if isinstance(of, BackendTarget) else ())
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
            yield self._task(numbers)

    def _task(self, numbers: tuple[int, ...]) -> Task:
        """The task of some examples in this round."""
        plan, avoided = self.plan, tuple(s.avoids for s in self.standings.values())
        known = frozenset(k for s in self.standings.values() for k in s.known)
        simpler = max(LEAST_SIMPLER, SIMPLER / len(avoided))
        return Task(
            plan.targets, plan.recipe, plan.seed, numbers, known, simpler, avoided=avoided, patience=plan.patience
        )

    def recipe_of(self, number: int) -> Recipe:
        """What an example of this round is made of."""
        return self._task((number,)).recipe_of(number)

    @property
    def _end(self) -> int:
        """Where the round ends: that of what is still to be judged, if there is such."""
        return round_end(min(self.open, default=self.next))

    def _learn(self) -> None:
        """What was met in a round that is over counts from now on."""
        for each in self.standings.values() if not self.open else ():
            each.learn(self.next)

    def _take(self, report: ExampleReport) -> None:
        """Count the reports of an example when all are there: an example that a run ends in is judged again."""
        if report.unusable:
            raise Invalid(report.unusable[1], label=report.unusable[0])
        (number,) = report.numbers
        reports = self.partial.setdefault(number, [])
        reports.append(report)
        if len(reports) < len(self.standings):
            return
        del self.partial[number]
        self.judged += 1
        self.open.discard(number)
        for each in reports:
            standing = self.standings[each.target]
            for failure in standing.take(each):
                self._store(standing, failure)

    def _store(self, standing: Standing, failure: Failure) -> None:
        """Keep a failure, unless there is one like it."""
        plan, recipe = self.plan, self.recipe_of(failure.number)
        if failure.result.where.startswith("generator"):
            raise Invalid(
                f"the generator made what is not valid: example {failure.number} of seed {plan.seed}:"
                f" {failure.result.detail}", label="fuzz.C4"
            )  # fmt: skip
        case = again(recipe, failure.picks) if failure.picks else campaign_example(recipe, plan.seed, failure.number)
        met = failure.known(standing.target, case.operators)
        if met in standing.known:
            return
        standing.known.add(met)
        if failure.reduced is not None:
            data, inputs = failure.reduced
            case = of_model(onnx.load_model_from_string(data), inputs, failure.picks)
        corpus = self.corpus
        if corpus is None or corpus.add(standing.target, failure.result, case, recipe, plan.seed, failure.number):
            standing.new.append(failure)

    def _resume(self) -> list[int]:
        """Go on where an earlier run ended; the numbers of the examples that it began and did not end."""
        if self.corpus is None:
            return []
        state = self.corpus.state(self.plan.targets)
        for name, each in self.standings.items():
            each.learnt = self.corpus.learnt(name)
            each.avoided = each.learnt.avoided
        for kept in self.corpus.failures():  # one with a culprit is likely met again; it is there, so nothing is to do
            if kept.result.culprit and kept.target in self.standings:
                self.standings[kept.target].known.add(KnownFailure(kept.target, kept.result.key))
        same = state and state["seed"] == self.plan.seed and state["recipe"] == self.plan.recipe.as_data()
        if not same:
            return []
        for name, each in self.standings.items():
            each.go_on(state["of"][name])
        self.before, self.spent = state["examples"], state["seconds"]
        self.next = state["next"]
        return list(state["open"])

    def _keep(self) -> None:
        if self.corpus is None:
            return
        state: dict[str, Any] = {
            "targets": list(self.plan.targets), "seed": self.plan.seed, "recipe": self.plan.recipe.as_data(),
            "next": self.next, "open": sorted(self.open), "examples": self.before + self.judged,
            "seconds": round(self.spent + time.monotonic() - self.started),
            "of": {name: each.as_data() for name, each in self.standings.items()},
        }  # fmt: skip
        self.corpus.keep(state, {name: each.learnt for name, each in self.standings.items()})


@dataclass(frozen=True)
class ReplayedFailure:
    """A stored failure, judged again."""

    stored: StoredFailure
    still: bool
    detail: str


def replay_corpus(corpus: Corpus, *names: str, patience: float = 60.0) -> Iterator[ReplayedFailure]:
    """Judge the failures of a corpus again, those against these targets or all, from their files alone; each backend
    in a process of its own."""
    for stored in corpus.failures():
        if not names or stored.target in names:
            module, inputs = stored.program()
            result = judged(target_apart(stored.target, patience), module, inputs)
            yield ReplayedFailure(
                stored, result.failed, f"{result.kind}: {result.detail}" if result.detail else result.kind
            )


def unseen(counter: Counter[str], wanted: Iterable[str]) -> list[str]:
    """What was wanted and never met."""
    return [n for n in wanted if not counter[n]]
