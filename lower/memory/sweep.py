"""First fit without lists of conflicts, for one pool and many buffers (specs/lower.md).

`sweeps` goes in the order of time, as an allocator does, near linear in the number of buffers.
A buffer gets the lowest free bytes when it begins to live, and gives them back when it ends. Played forward, and
backward from the last position to the first. On what programs ask for, such as the tape of a training step, this often
needs no more than is live at once; then no other planner can do better, and none is asked.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence

import numpy as np

from assay.lower.memory.placing import PlacedBuffers
from assay.lower.memory.problem import IndexedProblem


def sweeps(layout: IndexedProblem) -> Iterator[tuple[PlacedBuffers, list[int]]]:
    """What comes out, and the order in which buffers were placed; nothing where there are several pools or hands.
    A life with gaps counts as live in them. Late: the time is up."""
    if len(layout.pools) != 1 or layout.fixed:
        return
    for sign in (1, -1):
        spans = {i: _span(layout, i, sign) for i, n in enumerate(layout.nbytes) if n and layout.buffers[i].live}
        rest = [i for i in range(len(layout.buffers)) if i not in spans]
        order = sorted(spans, key=lambda i: (spans[i][0], -layout.nbytes[i], i))
        placement = PlacedBuffers(layout, "first")
        offsets = _allocate(layout, order, spans)
        limit = layout.limits[0]
        for i in [*order, *rest]:
            at = offsets.get(i, 0)
            if limit is None or at + layout.nbytes[i] <= limit:
                placement.offset[i], placement.pool[i] = at, 0
        yield placement, [*order, *rest]


def _span(layout: IndexedProblem, index: int, sign: int) -> tuple[int, int]:
    live = layout.buffers[index].live
    first, last = live[0][0], live[-1][1]
    return (first, last) if sign > 0 else (-last, -first)


def _allocate(layout: IndexedProblem, order: list[int], spans: dict[int, tuple[int, int]]) -> dict[int, int]:
    """The offset of each buffer."""
    ends = sorted((spans[i][1], i) for i in order)
    free: list[tuple[int, int]] = []  # what is free beneath the top, in order, no two of them adjacent
    top = gone = 0
    offsets: dict[int, int] = {}
    for i in order:
        layout.deadline.turn()
        while ends[gone][0] <= spans[i][0]:
            j = ends[gone][1]
            top = _give_back(free, top, offsets[j], offsets[j] + layout.nbytes[j])
            gone += 1
        size, step = layout.nbytes[i], layout.buffers[i].alignment
        for k, (low, high) in enumerate(free):
            at = -(-low // step) * step
            if at + size <= high:
                free[k : k + 1] = [gap for gap in ((low, at), (at + size, high)) if gap[0] < gap[1]]
                break
            if k % 1024 == 1023:
                layout.deadline.check()
        else:
            last = free[-1][0] if free and free[-1][1] == top else top
            at = -(-last // step) * step
            if last != top:
                free.pop()
            if last < at:
                free.append((last, at))
            top = at + size
        offsets[i] = at
    return offsets


def _give_back(free: list[tuple[int, int]], top: int, low: int, high: int) -> int:
    """Bytes are free again; the new top."""
    k = bisect_left(free, (low, high))
    if k < len(free) and free[k][0] == high:
        high = free.pop(k)[1]
    if k > 0 and free[k - 1][1] == low:
        low = free.pop(k - 1)[0]
    if high == top:
        return low
    insort(free, (low, high))
    return top


def is_line(layout: IndexedProblem) -> bool:
    """Whether `in_order` can be used: one pool, no hands, no gaps, and numbers that int64 holds."""
    return (
        len(layout.pools) == 1
        and not layout.fixed
        and layout.dtype is np.int64
        and all(len(b.live) < 2 for b in layout.buffers)
    )


def in_order(layout: IndexedProblem, order: Sequence[int]) -> PlacedBuffers:
    """Each buffer in the lowest gap beside those before it; what does not fit is left out. Late: the time is up."""
    placement = PlacedBuffers(layout, "first")
    points = sorted({p for b in layout.buffers for interval in b.live for p in interval})
    rank = {p: k for k, p in enumerate(points)}
    limit = layout.limits[0]
    low, high, start, stop = (np.empty(len(order), np.int64) for _ in range(4))
    count = 0
    for i in order:
        layout.deadline.turn()
        b, size, at = layout.buffers[i], layout.nbytes[i], 0
        beside = bool(size and b.live)
        first, last = (rank[b.live[0][0]], rank[b.live[0][1]]) if beside else (0, 0)
        if beside and count:
            there = np.flatnonzero((start[:count] < last) & (stop[:count] > first))
            if len(there) and size > low[there[0]]:
                tops = np.maximum.accumulate(high[there])
                tops = -(-tops // b.alignment) * b.alignment if b.alignment > 1 else tops
                fits = np.flatnonzero(tops[:-1] + size <= low[there[1:]])
                at = int(tops[fits[0]] if len(fits) else tops[-1])
        if limit is not None and at + size > limit:
            continue
        placement.offset[i], placement.pool[i] = at, 0
        if beside:
            k = int(np.searchsorted(low[:count], at))
            for array, value in ((low, at), (high, at + size), (start, first), (stop, last)):
                array[k + 1 : count + 1] = array[k:count]
                array[k] = value
            count += 1
    return placement
