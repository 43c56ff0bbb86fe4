"""A time by which work is to end (specs/semantics.md, "Budgets"; specs/lower.md, "memory planners").

Loops that may run long ask it: `over`, where the best so far is a result, `check`, where nothing is. The clock is read
every so often only, and can be another one in a test, which counts what is done after the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf

OFTEN = 64
"""A loop of cheap turns asks the clock once in so many."""


class Late(Exception):
    """The time is up, and the work was given up."""


class Deadline:
    """The end of an allowance of seconds; None, or infinitely many: there is none."""

    def __init__(self, seconds: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._end = None if seconds is None or seconds == inf else clock() + seconds
        self._turns = 0

    @property
    def endless(self) -> bool:
        """Whether there is no limit."""
        return self._end is None

    def share(self, part: float) -> Deadline:
        """The end of a part of what is left."""
        return self if self._end is None else Deadline((self.left or 0.0) * part, self._clock)

    @property
    def left(self) -> float | None:
        """The seconds that are left, 0 at least; None: there is no end."""
        return None if self._end is None else max(0.0, self._end - self._clock())

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return self._end is not None and self._clock() >= self._end

    def check(self) -> None:
        """Raise `Late` once the time is up."""
        if self._end is not None and self._clock() >= self._end:
            raise Late

    def turn(self) -> None:
        """Count one turn of a loop of cheap ones; raise `Late` once the time is up, which is seen every so often."""
        self._turns += 1
        if self._turns % OFTEN == 0:
            self.check()


NEVER = Deadline()
"""No end. It has no state that matters, so all may share it."""
