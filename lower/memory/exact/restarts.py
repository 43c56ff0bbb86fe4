"""Searches with other orders, again and again, each with more nodes, until one ends (specs/lower.md).

Some orders end in hundreds of nodes where others take millions, and nobody knows beforehand which. What has failed in
one search holds in all: it is remembered, so that no search repeats it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from assay.lower.memory.exact.reduction import Reduced
from assay.lower.memory.exact.search import Budget, Search, Spent
from assay.lower.memory.problem import Array


@dataclass(frozen=True)
class Style:
    """How a search orders buffers: by these measures in turn, and its `Search` options. Of a buffer's tightest section:
    T, its load, and L, that in classes. S: bytes; W: sections; A:
    bytes times positions; B: bytes times sections."""

    measures: str
    buckets: int = 0
    tight: bool = False


STYLES = (Style("LWA"), Style("LWA", tight=True), Style("B", 100), Style("TWA"), Style("LSW"))
TURNS = (0, 1, 2, 3, 2, 3, 4)
"""In which order styles take turns."""
NOISE = (0.02, 0.1, 0.3)
CLASSES = (20, 10, 50, 5, 200)
FIRST, NEXT, MORE = 2000, 1000, 20
"""Nodes of the first search of each style, of the next ones, and how many more each gets than the one before."""
LONG, TIMES = 25, 10
"""Every so many searches, one gets so many times the nodes: most that end with a plan end soon, proofs do not."""


class Attack:
    """Searches at one capacity. It can be put aside and taken up again: what has failed is kept."""

    def __init__(self, r: Reduced, capacity: int, seed: int) -> None:
        self.r = r
        self.capacity = capacity
        self.failed: set[bytes] = set()
        self.rng = random.Random(seed)
        self.count = 0

    def run(self, budget: Budget) -> list[int] | None:
        """Offsets in units within the capacity; None: it is proved that there are none. Spent: nobody knows yet."""
        while True:
            k, self.count = self.count, self.count + 1
            if k < len(STYLES):
                style, noise, limit = STYLES[k], 0.0, FIRST  # in its plain order
            else:
                style, noise = STYLES[TURNS[k % len(TURNS)]], self.rng.choice(NOISE)
                limit = (NEXT + MORE * k) * (TIMES if k % LONG == LONG - 1 else 1)
            rank = ranked(self.r, self.capacity, style, noise, CLASSES[k // len(TURNS) % len(CLASSES)], self.rng)
            search = Search(self.r, self.capacity, rank, budget, limit, self.failed, style.buckets, style.tight)
            try:
                return search.run()
            except Spent:
                if budget.over:
                    raise


def ranked(r: Reduced, capacity: int, style: Style, noise: float, classes: int, rng: random.Random) -> Array:
    """The place of each buffer in an order: large measures first, each up to some noise."""
    n = len(r.nbytes)
    scale = float(max(1, capacity // r.unit))
    widths = np.add.reduceat((r.high - r.low).astype(float), r.first[:-1]) if n else np.zeros(0)
    sizes = np.array([float(s) / scale for s in r.size.tolist()])
    areas = sizes * np.array([float(t) for t in r.time])
    load = np.array([float(x) / scale for x in r.load.tolist()])
    loads = np.array([
        max(float(load[r.low[k] : r.high[k]].max()) for k in range(r.first[i], r.first[i + 1])) for i in range(n)
    ])  # fmt: skip
    measures = {"S": sizes, "W": widths, "A": areas, "B": sizes * widths, "L": np.round(loads * classes), "T": loads}
    keys = []
    for name in style.measures:
        values = measures[name]
        if name != "L":
            values = values * (1 + noise * np.array([rng.random() - 0.5 for _ in range(n)]))
        keys.append(-values)
    order = np.lexsort((np.arange(n), *reversed(keys)))
    rank = np.empty(n, np.int64)
    rank[order] = np.arange(n)
    return rank
