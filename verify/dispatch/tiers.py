"""Which kernel a call is worth: none, the one for all sizes, or one of its own (specs/verify.md, "Kernels for unknown
sizes").

A function is interpreted first: its kernel's first use is compared with that in any case, and with that very call where
it is compiled behind it. A kernel is compiled when what it is expected to save, over the calls that are expected to
come, is more than compiling takes. How many runs there will be is known where a whole stream is given; otherwise as
many calls are expected as there were. The interpreter plans at each new size, which takes many times what a call takes
that comes again: both are measured, and how many new sizes are to come is guessed from those that came. What a kernel
saves is guessed before it is there, and measured afterwards: one that is no faster than the other is not used. Calls
are measured in seconds of the processor: what else the machine does says nothing of a kernel.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from math import log1p
from threading import Lock
from typing import Any, Literal, TypeAlias

import numpy as np

Results: TypeAlias = tuple[np.ndarray[Any, Any], ...]
Kind: TypeAlias = Literal["interpreted", "generic", "special"]
USUAL = 0.15
"""Seconds that compiling takes where nothing was compiled yet."""
SAVED: dict[Kind, float] = {"interpreted": 0.75, "generic": 0.5}
"""Which part of a call's time the next kernel is guessed to save."""
TRIALS = 3
"""Calls of each kernel that are measured."""
LONG = 2
"""A first call that takes so many times what compiling takes is not waited for a second time. Nothing tells yet what of
it is planning: compiling in vain costs at most half as much again, and so does a second such call."""


@dataclass
class Horizon:
    """How many runs there will be, if that is known, and how many there were."""

    total: int | None = None
    done: int = 0

    def expected(self, calls: int) -> float:
        """How many calls are still to come of what was called so often."""
        if self.total is None:
            return calls
        return calls / max(self.done, 1) * max(self.total - max(self.done, 1), 0)


@dataclass(eq=False)
class Spent:
    """What calls by one kernel have taken."""

    calls: int = 0
    seconds: float = 0.0
    best: float = float("inf")

    def add(self, seconds: float) -> None:
        """One more call."""
        self.calls += 1
        self.seconds += seconds
        self.best = min(self.best, seconds)

    @property
    def mean(self) -> float:
        """Seconds of a call; 0 where there was none."""
        return self.seconds / max(self.calls, 1)

    def pays(self, horizon: Horizon, part: float, cost: float) -> bool:
        """Whether saving a part of each call that is expected is worth a cost in seconds."""
        return self.calls > 0 and horizon.expected(self.calls) * self.seconds / self.calls * part > cost


@dataclass(eq=False)
class Tiers:
    """How a function is run for now, at all its sizes. Interpreted calls were the first at their sizes, or not."""

    first: Spent = field(default_factory=Spent)
    again: Spent = field(default_factory=Spent)
    is_compiled: bool = False
    lock: Lock = field(default_factory=Lock)

    def pays(self, horizon: Horizon, cost: float) -> bool:
        """Whether a kernel for all sizes is worth a cost in seconds."""
        calls = self.first.calls + self.again.calls
        if calls == 0 or (calls == 1 and self.first.seconds < LONG * cost):
            return False
        left = horizon.expected(calls)
        new = min(new_sizes(self.first.calls, calls, left), left)
        return (new * self.first.mean + (left - new) * self.again.mean) * SAVED["interpreted"] > cost


def new_sizes(seen: int, calls: int, left: float) -> float:
    """How many sizes are new among the calls that are left, where so many of the calls had one: as by Ewens' formula,
    by which the n-th call has one with the odds t to n."""
    t = _odds(seen, calls)
    return t * log1p(left / (t + calls))


@lru_cache(4096)
def _odds(seen: int, calls: int) -> float:
    """The t by which as many sizes as were seen are expected: half of one less, for two in two calls say little."""
    low, high = 0.0, 1e6
    for _ in range(40):
        middle = (low + high) / 2
        if middle * log1p(calls / max(middle, 1e-9)) < seen - 0.5:
            low = middle
        else:
            high = middle
    return high


@dataclass(eq=False)
class Tier:
    """How a function is run for now at one choice of sizes."""

    generic: Spent = field(default_factory=Spent)
    special: Spent = field(default_factory=Spent)
    begun: set[Kind] = field(default_factory=set)
    is_special: bool = False
    is_settled: bool = False

    def choose(self, all_sizes: Tiers, horizon: Horizon, cost: float) -> Kind:
        """What the next call is run by, where compiling takes so many seconds."""
        if not all_sizes.is_compiled:
            all_sizes.is_compiled = all_sizes.pays(horizon, cost)
        if not all_sizes.is_compiled:
            return "interpreted"
        if not self.is_special and not self.is_settled:
            self.is_special = self.generic.pays(horizon, SAVED["generic"], cost)
        return "special" if self.is_special else "generic"

    def learn(self, kind: Kind, seconds: float, all_sizes: Tiers) -> None:
        """What a call has taken. The first one of a compiled kernel has it made and compared, and says nothing."""
        if kind == "interpreted":
            (all_sizes.again if kind in self.begun else all_sizes.first).add(seconds)
            self.begun.add(kind)
        elif kind not in self.begun:
            self.begun.add(kind)
        elif kind == "generic":
            self.generic.add(seconds)
        else:
            self.special.add(seconds)
            if self.special.calls == TRIALS and self.special.best >= self.generic.best:
                self.is_special, self.is_settled = False, True

    def run(
        self,
        all_sizes: Tiers,
        horizon: Horizon,
        cost: float,
        run: Callable[[Kind], Results],
        adopt: Callable[[Results], object],
    ) -> Results:
        """Run a call by what it is worth. Where it was interpreted, and a kernel is worth it from now on, `adopt` has
        it made and compared with the results."""
        with all_sizes.lock:
            kind = self.choose(all_sizes, horizon, cost)
        started = time.thread_time()
        made = run(kind)
        seconds = time.thread_time() - started
        with all_sizes.lock:
            self.learn(kind, seconds, all_sizes)
            is_next = kind == "interpreted" and self.choose(all_sizes, horizon, cost) != kind
        if is_next:
            adopt(made)
        return made
