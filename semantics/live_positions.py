"""Before and after, in a text with choices and loops (specs/semantics.md, "Memory planning").

Positions are the places of a text in its order; a choice is a range of them whose two arms exclude each other.
Something is live where one use of it may have come before, or is right here, and one may be to come. A use inside a
loop is a use all over the loop: hand over the loop's range. The work is linear in the uses and in the arms that are
around some of them but not around all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from assay.semantics.memory import Interval

Intervals: TypeAlias = tuple[Interval, ...]

TOP = -1
"""In no arm."""


@dataclass(frozen=True)
class BranchRange:
    """Positions from `start` up to `middle` are its first arm, those from there up to `stop` the second; both may be
    empty. What it chooses by is read before `start`. It stands in the arm `arm`.

    The arms of choice number c are 2 * c and 2 * c + 1.
    """

    start: int
    middle: int
    stop: int
    arm: int = TOP


@dataclass(frozen=True)
class UseRange:
    """A use somewhere from `start` up to `stop`; the innermost arm around that is `arm`.

    `after` are those of the positions at which it may have happened, `before` those at which it may be to come, for a
    use that has choices of its own; None: all of them.
    """

    start: int
    stop: int
    arm: int = TOP
    after: Intervals | None = None
    before: Intervals | None = None


class LivePositions:
    """A text of `count` positions with these choices."""

    def __init__(self, count: int, choices: Sequence[BranchRange] = ()) -> None:
        self.count = count
        self.choices = choices
        self._back = [BranchRange(count - c.stop, count - c.middle, count - c.start, _other(c.arm)) for c in choices]

    def after(self, uses: Sequence[UseRange], within: Interval | None = None) -> Intervals:
        """The positions at which a use may have happened, but only those `within` a range around all uses.

        `uses` are in the order of the text and do not overlap.
        """
        return _reached([(u.start, u.stop, u.arm, u.after) for u in uses], self.choices, within or (0, self.count))

    def before(self, uses: Sequence[UseRange], within: Interval | None = None) -> Intervals:
        """The positions at which a use may be to come, or is right there: the same, read backwards."""
        n = self.count
        back = [
            (n - u.stop, n - u.start, _other(u.arm), None if u.before is None else _mirrored(u.before, n))
            for u in reversed(uses)
        ]
        start, stop = within or (0, n)
        return _mirrored(_reached(back, self._back, (n - stop, n - start)), n)

    def live(self, uses: Sequence[UseRange]) -> Intervals:
        """The positions at which a use may have happened and one, perhaps the same, may be to come."""
        if not uses:
            return ()
        within = uses[0].start, uses[-1].stop
        return meet(self.after(uses, within), self.before(uses, within))


def _reached(
    uses: Iterable[tuple[int, int, int, Intervals | None]], choices: Sequence[BranchRange], within: Interval
) -> Intervals:
    """The positions behind some use on some path. What no path reaches are holes behind the first use."""
    first: int | None = None
    met: dict[int, tuple[int, bool]] = {}
    """Of an arm: where its first use is, and whether a use comes before the arm."""
    holes: list[Interval] = []
    for start, stop, arm, own in uses:
        new: list[int] = []
        while arm != TOP and arm not in met and not _around(arm, choices, within):
            new.append(arm)
            arm = choices[arm // 2].arm
        if not new:
            entered = first is not None  # the use that made this arm known comes before
        else:
            earliest, entered = met.get(arm, (start if first is None else first, False))
            entered = entered or earliest < choices[new[-1] // 2].start
            for a in new:
                met[a] = start, entered
                if a % 2 and not entered:
                    holes.append((choices[a // 2].middle, start))
        if own is not None and not entered:
            holes += minus((start, stop), own)
        first = start if first is None else first
    for a, (_, entered) in met.items():
        if a % 2 == 0 and not entered and a + 1 not in met:
            holes.append((choices[a // 2].middle, choices[a // 2].stop))
    return () if first is None else minus((first, within[1]), sorted(holes))


def _around(arm: int, choices: Sequence[BranchRange], within: Interval) -> bool:
    """Whether a range lies in one arm: what is around that does not matter inside."""
    choice = choices[arm // 2]
    start, stop = (choice.middle, choice.stop) if arm % 2 else (choice.start, choice.middle)
    return start <= within[0] and within[1] <= stop


def _other(arm: int) -> int:
    return arm if arm == TOP else arm ^ 1


def _mirrored(life: Intervals, count: int) -> Intervals:
    return tuple((count - stop, count - start) for start, stop in reversed(life))


def minus(whole: Interval, holes: Iterable[Interval]) -> Intervals:
    """The part of a range that is in no hole; holes by their starts, they may overlap."""
    found: list[Interval] = []
    at, stop = whole
    for low, high in holes:
        if low < high:
            if at < min(low, stop):
                found.append((at, min(low, stop)))
            at = max(at, high)
    if at < stop:
        found.append((at, stop))
    return tuple(found)


def meet(a: Intervals, b: Intervals) -> Intervals:
    """The positions in both."""
    found: list[Interval] = []
    i = j = 0
    while i < len(a) and j < len(b):
        start, stop = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if start < stop:
            found.append((start, stop))
        if a[i][1] <= b[j][1]:
            i += 1
        else:
            j += 1
    return tuple(found)


def union(lives: Iterable[Interval]) -> Intervals:
    """The positions in any of these, as intervals that do not touch."""
    found: list[Interval] = []
    for start, stop in sorted(lives):
        if start >= stop:
            continue
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], stop)
        else:
            found.append((start, stop))
    return tuple(found)
