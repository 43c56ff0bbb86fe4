"""Blocks of a segment, as few as possible (specs/lower.md, "schedule").

Besides the two reductions of `assay.lower.schedule.blocks`: parallel chains that share no tensor with anything beside
them are one chain, their blocks sorted as Abdel-Wahab and Kameda (1978) and Monma and Sidney (1979) do for
series-parallel graphs. Such a graph becomes a single chain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import merge

from assay.lower.schedule.blocks import MOST_REACHED, Blocks, total
from assay.lower.schedule.task_graph import TaskGraph


def reduced_blocks(work: TaskGraph, groups: Sequence[Sequence[int]], later: Callable[[int], bool]) -> Blocks:
    """The blocks of a segment, as few as the reductions make them."""
    blocks = Blocks(work, groups, later)
    while blocks.contract() | interleave(blocks):
        if blocks.reach is not None or len(blocks.calls) <= MOST_REACHED:
            blocks = Blocks(work, blocks.groups(), later, blocks.edges)  # now more is known of who comes before whom
    return blocks


def chains(blocks: Blocks) -> list[list[int]]:
    """The blocks as maximal chains without side entrances or exits."""
    found = []
    for i in blocks.order:
        if i in blocks.calls and not (len(blocks.preds[i]) == 1 and len(blocks.succs[min(blocks.preds[i])]) == 1):
            chain = [i]
            while len(blocks.succs[chain[-1]]) == 1 and len(blocks.preds[min(blocks.succs[chain[-1]])]) == 1:
                chain.append(min(blocks.succs[chain[-1]]))
            found.append(chain)
    return found


def interleave(blocks: Blocks) -> bool:
    """Make parallel chains that share nothing one chain; whether any were."""
    groups: dict[tuple[frozenset[int], frozenset[int]], list[list[int]]] = {}
    for chain in chains(blocks):
        if not any(p.reads for b in chain for p in blocks.parts[b]):
            ends = frozenset(blocks.preds[chain[0]]), frozenset(blocks.succs[chain[-1]])
            groups.setdefault(ends, []).append(chain)
    changed = False
    for beside in groups.values():
        if len(beside) > 1:
            changed = True
            preds, succs = blocks.preds[beside[0][0]].copy(), blocks.succs[beside[0][-1]].copy()
            row = list(merge(*beside, key=lambda b: rank(blocks, b)))
            for b in row:
                for p in blocks.preds[b]:
                    blocks.succs[p].discard(b)
                for s in blocks.succs[b]:
                    blocks.preds[s].discard(b)
            blocks.edges += [(blocks.calls[a][-1], blocks.calls[b][0]) for a, b in zip(row, row[1:], strict=False)]
            for b, left, right in zip(row, [None, *row], [*row[1:], None], strict=False):
                blocks.preds[b] = set(preds) if left is None else {left}
                blocks.succs[b] = set(succs) if right is None else {right}
            for p in preds:
                blocks.succs[p].add(row[0])
            for s in succs:
                blocks.preds[s].add(row[-1])
    return changed


def rank(blocks: Blocks, block: int) -> tuple[int, int]:
    """What runs first among independent blocks: what frees, the low hills first; then the deep falls first."""
    hill, net = total(blocks.parts[block])
    return (0, hill) if net <= 0 else (1, net - hill)
