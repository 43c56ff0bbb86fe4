"""Searches with other orders, again and again, most of them short, until one ends (specs/lower.md).

Some orders end in hundreds of nodes where others take millions, and it is not known beforehand which: so most searches
are given up soon, and now and then one may be long. What has failed in one holds in all: it is remembered, so that no
search repeats it.
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
    """How a search orders buffers: by these measures in turn, and its `Search` option. Of a buffer's sections: T, the
    largest load, and L, that in classes. S: bytes; W: sections; A: bytes times positions; B: bytes times sections."""

    measures: str
    tight: bool = False


STYLES = (Style("LWA"), Style("TWA"), Style("LB"), Style("TWA", tight=True), Style("TS"), Style("LSW", tight=True))
NOISE = (0.02, 0.05, 0.1, 0.2, 0.4)
CLASSES = (20, 10, 50, 5, 200)
EACH = 3
"""Nodes of the shortest searches, times the number of buffers. Most that end with a plan end soon, whatever the
size."""


class Attack:
    """Searches at one capacity. It can be put aside and taken up again: what has failed is kept."""

    def __init__(self, r: Reduced, capacity: int, seed: int) -> None:
        self.r = r
        self.capacity = capacity
        self.failed: set[bytes] = set()
        self.rng = random.Random(seed)
        self.count = 0

    def run(self, budget: Budget) -> list[int] | None:
        """Offsets in units within the capacity; None: it is proved that there are none. Spent: neither is known yet."""
        while True:
            k, self.count = self.count, self.count + 1
            style = STYLES[k % len(STYLES)]
            noise = self.rng.choice(NOISE) if k >= len(STYLES) else 0.0  # first in its plain order
            limit = EACH * len(self.r.nbytes) * luby(k // len(STYLES) + 1)
            rank = ranked(self.r, self.capacity, style, noise, self.rng.choice(CLASSES), self.rng)
            search = Search(self.r, self.capacity, rank, budget, limit, self.failed, style.tight)
            try:
                return search.run()
            except Spent:
                if budget.over:
                    raise


def luby(k: int) -> int:
    """The k-th of 1, 1, 2, 1, 1, 2, 4, 1, ...: every length gets as much effort (Luby, Sinclair and Zuckerman,
    1993)."""
    while k & (k + 1):
        k -= (1 << k.bit_length() - 1) - 1
    return (k + 1) // 2


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
