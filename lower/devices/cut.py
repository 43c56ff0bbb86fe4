"""Fewest copies: labels for domains by minimum cuts (specs/lower.md, "devices").

A value has a label, where it is, and so has each domain in which it is wanted; it costs a copy for each label in which
it is wanted and is not. With two labels the least cost is that of a minimum cut; with more, one label after the other
may take over domains from the rest, each time by a minimum cut, until no such move makes it cheaper (Boykov, Veksler,
Zabih, "Fast approximate energy minimization via graph cuts", 2001); where few have a choice, that is where a search of
all begins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

ENDLESS = 1 << 60
FEW = 12
"""Up to so many domains with a choice, the best labels are found whatever their number."""


class Wanted(NamedTuple):
    """A value of that many tensors, which is in a domain, and the domains in which it is wanted."""

    tensors: int
    at: int
    wanted: tuple[int, ...]


class Flow:
    """A network of integer capacities. Node 0 is the source, node 1 the sink (Dinic, 1970)."""

    def __init__(self) -> None:
        self.out: list[list[int]] = [[], []]
        self.to: list[int] = []
        self.left: list[int] = []

    def node(self) -> int:
        """Add a node and give its number."""
        self.out.append([])
        return len(self.out) - 1

    def arc(self, a: int, b: int, capacity: int) -> None:
        """Add an arc from a to b and its reverse of capacity 0. Arcs that no flow can use are left out."""
        if a == b or b == 0 or a == 1:
            return
        for tail, head, c in ((a, b, capacity), (b, a, 0)):
            self.out[tail].append(len(self.to))
            self.to.append(head)
            self.left.append(c)

    def run(self) -> None:
        """Push as much as there can be from the source to the sink."""
        while (level := self._levels()) is not None:
            tried = [0] * len(self.out)
            path: list[int] = []
            while True:
                here = self.to[path[-1]] if path else 0
                if here == 1:
                    pushed = min(self.left[e] for e in path)
                    for e in path:
                        self.left[e] -= pushed
                        self.left[e ^ 1] += pushed
                    full = next(i for i, e in enumerate(path) if not self.left[e])
                    del path[full:]
                    continue
                arcs = self.out[here]
                while tried[here] < len(arcs):
                    e = arcs[tried[here]]
                    if self.left[e] and level[self.to[e]] == level[here] + 1:
                        path.append(e)
                        break
                    tried[here] += 1
                else:
                    if not path:
                        break
                    level[here] = -1
                    path.pop()

    def _levels(self) -> list[int] | None:
        level = [-1] * len(self.out)
        level[0] = 0
        queue = [0]
        for here in queue:
            for e in self.out[here]:
                if self.left[e] and level[self.to[e]] < 0:
                    level[self.to[e]] = level[here] + 1
                    queue.append(self.to[e])
        return level if level[1] >= 0 else None

    def behind(self) -> list[bool]:
        """The nodes on the sink's side of a minimum cut, of all such cuts the one with the fewest."""
        found = [False] * len(self.out)
        found[1] = True
        queue = [1]
        for here in queue:
            for e in self.out[here]:  # the arc back: what it is the reverse of leads here
                there = self.to[e]
                if self.left[e ^ 1] and not found[there]:
                    found[there] = True
                    queue.append(there)
        return found


@dataclass(eq=False)
class Problem:
    """Domains by number, each with the labels that it may have, the first being the one that it had better have; and
    values that are wanted. `known` are labels of domains that are not to be chosen. Labels are numbers."""

    allowed: Mapping[int, Sequence[int]]
    values: Sequence[Wanted]
    known: Mapping[int, int] = field(default_factory=dict)

    def solve(self, labels: int) -> dict[int, int]:
        """A label below `labels` for each domain: as few copies as can be where there are two labels, a local minimum
        where there are more. Of equally good ones that with the most domains at their first label."""
        now = {d: of[0] for d, of in self.allowed.items()}
        cost = self.cost(now)
        start = -1
        while start != cost:
            start = cost
            for label in range(labels):
                moved = self._move(now, label)
                new = self.cost(moved)
                if new < cost:
                    now, cost = moved, new
        met = {d for v in self.values for d in (v.at, *v.wanted)}
        open_ = [d for d, of in self.allowed.items() if d in met and len(of) > 1]
        return now if labels <= 2 or len(open_) > FEW else self._least(now, open_)

    def _least(self, known: Mapping[int, int], open_: Sequence[int]) -> dict[int, int]:
        """The best labels for the `open_` domains, the others being `known`: the cheapest beginnings are gone on with
        first, so the first that is whole is the best. None is gone on with that is worse than what is known."""
        rest = {d: n for d, n in known.items() if d not in open_}
        worst = self.cost(known), sum(known[d] != self.allowed[d][0] for d in open_)
        heap: list[tuple[int, int, int, tuple[int, ...]]] = [(0, 0, 0, ())]
        while True:
            _, moved, depth, taken = heappop(heap)
            if -depth == len(open_):
                return {**known, **{d: self.allowed[d][k] for d, k in zip(open_, taken, strict=True)}}
            for k in range(len(self.allowed[open_[-depth]])):
                begun = *taken, k
                labels = {**rest, **{d: self.allowed[d][j] for d, j in zip(open_, begun, strict=False)}}
                bound = self.cost(labels), moved + (k > 0)
                if bound <= worst:
                    heappush(heap, (*bound, depth - 1, begun))

    def cost(self, labels: Mapping[int, int]) -> int:
        """The number of copies; where not every domain has a label yet, of those that are certain."""
        total = 0
        for v in self.values:
            there = {self._label(w, labels) for w in v.wanted} - {None}
            at = self._label(v.at, labels)
            total += v.tensors * (len(there) - (bool(there) if at is None else at in there))
        return total

    def _label(self, domain: int, labels: Mapping[int, int]) -> int | None:
        found = labels.get(domain)
        return self.known.get(domain) if found is None else found

    def _move(self, now: Mapping[int, int], label: int) -> dict[int, int]:
        """The cheapest way for domains to take a label, or to keep theirs: the source keeps, the sink takes."""
        flow = Flow()
        node: dict[int, int] = {}

        def at(domain: int) -> int:
            if domain not in node:
                if self._label(domain, now) == label:
                    node[domain] = 1
                elif domain in self.allowed and label in self.allowed[domain]:
                    node[domain] = flow.node()
                else:
                    node[domain] = 0
            return node[domain]

        for v in self.values:
            own, x = self._label(v.at, now), at(v.at)
            by: dict[int | None, set[int]] = {}
            for w in v.wanted:
                by.setdefault(self._label(w, now), set()).add(at(w))
            takers = {y for ys in by.values() for y in ys} - {0}
            if takers:  # where one of them takes the label, the value is there or is copied
                flow.arc(x, _any(flow, takers, forwards=True), v.tensors)
            for other, keepers in by.items():
                if other != label:  # where one of them keeps its label, the value keeps it too or is copied
                    flow.arc(_any(flow, keepers, forwards=False), x if own == other else 1, v.tensors)
        flow.run()
        takes = flow.behind()
        return {d: label if d in node and takes[node[d]] else old for d, old in now.items()}


def _any(flow: Flow, nodes: set[int], forwards: bool) -> int:
    """A node that is behind the cut if one of `nodes` is; or, backwards, one before it if one of them is."""
    terminal = 1 if forwards else 0
    if terminal in nodes:
        return terminal
    if len(nodes) == 1:
        return next(iter(nodes))
    made = flow.node()
    for n in sorted(nodes):
        if forwards:
            flow.arc(made, n, ENDLESS)
        else:
            flow.arc(n, made, ENDLESS)
    return made
