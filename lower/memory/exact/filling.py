"""Several pools, filled by priority (specs/lower.md).

Every buffer goes to the first of its pools that could hold it alone. If a pool cannot hold all that wants it, those
that have no other stay, then what first fit places beside them, then what a search can add, the largest first. The rest
goes on to its next pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from assay.lower.memory.exact.minimum import FoundOffsets
from assay.lower.memory.exact.pool import least_size
from assay.lower.memory.exact.search import Budget
from assay.lower.memory.greedy import orders
from assay.lower.memory.options import Options
from assay.lower.memory.placing import PlacedBuffers
from assay.lower.memory.problem import IndexedProblem

ADDED = 20
"""How many buffers are tried one by one beside what first fit has placed in a full pool."""


class Filling:
    """Pools being filled. `pool[i]` is where buffer i is now; `found` are the pools that have been filled."""

    def __init__(self, layout: IndexedProblem, options: Options, budget: Budget) -> None:
        self.layout = layout
        self.options = options
        self.budget = budget
        self.choices = [
            [p for p in choices if layout.nbytes[i] <= _limit(layout, p)] for i, choices in enumerate(layout.choices)
        ]
        self.at = [0] * len(layout.buffers)
        self.offset: dict[int, int] = {}
        self.found: dict[int, FoundOffsets] = {}

    @property
    def pool(self) -> list[int]:
        """The pool of each buffer."""
        return [choices[k] for choices, k in zip(self.choices, self.at, strict=True)]

    def run(self) -> bool:
        """Fill the pools; whether everything has a place."""
        if not all(self.choices):
            return False
        waiting = set(self.pool)
        while waiting:
            pool = min(waiting)
            waiting.discard(pool)
            gone = self._fill(pool, [i for i, p in enumerate(self.pool) if p == pool])
            if gone is None:
                return False
            for i in gone:
                self.at[i] += 1
                waiting.add(self.pool[i])
        return True

    def _fill(self, pool: int, members: list[int]) -> list[int] | None:
        """Place these buffers in a pool; those that have to go on. None: some can go nowhere."""
        options = self.options if pool == 0 else replace(self.options, capacity=None)
        found = self._least(pool, members, options, self.budget)
        stay, gone = members, list[int]()
        if found.offsets is None:
            fits = replace(options, capacity=self.layout.limits[pool])
            stay = [i for i in members if i in self.layout.fixed or self.at[i] + 1 == len(self.choices[i])]
            stay = self._packed(pool, stay, members)
            found = self._least(pool, stay, fits, self.budget)
            if found.offsets is None:
                return None
            gone = sorted(set(members) - set(stay), key=lambda i: (-self.layout.nbytes[i], i))
            for i in gone[:ADDED]:
                if self.budget.over:
                    break
                more = self._least(pool, sorted([*stay, i]), fits, self.budget)
                if more.offsets is not None:
                    stay, found = sorted([*stay, i]), more
            gone = [i for i in gone if i not in stay]
        assert found.offsets is not None
        self.offset.update(found.offsets)
        self.found[pool] = found
        return gone

    def _least(self, pool: int, members: Sequence[int], options: Options, budget: Budget) -> FoundOffsets:
        part = budget.part(max(1, (budget.nodes - budget.used) // 2) if budget.nodes is not None else 1 << 62)
        found = least_size(self.layout.only(pool, members), options, part)
        budget.used += part.used
        if found.offsets is None:
            return found
        return FoundOffsets({members[k]: at for k, at in found.offsets.items()}, found.size, found.bound)

    def _packed(self, pool: int, stay: list[int], members: Sequence[int]) -> list[int]:
        """Those that stay, and as many bytes of the others as first fit places beside them, in order."""
        part = self.layout.only(pool, members)
        first = {k for k, i in enumerate(members) if i in set(stay)}
        best: PlacedBuffers | None = None
        for order in orders(part):
            placement = PlacedBuffers(part, "first")
            placement.put_all(sorted(order, key=lambda k: k not in first))
            stuck = first & set(placement.stuck())
            if not stuck and (best is None or placement.score() < best.score()):
                best = placement
        return stay if best is None else [i for k, i in enumerate(members) if best.pool[k] >= 0]

    def score(self) -> tuple[int, ...]:
        """What a better plan has less of, as in a placement."""
        sizes = [self.found[p].size if p in self.found else 0 for p in range(len(self.layout.pools))]
        return (0, *reversed(sizes))

    @property
    def settled(self) -> bool:
        """Whether everything lies in the first pool that could hold it alone, and no pool can be smaller then."""
        return not any(self.at) and all(found.size == found.bound for found in self.found.values())

    @property
    def bound(self) -> int:
        """What is proved of the first pool that holds anything."""
        return next((self.found[p].bound for p in sorted(self.found) if self.found[p].size), 0)


def _limit(layout: IndexedProblem, pool: int) -> int:
    limit = layout.limits[pool]
    return sum(layout.nbytes) if limit is None else limit
