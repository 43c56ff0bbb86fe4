"""The problem of memory planning, and its answer (specs/semantics.md, "Memory planning").

Buffers with lives want bytes in pools. A life is a set of positions: points of a program in the order of its text, of
which several lie in one kernel and some on one path only. Two buffers that are live at one position are in conflict:
they must not share a byte. Planners (`assay.lower.memory`) answer a `Problem` with a `Plan`; `assay.verify` proves it.

    problem = Problem((BufferInfo("a", 64, ((0, 2),)), BufferInfo("b", 64, ((1, 3),))), (Pool("workspace"),))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.scalar.expression import Dim, Expr, Var

Interval: TypeAlias = tuple[int, int]
"""Positions from the first up to, and not including, the second."""

Bounds: TypeAlias = Mapping[Var, tuple[int, int | None]]
"""The least and the greatest value of each symbol in sizes; None: no greatest is known."""


def range_of(bounds: Bounds, symbol: Var) -> tuple[int, int | None]:
    """What is known of a symbol: 0 or more where nothing is said, as every dim is."""
    return bounds.get(symbol, (0, None))


@dataclass(frozen=True)
class Pool:
    """Memory that buffers can share (TVM's PoolInfo).

    `limit` is its size in bytes if it has one; every address in it is aligned to `alignment` bytes at most. Constants
    lie in pools of the kind "constant", what is written never in a read-only one. Such a pool becomes the `section` of
    the object file, "" for the usual one. The six figures are for whoever ranks pools (Hz, bytes a cycle, cycles,
    bytes), 0 where unknown; no planner of ours reads them.
    """

    name: str
    kind: Literal["workspace", "constant"] = "workspace"
    device: VirtualDevice = ANYWHERE
    limit: int | None = None
    alignment: int = 64
    read_only: bool = False
    clock: int = 0
    read_bandwidth: int = 0
    write_bandwidth: int = 0
    read_latency: int = 0
    write_latency: int = 0
    burst: int = 0
    section: str = ""


@dataclass(frozen=True)
class BufferInfo:
    """A buffer to place (TVM's BufferInfo).

    `nbytes` is a number, or an expression over symbols where it is not known before a run. `live` are its positions,
    as intervals in increasing order that do not touch. `pools` are the pools that may hold it, the most wanted first;
    empty: any of its kind. With an `offset`, it has been placed by hand, in the first of `pools`. `producer` says what
    fills it, for messages.
    """

    name: str
    nbytes: Dim
    live: tuple[Interval, ...]
    alignment: int = 1
    kind: Literal["workspace", "constant"] = "workspace"
    pools: tuple[str, ...] = ()
    offset: int | None = None
    producer: str = ""


@dataclass(frozen=True)
class Problem:
    """Buffers to place, the pools there are, in order of priority, and what is known of the symbols in sizes.

    `dims` are 0 or more in every run: of values of the symbols at which one is not, no plan is asked anything.
    """

    buffers: tuple[BufferInfo, ...]
    pools: tuple[Pool, ...]
    bounds: Bounds = field(default_factory=dict)
    dims: tuple[Expr, ...] = ()

    def candidates(self, buffer: BufferInfo) -> tuple[Pool, ...]:
        """The pools that may hold a buffer, the most wanted first."""
        if buffer.pools:
            by_name = {p.name: p for p in self.pools}
            return tuple(by_name[n] for n in buffer.pools)
        return tuple(p for p in self.pools if p.kind == buffer.kind and (buffer.kind == "constant" or not p.read_only))


@dataclass(frozen=True)
class Place:
    """Where a buffer lies: bytes from the start of a pool."""

    pool: str
    offset: Dim


@dataclass(frozen=True)
class Plan:
    """The place of every buffer, the size of every pool in bytes, and what the planner says of it.

    `bound` is a size of the first pool that holds anything: its planner says that no plan with the same buffers there
    needs less. `optimal` says that this plan needs no more. Neither is trusted by a check.

    `others` are more arrangements of the same buffers: each is a plan by itself, good at all sizes. A run takes the one
    whose pools are smallest together at its sizes, the first of equal ones; this one is the first of all
    (`arrangements`, `chosen`).
    """

    places: Mapping[str, Place]
    sizes: Mapping[str, Dim]
    planner: str = ""
    bound: int = 0
    optimal: bool = False
    others: tuple[Plan, ...] = ()


def arrangements(plan: Plan) -> tuple[Plan, ...]:
    """The arrangements of a plan, each a plan of one; the plan itself where it is the only one."""
    return (replace(plan, others=()), *plan.others) if plan.others else (plan,)


def chosen(plan: Plan, number: Callable[[Dim], int]) -> Plan:
    """The arrangement that a run takes at the sizes at which `number` evaluates."""
    found = arrangements(plan)
    return found[0] if len(found) == 1 else min(found, key=lambda p: sum(map(number, p.sizes.values())))


def overlap(a: tuple[Interval, ...], b: tuple[Interval, ...]) -> bool:
    """Whether two lives share a position."""
    i = j = 0
    while i < len(a) and j < len(b):
        if a[i][0] < b[j][1] and b[j][0] < a[i][1]:
            return True
        if a[i][1] <= b[j][1]:
            i += 1
        else:
            j += 1
    return False


def conflicts(buffers: Iterable[BufferInfo]) -> Iterator[tuple[BufferInfo, BufferInfo]]:
    """Every pair of buffers that are live at one position, each once, the one that comes first in `buffers` first."""
    order = list(buffers)
    starts = sorted((start, i, stop) for i, b in enumerate(order) for start, stop in b.live if start < stop)
    seen: set[tuple[int, int]] = set()
    live: dict[int, int] = {}
    for start, i, stop in starts:
        live = {j: end for j, end in live.items() if end > start}
        for j in live:
            pair = (min(i, j), max(i, j))
            if pair not in seen:
                seen.add(pair)
                yield order[pair[0]], order[pair[1]]
        live[i] = stop


def pressure(buffers: Iterable[BufferInfo]) -> list[tuple[int, int]]:
    """Memory pressure: bytes live from each position at which they change, in order. Sizes must be numbers."""
    change: dict[int, int] = {}
    for b in buffers:
        assert isinstance(b.nbytes, int)
        for start, stop in b.live:
            change[start] = change.get(start, 0) + b.nbytes
            change[stop] = change.get(stop, 0) - b.nbytes
    found: list[tuple[int, int]] = []
    live = 0
    for position, delta in sorted(change.items()):
        live += delta
        if not found or found[-1][1] != live:
            found.append((position, live))
    return found


def lower_bound(buffers: Iterable[BufferInfo]) -> int:
    """The most bytes live at one position: no pool that holds all of them can be smaller."""
    return max((live for _, live in pressure(buffers)), default=0)
