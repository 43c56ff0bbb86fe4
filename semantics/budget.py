"""What one run may take: bytes of memory and seconds, counted for the whole run (specs/semantics.md, "Budgets").

    with budget.of(Budget(memory=1 << 30, seconds=60.0)):
        claim(nbytes, "Resize", where)         # before it is allocated; BudgetSpent where it is too much
        left()                                 # seconds

Whoever is about to make something large says so here first. Without a budget nothing is refused.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from assay.semantics.errors import BudgetSpent, Span

SMALL = 1 << 20
"""Bytes that are not asked for: what is in use is looked up for each claim, and small things add up in the look-up."""


@dataclass(frozen=True)
class Budget:
    """`memory` in bytes and `seconds` for the whole run, None where there is no limit. `chosen`: the user gave the
    time."""

    memory: int | None = None
    seconds: float | None = None
    chosen: bool = False
    started: float = field(default_factory=time.monotonic)
    before: int = field(default_factory=lambda: in_use())
    """What this process had in use before."""

    def refusal(self, nbytes: int) -> str | None:
        """Why so many bytes more are too many, if they are."""
        if self.memory is None or nbytes < SMALL:
            return None
        used = max(0, in_use() - self.before)
        if used + nbytes <= self.memory:
            return None
        held = f", {amount(used)} are in use" if used > SMALL else ""
        return (
            f"{amount(nbytes)} of memory{held}, and the whole run may take {amount(self.memory)}; --memory raises that"
        )

    def left(self) -> float | None:
        """The seconds until the time is up, 0.0 from then on; None where there is no limit."""
        return None if self.seconds is None else max(0.0, self.started + self.seconds - time.monotonic())

    def late(self) -> str:
        """The message that says that the run has taken its time."""
        return f"the run has taken the {self.seconds:g} seconds that it may{doing()}; --timeout raises that"


_current: list[Budget] = []
_doing: list[str] = []


@contextmanager
def while_doing(what: str) -> Iterator[None]:
    """What runs within is one of several tries: where the time is up, or memory, it is said in which."""
    _doing.append(what)
    try:
        yield
    finally:
        _doing.pop()


def doing() -> str:
    """In which try a run is, for messages; "" where there is one only."""
    return f", {_doing[-1]}" if _doing and _doing[-1] else ""


@contextmanager
def of(budget: Budget) -> Iterator[Budget]:
    """What runs within has this budget."""
    _current.append(budget)
    try:
        yield budget
    finally:
        _current.remove(budget)


def current() -> Budget | None:
    """The budget in force, None where nothing is limited."""
    return _current[-1] if _current else None


def claim(nbytes: int, what: str | Callable[[], str], where: Span | str | None = None) -> None:
    """Say that so many bytes are wanted at once. BudgetSpent (budget.C1): they are too many. What is said of them
    may be made only then."""
    found = current()
    refused = None if found is None else found.refusal(nbytes)
    if refused is not None:
        raise BudgetSpent(
            f"{what if isinstance(what, str) else what()} wants {refused}{doing()}", where=where, label="budget.C1"
        )


def exhausted(what: str, why: str = "") -> BudgetSpent | None:
    """What to raise where memory could not be had; None where no budget has refused it."""
    found = current()
    if found is None or found.memory is None:
        return None
    said = f" ({why})" if why else ""
    return BudgetSpent(
        f"{what} wants more memory than is left{said}: the whole run may take {amount(found.memory)}; --memory raises"
        " that",
        label="budget.C1",
    )


@contextmanager
def named(what: str, where: Span | str | None = None) -> Iterator[None]:
    """What runs within is what a refusal of memory names, unless something inside is named."""
    try:
        yield
    except MemoryError as wrong:
        spent = exhausted(what, str(wrong))
        if spent is None:
            raise
        raise spent.at(where) from None


def left() -> float | None:
    """Seconds until the run is late; None: it never is."""
    found = current()
    return None if found is None else found.left()


def late() -> str:
    """The message that says that the run has taken its time."""
    found = current()
    return "the run has taken its time" if found is None else found.late()


def patience(seconds: float) -> float:
    """How long to wait for another process that is usually done sooner: `seconds`, or what the user gave the run."""
    found = current()
    rest = None if found is None else found.left()
    if found is None or rest is None:
        return seconds
    return rest if found.chosen else min(seconds, rest)


def in_use() -> int:
    """The private memory of this process in bytes, as the limit of the system counts it; 0 where it is not told."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[5]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0


_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def amount(nbytes: int) -> str:
    """A number of bytes for people."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if nbytes >= size:
            return f"{nbytes / size:.3g} {unit}" if nbytes < 1000 * size else f"{nbytes // size} {unit}"
    return f"{nbytes} bytes"
