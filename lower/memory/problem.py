"""What a problem must keep before it is planned, and the form in which planners read it (specs/lower.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from assay.semantics.deadline import NEVER, Deadline
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.memory import BufferInfo, Interval, Pool, Problem, lower_bound

Array = np.ndarray[Any, Any]
SAFE = 1 << 60
"""Sums below this are exact in int64 with room to spare; larger ones are computed with Python's integers."""
KEPT = 20_000_000
"""How many conflicts are kept between questions; of larger problems they are found anew each time."""


class Conflicts:
    """Which buffers are live together with one. A buffer without bytes or without a life conflicts with nothing."""

    def __init__(self, buffers: Sequence[BufferInfo], deadline: Deadline = NEVER) -> None:
        rows = [(start, stop, i) for i, b in enumerate(buffers) if b.nbytes != 0 for start, stop in b.live]
        points = sorted({p for start, stop, _ in rows for p in (start, stop)})
        rank = {p: k for k, p in enumerate(points)}
        rows.sort()
        self._starts = np.array([rank[start] for start, _, _ in rows], np.int64)
        self._stops = np.array([rank[stop] for _, stop, _ in rows], np.int64)
        self._owners = np.array([i for _, _, i in rows], np.int64)
        self._reach = np.maximum.accumulate(self._stops) if rows else self._stops
        self._lives: list[list[Interval]] = [[] for _ in buffers]
        for start, stop, i in rows:
            deadline.turn()
            self._lives[i].append((rank[start], rank[stop]))
        self._known: dict[int, Array] = {}
        self._room = KEPT

    def of(self, index: int, deadline: Deadline = NEVER) -> Array:
        """The indices of the buffers that conflict with one, in increasing order. Late: the time is up."""
        deadline.turn()
        if (known := self._known.get(index)) is not None:
            return known
        found = []
        for start, stop in self._lives[index]:
            low = int(np.searchsorted(self._reach, start, side="right"))  # all before have ended by then
            high = int(np.searchsorted(self._starts, stop, side="left"))
            owners = self._owners[low:high]
            found.append(owners[self._stops[low:high] > start])
        every: Array = np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)
        every = every[every != index]
        if len(every) <= self._room:
            self._room -= len(every)
            self._known[index] = every
        return every


class IndexedProblem:
    """A problem that has been checked, by index. Arrays of bytes are int64, or objects where int64 is too small.

    `choices[i]` are the pools that can hold buffer i, the most wanted first; `fixed[i]` is the offset of one that has
    been placed by hand, in `choices[i][0]`. `deadline` is for all that is done with it. Late: the time is up.
    """

    def __init__(self, problem: Problem, deadline: Deadline = NEVER) -> None:
        check_rules(problem, deadline)
        self.problem = problem
        self.deadline = deadline
        self.buffers = problem.buffers
        self.pools = problem.pools
        self.limits: list[int | None] = [p.limit for p in problem.pools]
        self.nbytes = [_number(b) for b in problem.buffers]
        index = {p.name: k for k, p in enumerate(problem.pools)}
        self.choices: list[tuple[int, ...]] = []
        for b in problem.buffers:
            deadline.turn()
            self.choices.append(tuple(index[p.name] for p in able(problem, b)))
        self.fixed = {i: b.offset for i, b in enumerate(problem.buffers) if b.offset is not None}
        most = sum(self.nbytes) + sum(b.alignment for b in problem.buffers) + max(self.fixed.values(), default=0)
        self.dtype: Any = np.int64 if most < SAFE else object
        self.sizes: Array = np.array(self.nbytes, self.dtype)
        self.conflicts = Conflicts(problem.buffers, deadline)
        self._check_fixed()

    def _check_fixed(self) -> None:
        for i, offset in self.fixed.items():
            b, pool = self.buffers[i], self.pools[self.choices[i][0]]
            if offset < 0 or (pool.limit is not None and offset + self.nbytes[i] > pool.limit):
                raise Invalid(
                    f"buffer {b.name} has been placed by hand at bytes [{offset}, {offset + self.nbytes[i]}) of pool"
                    f" {pool.name}, which has the bytes [0, {'any' if pool.limit is None else pool.limit})",
                    label="memory.C6",
                )
            if offset % b.alignment:
                raise Invalid(
                    f"buffer {b.name} has been placed by hand at offset {offset}, which is no multiple of its alignment"
                    f" {b.alignment}",
                    label="memory.C6",
                )
            for j in self.conflicts.of(i, self.deadline).tolist():
                other = self.fixed.get(j)
                if other is None or self.choices[i][0] != self.choices[j][0]:
                    continue
                if offset < other + self.nbytes[j] and other < offset + self.nbytes[i]:
                    raise Invalid(
                        f"buffers {b.name} and {self.buffers[j].name} have been placed by hand, and share byte"
                        f" {max(offset, other)} of pool {pool.name} while both are live",
                        label="memory.C6",
                    )

    def only(self, pool: int, members: Sequence[int]) -> IndexedProblem:
        """Some buffers in one pool."""
        chosen = self.pools[pool]
        buffers = tuple(replace(self.buffers[i], pools=(chosen.name,)) for i in members)
        return IndexedProblem(Problem(buffers, (chosen,)), self.deadline)

    def bound(self, members: Iterable[int]) -> int:
        """Bytes that no pool can do without which holds these buffers."""
        members = list(members)
        ends = (self.nbytes[i] + self.fixed.get(i, 0) for i in members)
        return max(lower_bound(self.buffers[i] for i in members), *ends, 0)


def check_rules(problem: Problem, deadline: Deadline = NEVER) -> None:
    """Invalid: the problem breaks a rule about names, pools, or single buffers, memory.C1 to C5. Sizes may have
    symbols. Late: the time is up."""
    check_names(problem)
    for pool in problem.pools:
        check_pool(pool)
    for b in problem.buffers:
        deadline.turn()
        check_buffer(b)
        able(problem, b)


def able(problem: Problem, buffer: BufferInfo) -> tuple[Pool, ...]:
    """The candidates of a buffer that can hold it, the most wanted first. Invalid: there are none, or one cannot be."""
    known = {p.name for p in problem.pools}
    for name in buffer.pools:
        if name not in known:
            there = ", ".join(known) or "none"
            raise Invalid(f"buffer {buffer.name} wants pool {name}, but the pools are: {there}", label="memory.C2")
    candidates = problem.candidates(buffer)
    for pool in candidates:
        if pool.kind != buffer.kind:
            raise Invalid(
                f"buffer {buffer.name} is of the kind {buffer.kind} and cannot lie in pool {pool.name}, of the kind"
                f" {pool.kind}",
                label="memory.C2",
            )
        if pool.read_only and buffer.kind != "constant":
            raise Invalid(f"buffer {buffer.name} is written, but pool {pool.name} is read-only", label="memory.C2")
    if not candidates:
        raise Invalid(
            f"no pool can hold buffer {buffer.name}: there is none of the kind {buffer.kind} for it", label="memory.C2"
        )
    if buffer.offset is not None and not buffer.pools:
        raise Invalid(
            f"buffer {buffer.name} has been placed by hand at {buffer.offset}, but in which pool? Name it first in its"
            " pools",
            label="memory.C6",
        )
    found = tuple(p for p in candidates if p.alignment % buffer.alignment == 0)
    if not found or (buffer.offset is not None and found[0] is not candidates[0]):
        raise Invalid(
            f"buffer {buffer.name} wants the alignment {buffer.alignment}, but addresses are aligned to "
            + ", ".join(f"{p.alignment} in pool {p.name}" for p in candidates),
            label="memory.C4",
        )
    return found


def check_names(problem: Problem) -> None:
    """Invalid: two buffers, or two pools, of one name."""
    for what, names in (("buffers", [b.name for b in problem.buffers]), ("pools", [p.name for p in problem.pools])):
        seen: set[str] = set()
        for name in names:
            if name in seen:
                raise Invalid(f"two {what} are called {name!r}; names must differ", label="memory.C1")
            seen.add(name)


def check_pool(pool: Pool) -> None:
    """Invalid: the limit or the alignment of a pool makes no sense."""
    if pool.limit is not None and pool.limit < 0:
        raise Invalid(f"pool {pool.name} has the limit {pool.limit}; it must be 0 or more, or none", label="memory.C3")
    if pool.alignment < 1:
        raise Invalid(f"pool {pool.name} has the alignment {pool.alignment}; it must be 1 or more", label="memory.C4")


def check_buffer(buffer: BufferInfo) -> None:
    """Invalid: size, alignment or life of a buffer make no sense."""
    if isinstance(buffer.nbytes, int) and buffer.nbytes < 0:
        raise Invalid(f"buffer {buffer.name} has {buffer.nbytes} bytes; it must be 0 or more", label="memory.C3")
    if buffer.alignment < 1:
        raise Invalid(
            f"buffer {buffer.name} has the alignment {buffer.alignment}; it must be 1 or more", label="memory.C4"
        )
    before: int | None = None
    for start, stop in buffer.live:
        if start >= stop:
            raise Invalid(
                f"buffer {buffer.name} is live in [{start}, {stop}), which is empty; an interval is from its first"
                " position up to, and not including, a later one",
                label="memory.C5",
            )
        if before is not None and start <= before:
            raise Invalid(
                f"the life of buffer {buffer.name} has an interval up to {before} and then one from {start}; intervals"
                " are in increasing order and do not touch",
                label="memory.C5",
            )
        before = stop


def _number(buffer: BufferInfo) -> int:
    if not isinstance(buffer.nbytes, int):
        raise Unsupported(
            f"the size of buffer {buffer.name} is {buffer.nbytes}; planners place numbers of bytes, such as an upper"
            " bound",
            label="memory.C3",
        )
    return buffer.nbytes
