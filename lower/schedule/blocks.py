"""Calls that may as well run one right after the other, as blocks (specs/lower.md, "schedule").

Two reductions that keep an order of the least peak: a block moves forward to right after the one it waits for, if that
never needs more; it moves back to right before the one that waits for it, likewise. With these a chain falls into the
hills and valleys of Liu (1987).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from assay.lower.schedule.search import Puzzle
from assay.lower.schedule.task_graph import TaskGraph

FEW = 8
"""More neighbours or shared tensors than this are not looked into: reducing stays linear."""

MOST_REACHED = 1200
"""Up to so many blocks, who comes before whom is known for all pairs."""


@dataclass(frozen=True)
class BlockPart:
    """A piece of a block: the bytes that it needs, those that it adds, and the shared tensors that it may free."""

    hill: int
    net: int
    reads: tuple[int, ...] = ()


class Blocks:
    """A graph of blocks under reduction. Groups of calls come in some order that keeps dependences."""

    def __init__(
        self,
        work: TaskGraph,
        groups: Iterable[Sequence[int]],
        later: Callable[[int], bool] = lambda call: False,
        edges: Sequence[tuple[int, int]] = (),
    ) -> None:
        """`later(call)` says whether a call that is in none of the groups comes after them; `edges` are pairs of calls
        whose order is already chosen."""
        self.work = work
        self.edges = list(edges)
        self.calls: dict[int, deque[int]] = {i: deque(g) for i, g in enumerate(groups)}
        self.block = {call: i for i, group in self.calls.items() for call in group}
        self.preds: dict[int, set[int]] = {}
        self.succs: dict[int, set[int]] = {i: set() for i in self.calls}
        for i, group in self.calls.items():
            self.preds[i] = {self.block[p] for c in group for p in work.before[c] if p in self.block} - {i}
            for p in self.preds[i]:
                self.succs[p].add(i)
        for a, b in self.edges:
            if self.block[a] != self.block[b]:
                self.preds[self.block[b]].add(self.block[a])
                self.succs[self.block[a]].add(self.block[b])
        self.order = self.sorted()
        self.reach = self.reached() if len(self.order) <= MOST_REACHED else None
        self.readers: dict[int, set[int]] = {}
        """The blocks that read a shared tensor, of which any may be the last."""
        self.last: dict[int, int] = {}
        """The block that is sure to be a tensor's last reader; -1 where that lies behind the graph."""
        for t in dict.fromkeys(t for g in self.calls.values() for c in g for t in work.reads[c]):
            self.settle(t, later)
        self.parts: dict[int, list[BlockPart]] = {i: self.fresh(group) for i, group in self.calls.items()}
        self.known: dict[int, tuple[int, int, int, int]] = {}

    def sorted(self) -> list[int]:
        """The blocks, each after those before it; what can come early does."""
        waits = {i: len(p) for i, p in self.preds.items()}
        ready = [(self.calls[i][0], i) for i, n in waits.items() if not n]
        heapify(ready)
        order: list[int] = []
        while ready:
            _, i = heappop(ready)
            order.append(i)
            for s in self.succs[i]:
                waits[s] -= 1
                if not waits[s]:
                    heappush(ready, (self.calls[s][0], s))
        return order

    def reached(self) -> dict[int, int]:
        """For each block all those before it, as bits; and edges that others imply go."""
        found: dict[int, int] = {}
        for i in self.order:
            mask = 0
            for p in self.preds[i]:
                mask |= found[p]
            for p in [p for p in self.preds[i] if mask >> p & 1]:
                self.preds[i].discard(p)
                self.succs[p].discard(i)
            for p in self.preds[i]:
                mask |= 1 << p
            found[i] = mask
        return found

    def settle(self, tensor: int, later: Callable[[int], bool]) -> None:
        """Note which block frees a tensor, or -1 if a call in no block reads it later, as `later` says."""
        inside: set[int] = set()
        for call in self.work.readers[tensor]:
            if call in self.block:
                inside.add(self.block[call])
            elif later(call):
                self.last[tensor] = -1
                return
        if len(inside) == 1:
            self.last[tensor] = min(inside)
            return
        if self.reach is not None:
            mask = sum(1 << b for b in inside)
            for b in inside:
                if not mask & ~self.reach[b] & ~(1 << b):
                    self.last[tensor] = b
                    return
        self.readers[tensor] = inside

    def fresh(self, group: Iterable[int]) -> list[BlockPart]:
        """The parts of a block, from its calls."""
        work, parts = self.work, []
        final = {t: c for c in group for t in work.reads[c]}
        for c in group:
            net, reads = sum(work.size[t] for t in work.makes[c]), []
            for t in work.reads[c]:
                if final[t] == c:
                    if t in self.readers:
                        reads.append(t)
                    elif self.last[t] == self.block[c]:
                        net -= work.size[t]
            parts.append(BlockPart(work.need[c], net, tuple(reads)))
        return joined(parts)

    # --- reductions -----------------------------------------------------------------------------------------------

    def bounds(self, block: int) -> tuple[int, int, int, int]:
        """Hill and net of a block if it frees no shared tensor, and if it frees all that it reads."""
        found = self.known.get(block)
        if found is None:
            parts = self.parts[block]
            freeing = [BlockPart(p.hill, p.net - self.bytes(p.reads)) for p in parts]
            found = self.known[block] = (*total(parts), *total(freeing))
        return found

    def bytes(self, tensors: Iterable[int]) -> int:
        """The total size of these tensors in bytes."""
        return sum(self.work.size[t] for t in tensors)

    def contract(self) -> bool:
        """Merge blocks while that is sure to cost nothing; whether any were."""
        work = deque(self.order)
        waiting = set(work)
        changed = False
        while work:
            b = work.popleft()
            waiting.discard(b)
            if b not in self.calls:
                continue
            pair = self.forward(b) or self.back(b)
            if pair is None:
                continue
            changed = True
            kept = self.merge(*pair)
            for n in (kept, *_few(self.preds[kept]), *_few(self.succs[kept])):
                if n not in waiting:
                    waiting.add(n)
                    work.append(n)
        return changed

    def forward(self, v: int) -> tuple[int, int] | None:
        """A block that `v` may follow at once: all that `v` waits for, and `v` needs and leaves no more than that."""
        if not 0 < len(self.preds[v]) <= FEW or len(self.parts[v]) > FEW:
            return None
        hill, net, _, _ = self.bounds(v)
        for u in sorted(self.preds[v]):
            if net <= 0 and len(self.parts[u]) <= FEW and self.preds[v] - {u} <= self.preds[u]:
                _, most, least, _ = self.bounds(u)
                if most + hill <= least:
                    return u, v
        return None

    def back(self, u: int) -> tuple[int, int] | None:
        """A block that `u` may come right before: the first that waits for `u`, if `u` needs and frees no more."""
        if not 0 < len(self.succs[u]) <= FEW or len(self.parts[u]) > FEW:
            return None
        hill, _, _, net = self.bounds(u)
        for v in sorted(self.succs[u]):
            if net >= 0 and len(self.parts[v]) <= FEW and self.succs[u] - {v} <= self.succs[v]:
                _, _, least, _ = self.bounds(v)
                if hill <= net + least:
                    return u, v
        return None

    def merge(self, u: int, v: int) -> int:
        """`u`, then `v`, as one block, which is given; the one with fewer calls is moved."""
        both = set().union(*(p.reads for p in self.parts[u])) & set().union(*(p.reads for p in self.parts[v]))
        parts = [
            BlockPart(p.hill, p.net, tuple(t for t in p.reads if t not in both)) for p in self.parts[u]
        ] + self.parts[v]
        if len(self.calls[u]) >= len(self.calls[v]):
            keep, gone = u, v
            self.calls[u].extend(self.calls[v])
        else:
            keep, gone = v, u
            self.calls[v].extendleft(reversed(self.calls[u]))
        for p in self.preds.pop(gone):
            self.succs[p].discard(gone)
            if p != keep:
                self.succs[p].add(keep)
                self.preds[keep].add(p)
        for s in self.succs.pop(gone):
            self.preds[s].discard(gone)
            if s != keep:
                self.preds[s].add(keep)
                self.succs[keep].add(s)
        for t in {t for p in self.parts[gone] for t in p.reads}:
            self.readers[t].discard(gone)
            self.readers[t].add(keep)
        alone = {t for p in parts for t in p.reads if len(self.readers[t]) == 1}
        self.parts[keep] = joined(
            BlockPart(
                p.hill,
                p.net - self.bytes(t for t in p.reads if t in alone),
                tuple(t for t in p.reads if t not in alone),
            )
            for p in parts
        )
        del self.parts[gone], self.calls[gone]
        self.known.pop(gone, None)
        self.known.pop(keep, None)
        return keep

    # --- what is left ---------------------------------------------------------------------------------------------

    def groups(self) -> list[list[int]]:
        """The calls of each block, blocks in an order that keeps dependences."""
        return [list(self.calls[i]) for i in self.sorted()]

    def puzzle(self, start: int, end: int) -> tuple[Puzzle, list[list[int]]]:
        """What is left for the search, and the calls of each of its blocks."""
        order = self.sorted()
        number = {b: i for i, b in enumerate(order)}
        shared = {t: (sum(1 << number[b] for b in r), self.work.size[t]) for t, r in self.readers.items()}
        parts = [[(p.hill, p.net, tuple(shared[t] for t in p.reads)) for p in self.parts[b]] for b in order]
        before = [sorted(number[p] for p in self.preds[b]) for b in order]
        after = [sorted(number[s] for s in self.succs[b]) for b in order]
        return Puzzle(parts, before, after, start, end), [list(self.calls[b]) for b in order]


def _few(blocks: set[int]) -> list[int]:
    return sorted(blocks) if len(blocks) <= FEW else []


def joined(parts: Iterable[BlockPart]) -> list[BlockPart]:
    """The same parts, those that free nothing shared joined with the next."""
    found: list[BlockPart] = []
    for p in parts:
        if found and not found[-1].reads:
            first = found.pop()
            p = BlockPart(max(first.hill, first.net + p.hill), first.net + p.net, p.reads)
        found.append(p)
    return found


def total(parts: Iterable[BlockPart]) -> tuple[int, int]:
    """Hill and net of parts one after another."""
    hill = net = 0
    for p in parts:
        hill, net = max(hill, net + p.hill), net + p.net
    return hill, net
