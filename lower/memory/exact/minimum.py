"""The least size of one pool that holds given buffers: bounds from both sides (specs/lower.md).

A search at a size either finds a plan, which bounds the least size from above, or ends without one, which bounds it
from below; or its effort is used up, and a larger size is tried. The plan is optimal where the bounds meet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from assay.lower.memory.exact.reduction import Reduced, reduced_problem
from assay.lower.memory.exact.restarts import Attack
from assay.lower.memory.exact.search import Budget, Spent
from assay.lower.memory.problem import IndexedProblem

SHARE = 2000
"""Nodes of the first searches; each round of them has twice as many as the one before."""


@dataclass(frozen=True)
class FoundOffsets:
    """Offsets by buffer and the size that they need, or None if no plan within the limit is known; and a size that no
    plan is below."""

    offsets: dict[int, int] | None
    size: int
    bound: int


class Minimum:
    """The least size of a pool, found bit by bit. `limit` is the largest that is allowed, `goal` one that is enough."""

    def __init__(
        self, layout: IndexedProblem, members: Sequence[int], limit: int | None, seed: int = 0, goal: int | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> None:  # fmt: skip
        self.layout = layout
        self.seed = seed
        self.goal = goal
        self.tell = tell
        moving = [i for i in members if layout.nbytes[i] and layout.buffers[i].live]
        self.resting = {i: layout.fixed.get(i, 0) for i in members if not (layout.nbytes[i] and layout.buffers[i].live)}
        self.r: Reduced = reduced_problem(layout, moving)
        self.step = self.r.unit if self.r.whole else 1
        self._least = -(-max(self.r.bound(layout.deadline), layout.bound(moving)) // self.step) * self.step
        self._rest = max((at + layout.nbytes[i] for i, at in self.resting.items()), default=0)
        self.limit = limit
        self.best: FoundOffsets | None = None
        self._attacks: dict[int, Attack] = {}

    def offer(self, offsets: dict[int, int]) -> None:
        """Take a plan that another search has found."""
        size = max((at + self.layout.nbytes[i] for i, at in offsets.items()), default=0)
        if (self.limit is None or size <= self.limit) and (self.best is None or size < self.best.size):
            self.best = FoundOffsets(offsets, size, self.bound)
            if self.tell is not None:
                self.tell(f"{size} bytes, not below {self.bound}")

    @property
    def bound(self) -> int:
        """A size in bytes that no plan is below."""
        return max(self._least, self._rest)

    @property
    def enough(self) -> bool:
        """Whether the best plan is optimal, or as small as was asked for."""
        return self.best is not None and self.best.size <= max(self.bound, self.goal or 0)

    @property
    def settled(self) -> bool:
        """Whether nothing is left to search: enough is found, or it is proved that there is none."""
        top = self._top()
        unreachable = self.goal is not None and self.goal < self.bound and self.best is not None
        return self.enough or unreachable or (top is not None and self.bound > top)

    def result(self) -> FoundOffsets:
        """The best plan found, with the bound that is proved."""
        if self.best is None:
            return FoundOffsets(None, 0, self.bound)
        return FoundOffsets(self.best.offsets, self.best.size, min(self.bound, self.best.size))

    def _top(self) -> int | None:
        """The largest size that is worth a search."""
        sizes = [] if self.limit is None else [self.limit]
        if self.best is not None:
            sizes.append(self.best.size - 1)
        if self.goal is not None and self.goal >= self.bound:
            sizes.append(self.goal)
        return min(sizes) if sizes else None

    def attempt(self, budget: Budget, share: int, size: int | None = None) -> bool | None:
        """Search at a size, by default at the least there may be or the goal; whether there is a plan, None:
        unknown."""
        top = self._top()
        if size is None:
            size = self.bound if self.goal is None or top is None else max(self.bound, top)
        size = self.r.rounded(size)
        if size < self._least:
            return False
        attack = self._attacks.setdefault(size, Attack(self.r, size, self.seed))
        part = budget.part(share)
        try:
            found = attack.run(part)
        except Spent:
            return None
        finally:
            budget.used += part.used
        del self._attacks[size]
        if found is None:
            self._least = max(self._least, size + self.step)
            self._attacks = {s: a for s, a in self._attacks.items() if s >= self._least}
            if self.tell is not None:
                self.tell(f"not below {self.bound} bytes")
            return False
        placed = {i: at * self.r.unit for i, at in zip(self.r.members, found, strict=True)}
        self.offer(placed | self.resting)
        return True

    def run(self, budget: Budget) -> FoundOffsets:
        """Search until the least size is known, the goal is reached, or the budget is used up."""
        share = SHARE
        while not (self.settled or budget.over):
            self._round(budget, share)
            share *= 2
        return self.result()

    def _round(self, budget: Budget, share: int) -> None:
        """A search at the least size there may be, or at the goal; where the first is left open, bisection above it."""
        if self.attempt(budget, 4 * share) is not None or self.goal is not None:
            return
        low = self.bound
        while not (self.settled or budget.over):
            top = self._top()
            steps = 0 if top is None else (top - low) // self.step
            if steps <= 0:
                break
            size = low + (steps + 1) // 2 * self.step
            if self.attempt(budget, share, size) is not True:
                low = size
