"""Planners that place every buffer once: by size, by conflicts, and first fit in several orders (specs/lower.md).

The first two are those of TVM's USMP (RFC 0009), with its order: ties go to the other of the two counts, then to the
greater name. A conflict counts whichever side told of it, a pool where a buffer does not fit stays closed to it, and an
offset is aligned for the buffer that gets it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from assay.lower.memory.limits import refuse
from assay.lower.memory.options import Options
from assay.lower.memory.placing import PlacedBuffers
from assay.lower.memory.problem import IndexedProblem
from assay.lower.memory.sweep import in_order, is_line, sweeps
from assay.semantics.deadline import Late
from assay.semantics.memory import Plan, Problem


def greedy_size(problem: Problem, options: Options) -> Plan:
    """The largest buffer first, each above all that it conflicts with. Invalid: one fits nowhere."""
    return once(problem, options, by_size, "greedy-size")


def greedy_conflicts(problem: Problem, options: Options) -> Plan:
    """The buffer with most conflicts first, each above all that it conflicts with. Invalid: one fits nowhere."""
    return once(problem, options, by_conflicts, "greedy-conflicts")


def by_size(layout: IndexedProblem, open: frozenset[int] = frozenset()) -> PlacedBuffers:
    """What `greedy-size` places, without the limits of the pools in `open`."""
    return _above(layout, lambda size, conflicts, name: (size, conflicts, name), open)


def by_conflicts(layout: IndexedProblem, open: frozenset[int] = frozenset()) -> PlacedBuffers:
    """What `greedy-conflicts` places, without the limits of the pools in `open`."""
    return _above(layout, lambda size, conflicts, name: (conflicts, size, name), open)


def _above(
    layout: IndexedProblem, key: Callable[[int, int, str], tuple[int, int, str]], open: frozenset[int]
) -> PlacedBuffers:
    """Each buffer above all that it conflicts with, those of the greatest key first."""

    def key_of(i: int) -> tuple[int, int, str]:
        return key(layout.nbytes[i], len(layout.conflicts.of(i, layout.deadline)), layout.buffers[i].name)

    placement = PlacedBuffers(layout, "above", open)
    placement.put_all(sorted(range(len(layout.buffers)), key=key_of, reverse=True))
    return placement


def once(
    problem: Problem, options: Options, attempt: Callable[[IndexedProblem, frozenset[int]], PlacedBuffers], planner: str
) -> Plan:
    """The plan of one attempt. Invalid: a buffer fits nowhere."""
    layout = IndexedProblem(problem, options.deadline)
    placement = attempt(layout, frozenset())
    if placement.stuck():
        refuse(layout, planner, lambda open: attempt(layout, open))
    return placement.plan(planner)


def first_fit(problem: Problem, options: Options) -> Plan:
    """First fit in each of several orders: the best plan of them. Invalid: none of them places everything."""
    return once(problem, options, lambda layout, open: best_first_fit(layout, open)[0], "first-fit")


class _Measures:
    """What the orders of first fit go by: bytes, first position, last, length and load of each buffer."""

    def __init__(self, layout: IndexedProblem) -> None:
        points = sorted({p for b in layout.buffers for interval in b.live for p in interval})
        rank = {p: k for k, p in enumerate(points)}
        load = np.zeros(len(points) + 1, layout.dtype)
        for b, size in zip(layout.buffers, layout.nbytes, strict=True):
            for start, stop in b.live:
                load[rank[start]] += size
                load[rank[stop]] -= size
        load = np.cumsum(load)
        self.size = layout.nbytes
        self.first = [b.live[0][0] if b.live else 0 for b in layout.buffers]
        self.last = [b.live[-1][1] if b.live else 0 for b in layout.buffers]
        self.length = [sum(stop - start for start, stop in b.live) for b in layout.buffers]
        self.load = [
            max((int(load[rank[start] : rank[stop]].max()) for start, stop in b.live), default=0)
            for b in layout.buffers
        ]


ORDERS: tuple[Callable[[_Measures, int], tuple[int, ...]], ...] = (
    lambda m, i: (-m.size[i], m.first[i]),
    lambda m, i: (-m.size[i] * m.length[i], m.first[i]),
    lambda m, i: (m.first[i], -m.size[i]),
    lambda m, i: (-m.length[i], -m.size[i], m.first[i]),
    lambda m, i: (-m.last[i], -m.size[i]),
    lambda m, i: (-m.load[i], -m.length[i], -m.size[i]),
)
"""Largest first, largest area first, by time, longest first, last to die first, under the highest load first."""


def orders(layout: IndexedProblem) -> Iterator[list[int]]:
    """The orders of first fit."""
    measures = _Measures(layout)
    everything = range(len(layout.buffers))
    for key in ORDERS:
        keys = [key(measures, i) for i in everything]
        yield sorted(everything, key=keys.__getitem__)


def best_first_fit(layout: IndexedProblem, open: frozenset[int] = frozenset()) -> tuple[PlacedBuffers, list[int]]:
    """The best placement of all orders, and its order; some buffers are stuck where no order places everything.

    The quickest comes first, and nothing more is tried where one needs no more than is live at once. Late: the time is
    up before there is one.
    """
    bound = layout.bound(range(len(layout.buffers)))
    best: tuple[PlacedBuffers, list[int]] | None = None
    try:
        for placement, order in _fits(layout, open):
            if best is None or placement.score() < best[0].score():
                best = placement, order
                if len(layout.pools) == 1 and placement.score() <= (0, bound):
                    break
    except Late:
        if best is None:
            raise
    assert best is not None
    return best


def _fits(layout: IndexedProblem, open: frozenset[int]) -> Iterator[tuple[PlacedBuffers, list[int]]]:
    if not open:
        yield from sweeps(layout)
    line = not open and is_line(layout)
    for order in orders(layout):
        if line:
            yield in_order(layout, order), order
            continue
        placement = PlacedBuffers(layout, "first", open)
        placement.put_all(order)
        yield placement, order
