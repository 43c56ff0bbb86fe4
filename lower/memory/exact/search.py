"""One search for a plan within a capacity, over skylines (specs/lower.md). It ends with a plan, or proves there is
none.

Everything may be pushed down until it rests on something, so a plan can be built from below: in every section of time
the buffers come in the order of their offsets, and a floor rises. A valley is a stretch of equal floors between higher
ones: what can begin there lies within it. Of all valleys, the section is taken with the fewest buffers that can begin
at its floor. Either one of them begins there, or the section is left empty up to the lowest place at which any could
begin later. What a section can lose to holes is its slack. Where lives have gaps, the lowest floors count as the
valleys.

What is known after each step: no buffer begins below the highest floor of its sections, rounded up to its alignment; no
floor is below the lowest such place of a buffer in its section; what that adds is taken from the slack. A state that
has failed is remembered by floors and buffers left, and holds for every later search within the same capacity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b

import numpy as np

from assay.lower.memory.exact.reduction import Reduced
from assay.lower.memory.problem import Array
from assay.semantics.deadline import NEVER, Deadline
from assay.semantics.tasks import Task, run_task

REMEMBERED = 2_000_000
"""How many failed states are kept."""


class Spent(Exception):
    """The effort or the time is used up."""


class Budget:
    """Nodes that may still be searched, None: no limit, and the time at which all ends."""

    def __init__(self, nodes: int | None, deadline: Deadline = NEVER, tick: Callable[[], None] | None = None) -> None:
        self.nodes = nodes
        self.deadline = deadline
        self.tick = tick
        self.used = 0

    @property
    def over(self) -> bool:
        """Whether nothing may be searched any more."""
        if self.nodes is not None and self.used >= self.nodes:
            return True
        return self.deadline.over

    def part(self, nodes: int) -> Budget:
        """A budget of so many nodes at most, within this one. What it uses is not counted here."""
        left = nodes if self.nodes is None else min(nodes, self.nodes - self.used)
        return Budget(left, self.deadline, self.tick)

    def spend(self) -> None:
        """Count a node. Spent: there is none left."""
        self.used += 1
        if self.nodes is not None and self.used > self.nodes:
            raise Spent
        if self.used % 64 == 0:
            if self.deadline.over:
                raise Spent
            if self.tick is not None and self.used % 2048 == 0:
                self.tick()


class Search:
    """A search with one order of the buffers: `rank[i]` is the place of i among those that can begin at one floor.

    With `tight`, a section with one candidate is taken first, and then the one with the least slack rather than that
    with the fewest candidates. `limit` is the number of nodes of this search, `budget` of all.
    """

    def __init__(
        self, r: Reduced, capacity: int, rank: Array, budget: Budget, limit: int | None, failed: set[bytes],
        tight: bool = False,
    ) -> None:  # fmt: skip
        self.r = r
        self.rank = rank
        self.budget = budget
        self.left = limit
        self.failed = failed
        self.tight = tight
        self.last = r.last(capacity)
        top = (self.last + r.size).max() if len(r.nbytes) else 0
        self.far = int(top) * 4 + 8
        """Above every floor."""
        budgets = np.zeros(r.sections, r.dtype)
        for i, (low, high) in zip(r.owner.tolist(), zip(r.low.tolist(), r.high.tolist(), strict=True), strict=True):
            np.maximum(budgets[low:high], self.last[i] + r.size[i], out=budgets[low:high])
        self.slack = budgets - r.load
        self.offset = [0] * len(r.nbytes)
        n = len(r.nbytes)
        self.begin = r.low[r.first[:-1]] if n else r.low
        self.end = r.high[r.first[1:] - 1] if n else r.high
        if r.pinned:
            self.pins = [i for i in range(n) if r.fixed[i] >= 0]
            spans = [
                {k for j in range(r.first[i], r.first[i + 1]) for k in range(r.low[j], r.high[j])} for i in range(n)
            ]
            self.beneath = [[p for p in self.pins if p != i and spans[p] & spans[i]] for i in range(n)]

    def run(self) -> list[int] | None:
        """Offsets in units within the capacity; None: there are none. Spent: neither is known yet."""
        r = self.r
        if not len(r.nbytes):
            return []
        if (self.last < 0).any() or (self.slack < 0).any():
            return None
        crossing = np.zeros(r.sections, np.int64)
        for low, high in zip(self.begin.tolist(), self.end.tolist(), strict=True):
            crossing[low : high - 1] += 1
        floors = np.zeros(r.sections + 1, r.dtype)  # one more, for reduceat wants the end of a run as an index
        everything = np.arange(len(r.nbytes))
        found = run_task(self._parts(0, r.sections, floors, self.slack, crossing, everything, (0, r.sections)))
        return self.offset if found else None

    def _parts(
        self, low: int, high: int, floor: Array, slack: Array, crossing: Array, alive: Array, new: tuple[int, int]
    ) -> Task[bool]:
        """Solve sections [low, high) by the parts that no buffer connects, the smallest first. In `new` are all
        sections whose floor or buffers have changed since they were settled."""
        if not len(alive):
            return True
        cuts = np.flatnonzero(crossing[low : high - 1] == 0) + (low + 1)
        if not len(cuts):
            done: bool = yield self._solve(low, high, floor, slack, crossing, alive, new)
            return done
        edges = [low, *cuts.tolist(), high]
        which = np.searchsorted(cuts, self.begin[alive], side="right")
        parts = [(edges[k], edges[k + 1], alive[which == k]) for k in np.unique(which).tolist()]
        parts.sort(key=lambda part: len(part[2]))
        for a, b, inside in parts:
            if not (yield self._solve(a, b, floor, slack, crossing, inside, new)):
                return False
        return True

    def _solve(
        self, low: int, high: int, floor: Array, slack: Array, crossing: Array, alive: Array, new: tuple[int, int]
    ) -> Task[bool]:
        r = self.r
        self.budget.spend()
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Spent
        lows, highs, starts = self._runs(alive)
        settled = self._settle(low, high, floor, slack, alive, lows, highs, starts, new)
        if settled is None:
            return False
        floor, slack, least = settled
        if len(alive) == 1:
            self.offset[int(alive[0])] = int(least[0])
            return True
        key = _key(low, floor[low:high], alive)
        if key in self.failed:
            return False
        at, covering = self._section(low, high, floor, slack, least, lows, highs, starts)
        h = int(floor[at])
        ready = least == h
        candidates = np.flatnonzero(covering & ready)
        forced = False
        for i in self._ordered(candidates, alive):
            b = int(alive[i])
            if r.pinned and not self._below_pins(b, h, alive):
                continue
            raised, crossed = floor.copy(), crossing.copy()
            for run in range(r.first[b], r.first[b + 1]):
                raised[r.low[run] : r.high[run]] = h + r.size[b]
            crossed[self.begin[b] : self.end[b] - 1] -= 1
            self.offset[b] = h
            new = int(self.begin[b]), int(self.end[b])
            if (yield self._parts(low, high, raised, slack, crossed, np.delete(alive, i), new)):
                return True
            if r.pinned and r.fixed[b] >= 0:
                forced = True  # it can begin nowhere else
                break
        if not forced:
            level = self._level(candidates, covering, ready, least, alive, lows, highs, starts)
            if level is not None and slack[at] >= level - h:
                raised, less = floor.copy(), slack.copy()
                raised[at] = level
                less[at] -= level - h
                if (yield self._solve(low, high, raised, less, crossing, alive, (at, at + 1))):
                    return True
        if len(self.failed) < REMEMBERED:
            self.failed.add(key)
        return False

    def _runs(self, alive: Array) -> tuple[Array, Array, Array | None]:
        """The runs of the buffers left, and where those of each begin; None: each has one."""
        r = self.r
        if not r.runs:
            return r.low[alive], r.high[alive], None
        counts = r.first[alive + 1] - r.first[alive]
        starts = np.cumsum(counts) - counts
        which = np.repeat(r.first[alive] - starts, counts) + np.arange(int(counts.sum()))
        return r.low[which], r.high[which], starts

    def _settle(
        self, low: int, high: int, floor: Array, slack: Array, alive: Array, lows: Array, highs: Array,
        starts: Array | None,
        new: tuple[int, int],
    ) -> tuple[Array, Array, Array] | None:  # fmt: skip
        """Floors and slack after all that follows, and the least offset of each buffer left; None: it cannot be."""
        r = self.r
        last = self.last[alive]
        ends = _ends(lows, highs)
        align = r.align[alive] if r.aligned else None
        fixed = r.fixed[alive] if r.pinned else None
        a, z = new
        while True:
            most = np.maximum.reduceat(floor, ends)[::2]
            least = most if starts is None else np.maximum.reduceat(most, starts)
            if align is not None:
                least = -(-least // align) * align
            if fixed is not None:
                if ((fixed >= 0) & (least > fixed)).any():
                    return None
                least = np.where(fixed >= 0, fixed, least)
            if (least > last).any():
                return None
            if starts is not None:
                a, z = low, high
                per_run, seen = np.repeat(least, np.diff(np.append(starts, len(lows)))), np.ones(len(lows), bool)
            else:
                touched = (lows < z) & (highs > a)
                if touched.any():  # only in sections of what the change touches can anything follow
                    a, z = min(a, int(lows[touched].min())), max(z, int(highs[touched].max()))
                a, z = max(a, low), min(z, high)
                per_run, seen = least, (lows < z) & (highs > a)
            if a >= z:
                return floor, slack, least
            values = per_run[seen]
            order = np.argsort(-values, kind="stable")
            lowest = np.full(high - low, self.far, r.dtype)
            begins, stops = (lows[seen] - low)[order].tolist(), (highs[seen] - low)[order].tolist()
            for begin, stop, value in zip(begins, stops, values[order].tolist(), strict=True):
                lowest[begin:stop] = value
            gap = lowest[a - low : z - low] - floor[a:z]
            if starts is not None:
                done = lowest == self.far  # nothing is left there
                gap[done] = 0
                if (floor[low:high][done] != self.far).any():
                    floor = floor.copy()
                    floor[low:high][done] = self.far
            if not gap.any():
                return floor, slack, least
            slack, floor = slack.copy(), floor.copy()
            slack[a:z] -= gap
            if (slack[a:z] < 0).any():
                return None
            floor[a:z] += gap
            where = np.flatnonzero(gap)
            a, z = a + int(where[0]), a + int(where[-1]) + 1

    def _section(
        self, low: int, high: int, floor: Array, slack: Array, least: Array, lows: Array, highs: Array,
        starts: Array | None,
    ) -> tuple[int, Array]:  # fmt: skip
        """The section to decide on, and which of the buffers left are in it."""
        floors = floor[low:high]
        if starts is None:
            ready = np.minimum.reduceat(floor, _ends(lows, highs))[::2] == least  # on even ground, so within a valley
            steps = np.flatnonzero(floors[1:] != floors[:-1])
            rises = floors[steps + 1] > floors[steps]
            falls = np.append(True, ~rises)  # before each stretch of equal floors; the ends count as walls
            valleys = np.repeat(
                falls & np.append(rises, True), np.diff(np.concatenate(([-1], steps, [high - low - 1])))
            )
            where = np.flatnonzero(valleys)
        else:
            lowest = floors.min()
            ready = np.repeat(least == lowest, np.diff(np.append(starts, len(lows))))
            where = np.flatnonzero(floors == lowest)
        count = np.bincount(lows[ready] - low, minlength=high - low + 1)
        count -= np.bincount(highs[ready] - low, minlength=high - low + 1)
        counts, slacks = np.cumsum(count)[where], slack[low:high][where]
        if self.tight:
            slacks = np.where(counts == 1, -1, slacks)
            order = floors[where], counts, slacks
        else:
            order = floors[where], slacks, counts
        at = low + int(where[np.lexsort(order)[0]])
        inside = (lows <= at) & (at < highs)
        return at, inside if starts is None else np.logical_or.reduceat(inside, starts)

    def _ordered(self, candidates: Array, alive: Array) -> Iterator[int]:
        """The buffers to try at a floor, in order; of equal ones the first."""
        rank = self.rank[alive]
        chosen = sorted(candidates.tolist(), key=lambda i: rank[i])
        if self.r.pinned:
            chosen.sort(key=lambda i: self.r.fixed[alive[i]] < 0)  # what has its place comes first
        seen: set[int] = set()
        for i in chosen:
            kind = self.r.kind[alive[i]]
            if kind not in seen:
                seen.add(kind)
                yield i

    def _below_pins(self, buffer: int, h: int, alive: Array) -> bool:
        """Whether a buffer that begins at a floor ends beneath all that is fixed above it."""
        end = h + self.r.size[buffer]
        pins = self.beneath[buffer]
        return not pins or not any(end > self.r.fixed[p] for p in np.intersect1d(pins, alive).tolist())

    def _level(
        self, candidates: Array, covering: Array, ready: Array, least: Array, alive: Array, lows: Array, highs: Array,
        starts: Array | None,
    ) -> int | None:  # fmt: skip
        """The lowest place at which something can begin in the section, if nothing begins at its floor.

        A buffer that cannot begin at the floor begins at its least offset or above. One that can, and does not, rests
        on a buffer that is not in the section, and that ends at its own least offset and size, or above.
        """
        levels = least[covering & ~ready]
        level = int(levels.min()) if len(levels) else None
        if len(candidates):
            if starts is None:
                a, z = int(lows[candidates].min()), int(highs[candidates].max())
                near = ~covering & (lows < z) & (highs > a)
            else:
                a, z = int(self.begin[alive[candidates]].min()), int(self.end[alive[candidates]].max())
                near = ~covering & np.logical_or.reduceat((lows < z) & (highs > a), starts)
            if near.any():
                top = int((least + self.r.size[alive])[near].min())
                level = top if level is None else min(level, top)
        return level


def _ends(lows: Array, highs: Array) -> Array:
    """Runs as `reduceat` wants them: each result at an even place is that of a run."""
    ends = np.empty(2 * len(lows), np.int64)
    ends[0::2], ends[1::2] = lows, highs
    return ends


def _key(low: int, floor: Array, alive: Array) -> bytes:
    made = blake2b(alive.astype(np.int32).tobytes(), digest_size=16, salt=low.to_bytes(8, "little"))
    made.update(repr(floor.tolist()).encode() if floor.dtype == object else floor.tobytes())
    return made.digest()
