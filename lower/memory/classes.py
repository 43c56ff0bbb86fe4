"""Buffers of one size share places, and no others do (specs/lower.md, "pool").

Where sizes are symbols, a stack of different sizes becomes a maximum of many sums. Places for one size each, side by
side, are a sum: short, proved at once, and never far from the best where one size is much larger than the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from assay.lower.memory.sums import Sums
from assay.semantics.integers.polynomials import Polynomial, number
from assay.semantics.memory import BufferInfo, Place, Plan, Problem, overlap
from assay.semantics.scalar import Interner


@dataclass
class _Spot:
    """A place: where the lives without gaps that were put there end, and those with gaps."""

    until: int = 0
    gapped: list[BufferInfo] = field(default_factory=list)

    def take(self, buffer: BufferInfo) -> bool:
        """Whether the place is free while a buffer lives, which then has it."""
        if not buffer.live:
            return True
        if buffer.live[0][0] < self.until or any(overlap(b.live, buffer.live) for b in self.gapped):
            return False
        if len(buffer.live) == 1:
            self.until = buffer.live[0][1]
        else:
            self.gapped.append(buffer)
        return True


@dataclass
class _Class:
    """The buffers of one size in one pool: what one of them takes, and the places for them."""

    size: Polynomial
    spots: list[_Spot] = field(default_factory=list)

    def put(self, buffer: BufferInfo) -> int:
        """The first place that is free; buffers come in the order of their beginnings."""
        for k, spot in enumerate(self.spots):
            if spot.take(buffer):
                return k
        self.spots.append(_Spot())
        self.spots[-1].take(buffer)
        return len(self.spots) - 1


def plan_by_class(problem: Problem, sums: Sums, size: Mapping[str, Polynomial], first: Plan) -> Plan:
    """A plan with places for one size each, in the pools in which `first` has the buffers."""
    alignment = max((b.alignment for b in problem.buffers), default=1)
    if any(alignment % b.alignment for b in problem.buffers):
        return first
    numbered, classes = Interner(), dict[tuple[str, int], _Class]()
    chosen: dict[str, tuple[_Class, int]] = {}
    for b in sorted(problem.buffers, key=lambda b: b.live[0][0] if b.live else 0):
        taken = sums.aligned(size[b.name], alignment)
        key = first.places[b.name].pool, numbered(sums.dim(taken))
        of = classes.setdefault(key, _Class(taken))
        chosen[b.name] = of, of.put(b)
    ends: dict[str, Polynomial] = {}
    starts: dict[int, Polynomial] = {}
    for (pool, _), of in classes.items():
        starts[id(of)] = ends.get(pool, number(0))
        ends[pool] = starts[id(of)] + of.size.scaled(len(of.spots))
    places = {
        b.name: Place(first.places[b.name].pool, sums.dim(starts[id(of)] + of.size.scaled(k)))
        for b in problem.buffers
        for of, k in [chosen[b.name]]
    }
    return Plan(places, {p: sums.dim(ends.get(p, number(0))) for p in first.sizes}, "symbolic, a place for each size")
