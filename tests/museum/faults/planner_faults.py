"""Planners of memory with one mistake each: those of TVM's USMP and others that such planners are known for.

All place buffers one by one, the largest first, above what they conflict with; `right` has none of the mistakes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from assay.semantics.memory import BufferInfo, Place, Plan, Pool, Problem, overlap
from assay.verify.memory import check_plan, prove_plan
from tests.lower.memory.memory_problems import from_conflicts, good
from tests.museum.judges import of_evidence
from tests.museum.planted import Judge, PlantedFault


def fault(name: str, note: str, planner: Callable[[Problem], Plan], problem: Problem) -> PlantedFault:
    """What is wrong, the wrong planner, and a problem that shows it."""
    judges: tuple[Judge, ...] = (proved, defined, brute)
    return PlantedFault(name, "plan: definition, z3", judges, lambda: problem, planner, right, note=note)


def proved(problem: Problem, made: Plan) -> str | None:
    return of_evidence(prove_plan(problem, made).evidence)


def defined(problem: Problem, made: Plan) -> str | None:
    return of_evidence(check_plan(problem, made))


def brute(problem: Problem, made: Plan) -> str | None:
    """The definition of a good plan, byte by byte."""
    return None if good(problem, made) else "is not good"


def larger(problem: Problem, made: tuple[Plan, Plan]) -> str | None:
    """Whether one plan needs more than another."""
    last, best = (plan.sizes["workspace"] for plan in made)
    return f"{last} bytes, and {best} were met" if last > best else None  # type: ignore[operator]


class Stuck(Exception):
    """A buffer fits in none of its pools."""


@dataclass(frozen=True)
class Greedy:
    """A greedy planner. Each field is a way to be wrong; the values here are right."""

    reopens: bool = False
    """A later conflict gives a pool back that an earlier one has closed."""
    one_way: bool = False
    """Only what comes first in the problem tells of a conflict."""
    aligns: str = "own"
    """For whose alignment an offset is rounded: "own", the "other"'s, or "down"."""
    hulls: bool = True
    """Between its first and its last position, a buffer counts as live. False: only its first interval counts."""
    checks: bool = True
    """Whether limits count."""
    slip: int = 0
    """By how many bytes a buffer may be larger than what is left."""
    touches: int = 0
    """By how many bytes a buffer may lie in the one beneath it."""

    def __call__(self, problem: Problem) -> Plan:
        places: dict[str, Place] = {}
        by_name = {b.name: b for b in problem.buffers}
        index = {b.name: i for i, b in enumerate(problem.buffers)}
        for b in sorted(problem.buffers, key=lambda b: (_bytes(b), b.name), reverse=True):
            free = {p.name: 0 for p in problem.candidates(b)}
            limits = {p.name: p.limit for p in problem.candidates(b)}
            closed: set[str] = set()
            for name, place in sorted(places.items(), key=lambda item: index[item[0]]):
                other = by_name[name]
                if place.pool not in limits or not self.conflict(b, other, index):
                    continue
                assert isinstance(place.offset, int)
                at = self.aligned(place.offset + _bytes(other) - self.touches, b, other)
                limit = limits[place.pool]
                if self.checks and limit is not None and at + _bytes(b) > limit + self.slip:
                    closed.add(place.pool)
                elif self.reopens and place.pool in closed:
                    closed.discard(place.pool)
                    free[place.pool] = at
                elif place.pool not in closed:
                    free[place.pool] = max(free[place.pool], at)
            for pool, at in free.items():
                limit = limits[pool]
                if pool not in closed and (not self.checks or limit is None or at + _bytes(b) <= limit + self.slip):
                    places[b.name] = Place(pool, at)
                    break
            else:
                raise Stuck(b.name)
        return _plan(problem, places)

    def conflict(self, b: BufferInfo, other: BufferInfo, index: dict[str, int]) -> bool:
        if self.one_way and index[b.name] > index[other.name]:
            return False
        if not self.hulls:
            return overlap(b.live[:1], other.live[:1])
        return overlap(b.live, other.live)

    def aligned(self, at: int, b: BufferInfo, other: BufferInfo) -> int:
        match self.aligns:
            case "own":
                return -(-at // b.alignment) * b.alignment
            case "other":
                return -(-at // other.alignment) * other.alignment
            case _:
                return at // b.alignment * b.alignment


def _bytes(b: BufferInfo) -> int:
    assert isinstance(b.nbytes, int)
    return b.nbytes


def _plan(problem: Problem, places: dict[str, Place]) -> Plan:
    sizes = {p.name: 0 for p in problem.pools}
    for b in problem.buffers:
        place = places[b.name]
        assert isinstance(place.offset, int)
        sizes[place.pool] = max(sizes[place.pool], place.offset + _bytes(b))
    return Plan(places, sizes)


def right(problem: Problem) -> Plan:
    return Greedy()(problem)


def last_accepted(problem: Problem, attempts: int = 200, seed: int = 0, best: bool = False) -> Plan:
    """Hill climbing that returns the order that it has accepted last, as TVM does; with `best`, the best it has met."""
    rng = random.Random(seed)
    order = list(problem.buffers)
    plan = kept = _stacked(problem, order)
    for _ in range(attempts):
        tried = order.copy()
        i, j = rng.randrange(len(order)), rng.randrange(len(order))
        tried[i], tried[j] = tried[j], tried[i]
        made = _stacked(problem, tried)
        if _size(made) <= _size(plan) or rng.random() < 0.3:
            order, plan = tried, made
            kept = min(kept, made, key=_size)
    return kept if best else plan


def _stacked(problem: Problem, order: list[BufferInfo]) -> Plan:
    places: dict[str, Place] = {}
    tops: dict[str, int] = {}
    for b in order:
        at = max((tops[o.name] for o in problem.buffers if o.name in tops and overlap(b.live, o.live)), default=0)
        places[b.name], tops[b.name] = Place(problem.pools[0].name, at), at + _bytes(b)
    return _plan(problem, places)


def _size(plan: Plan) -> int:
    return sum(n for n in plan.sizes.values() if isinstance(n, int))


FULL = from_conflicts(
    {"A": 50, "B": 45, "N": 20}, [("A", "B"), ("N", "B"), ("N", "A")], (Pool("fast", limit=100), Pool("slow"))
)
FULL = replace(FULL, buffers=tuple(sorted(FULL.buffers, key=lambda b: b.name, reverse=True)))
RING = from_conflicts({"a": 14, "b": 12, "c": 10}, [("a", "b"), ("b", "c"), ("c", "a")])
ODD = Problem((BufferInfo("x", 13, ((0, 2),), 1), BufferInfo("y", 8, ((1, 3),), 8)), (Pool("workspace"),))
GAPS = Problem((BufferInfo("x", 8, ((0, 1), (4, 5))), BufferInfo("y", 8, ((4, 6),))), (Pool("workspace"),))
ROUGH = Problem(
    tuple(BufferInfo(f"b{i}", 5 + 7 * i % 11, ((i, i + 3 + i % 4),)) for i in range(12)), (Pool("workspace"),)
)

FAULTS = (
    fault(
        "reopened pool", "a conflict that fits opens a pool again that another has closed", Greedy(reopens=True), FULL
    ),
    fault("one-way conflicts", "only one of two buffers knows of their conflict", Greedy(one_way=True), RING),
    fault("alignment of the other", "rounded for the buffer beneath", Greedy(aligns="other"), ODD),
    fault("rounded down", "an offset is rounded down into the buffer beneath", Greedy(aligns="down"), ODD),
    fault("gaps", "a buffer that comes back after a gap is not counted", Greedy(hulls=False), GAPS),
    fault("no limit", "the limit of a pool is not looked at", Greedy(checks=False), FULL),
    fault("almost fits", "a buffer may be larger than what is left", Greedy(slip=20), FULL),
    fault("touching", "the last byte of the buffer beneath is used again", Greedy(touches=1), RING),
    PlantedFault(
        "hill climbing that returns the last",
        "sizes compared",
        (larger,),
        lambda: ROUGH,
        lambda of: (last_accepted(of, seed=1), last_accepted(of, seed=1, best=True)),
        lambda of: (last_accepted(of, seed=1, best=True), last_accepted(of, seed=1, best=True)),
    ),
)
"""All but the last make a plan that is not good; that of the last is good, but not the best that it has met."""
