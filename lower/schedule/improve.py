"""A better order by solving again what is around the peak (specs/lower.md, "schedule").

The calls next to the peak are a small problem of their own: what ran before them has run, what comes after them waits.
If some order of theirs has a lower peak, the whole order has, once that is done wherever it is as high.
"""

from __future__ import annotations

from collections.abc import Sequence

from assay.lower.schedule.reduce import reduced_blocks
from assay.lower.schedule.search import best_order
from assay.lower.schedule.task_graph import TaskGraph, profile

REACHES = (8, 32, 64, 128, 256, 512)
"""How far a window goes to both sides of the peak, one tried after another."""

SHARES = (64, 16, 4, 1)
"""The part of the effort that one window may take is one in so many: little at first, more where that is not enough."""


def improve_order(work: TaskGraph, order: Sequence[int], bound: int, effort: int) -> list[int]:
    """The order, with a lower peak where the windows allow one; no lower than `bound`."""
    best, left, share = list(order), effort, 0
    while left > 0 and share < len(SHARES):
        lives = profile(work, best)
        left -= len(best)
        top = max((high for _, high in lives), default=0)
        if top <= bound:
            break
        at = next(i for i, (_, high) in enumerate(lives) if high == top)
        for reach in REACHES:
            low, high = max(0, at - reach), min(len(best), at + reach + 1)
            below = max((h for i, (_, h) in enumerate(lives) if h < top and not low <= i < high), default=0)
            found = _window(work, best, lives, low, high, (max(bound, below), top, min(left, effort // SHARES[share])))
            left -= 8 * (high - low) + found[1]
            if found[0]:
                best[low:high] = found[0]
                break
            if left <= 0 or high - low == len(best):
                share += 1
                break
        else:
            share += 1
    return best


def _window(
    work: TaskGraph, order: list[int], lives: list[tuple[int, int]], low: int, high: int, limits: tuple[int, int, int]
) -> tuple[list[int], int]:
    """A better order of the calls from `low` to `high`, none if there is none, and the effort spent."""
    ends = set(order[high:])
    blocks = reduced_blocks(work, [[c] for c in order[low:high]], ends.__contains__)
    puzzle, groups = blocks.puzzle(lives[low][0], lives[high][0] if high < len(order) else 0)
    found = best_order(puzzle, *limits)
    return [c for b in found.order or () for c in groups[b]], found.spent
