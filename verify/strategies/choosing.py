"""Choices: all that is made here is made by calls of `pick(n)`, a number below n (specs/verify.md, "Programs").

0 is always the simplest choice. So one maker runs under `random.Random`, fast, and under Hypothesis, where its programs
shrink. The choices that made something can be kept, played again, and made fewer and smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

T = TypeVar("T")
Pick = Callable[[int], int]
"""A number from 0 up to but not including the argument, which is at least 1; 0 is the simplest choice."""


def by_random(random: Random) -> Pick:
    """Choices of a random number generator."""
    return lambda n: random.randrange(n)


def one_of(pick: Pick, items: Sequence[T]) -> T:
    """An element of a sequence that is not empty; the first is the simplest."""
    return items[pick(len(items))] if len(items) > 1 else items[0]


@dataclass
class Tape:
    """Choices that are kept. Those of `given` come first, each taken below n; then those of `more`, or 0 for ever."""

    given: Sequence[int] = ()
    more: Pick | None = None
    taken: list[int] = field(default_factory=list)

    def __call__(self, n: int) -> int:
        """Choose a number below n, and keep it."""
        at = len(self.taken)
        if at < len(self.given):
            chosen = min(self.given[at], n - 1)
        else:
            chosen = 0 if self.more is None else self.more(n)
        self.taken.append(chosen)
        return chosen


def simpler(picks: Sequence[int]) -> Iterator[list[int]]:
    """Lists that are simpler than one: a part cut out, a part set to 0, one choice lowered, one lowered and a part
    behind it cut out. Large steps first."""
    n = len(picks)
    width = n
    while width >= 1:
        for start in range(0, n, width):
            yield [*picks[:start], *picks[start + width :]]
        if width > 1:
            for start in range(0, n, width):
                if any(picks[start : start + width]):
                    yield [*picks[:start], *[0] * len(picks[start : start + width]), *picks[start + width :]]
        width //= 2
    for at, chosen in enumerate(picks):
        for lower in dict.fromkeys((0, chosen // 2, chosen - 1)):
            if 0 <= lower < chosen:
                yield [*picks[:at], lower, *picks[at + 1 :]]
    # a choice often says how many follow: fewer, and those gone
    for at, chosen in enumerate(picks):
        for lower in dict.fromkeys((0, chosen - 1)):
            if 0 <= lower < chosen:
                yield from ([*picks[:at], lower, *picks[at + 1 + width :]] for width in (1, 2, 3, 4, 6, 8))


def reduce_picks(
    picks: Sequence[int], still: Callable[[Sequence[int]], Sequence[int] | None], tries: int = 500
) -> list[int]:
    """A simpler list of choices of which `still` says what was wanted: it gives the choices that were really taken, or
    None where what they make is not wanted. At most `tries` questions are asked.

    A list is simpler when it is shorter, or as long and smaller in the first place where the two differ. The result
    is never less simple than `picks`.
    """
    best = list(picks)
    asked: set[tuple[int, ...]] = {tuple(best)}
    while True:
        for candidate in simpler(best):
            key = tuple(candidate)
            if key in asked:
                continue
            if tries <= 0:
                return best
            asked.add(key)
            tries -= 1
            taken = still(candidate)
            if taken is None:
                continue
            kept = _without_tail(taken)
            if (len(kept), kept) < (len(best), best):
                best = kept
                break
        else:
            return best


def _without_tail(picks: Sequence[int]) -> list[int]:
    """A tape goes on with 0: zeros at its end say nothing."""
    return list(picks[: max((i for i, pick in enumerate(picks, 1) if pick), default=0)])
