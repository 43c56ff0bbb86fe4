"""The limits of one command, and what holds it to them (specs/verify.md, "Budgets").

    with spending(memory, seconds): ...        # BudgetSpent, whatever it is that takes too much

Most of it is counted before it is made (`assay.semantics.budget`). What is not counted is held by the system's limit of
this process's memory, and by a thread that looks at the memory of the process and its children and at the clock. It
interrupts the work; where that does not end within GRACE seconds, it ends the process, with the same words and code.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

try:
    import resource
except ImportError:  # not a Unix
    resource = None  # type: ignore[assignment]

from assay.semantics import budget
from assay.semantics.budget import Budget, amount
from assay.semantics.errors import BudgetSpent, Invalid
from assay.verify import children

SECONDS = 3600.0
"""What a command may take where nobody says."""
SHARE = 2
"""The part of the machine's memory that it may take: one in so many."""
GRACE = 5.0
"""Seconds in which interrupted work has to end."""
EVERY = 0.05
_SLACK = 64 << 20
"""What the system's limit leaves for those who cannot be refused memory without falling: they are interrupted
before."""


class Stop(BaseException):
    """The budget is spent: raised where the work happens to be, and by no `except Exception` taken for something
    else."""

    def __init__(self, reason: BudgetSpent) -> None:
        super().__init__(str(reason))
        self.reason = reason


class Terminated(BaseException):
    """SIGTERM, SIGHUP or, once a command has let it through, SIGINT: the run ends, cleaned up."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def parse_memory(text: str) -> int | None:
    """`512M`, `4G` or a number of bytes; None for `none`. Invalid (budget.C3)."""
    if text == "none":
        return None
    found = re.fullmatch(r"([0-9]{1,18})([KMGT]?)B?", text)
    if found is None or int(found[1]) == 0:
        raise Invalid(f"--memory takes a size, such as 512M or 4G, or none, not {text!r}", label="budget.C3")
    return int(found[1]) * {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}[found[2]]


def parse_seconds(text: str) -> float | None:
    """A number of seconds; None for `none`. Invalid (budget.C3)."""
    if text == "none":
        return None
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text) is None or float(text) == 0:
        raise Invalid(f"--timeout takes a number of seconds, such as 600, or none, not {text!r}", label="budget.C3")
    return float(text)


def require_seconds(option: str, limit: float) -> None:
    """Invalid (cli.C5): a limit is no number of seconds."""
    if not limit >= 0:  # which a NaN is not either
        raise Invalid(f"{option} is {limit}, and must be 0 or more seconds", label="cli.C5")


def default_memory() -> int | None:
    """A share of all: of the machine's memory, or of what the control group may take; None where that is not
    told."""
    found = []
    with suppress(AttributeError, ValueError, OSError):
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, kind, path = line.split(":", 2)
            root, name = (
                ("/sys/fs/cgroup", "memory.max") if not kind else ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            )
            if kind in ("", "memory"):
                for place in (Path(path), *Path(path).parents):
                    with suppress(OSError, ValueError):
                        found.append(int(Path(f"{root}/{place}/{name}").read_text()))
    return min((n for n in found if n > 0), default=0) // SHARE or None


@contextmanager
def spending(
    memory: int | None,
    seconds: float | None,
    *,
    chosen: bool = False,
    last_words: Callable[[BudgetSpent], None] | None = None,
) -> Iterator[Budget]:
    """What runs within is held to so many bytes and seconds. BudgetSpent where it wants more. `last_words` are said
    where it does not heed: nothing else of this process comes after."""
    with budget.of(Budget(memory, seconds, chosen)) as mine:
        try:
            with _limited(mine), _watched(mine, last_words):
                yield mine
        except MemoryError as wrong:
            reason = budget.exhausted("the run", str(wrong))
            if reason is None:
                raise
            raise _like(reason, wrong) from None
        except Stop as stop:
            raise _like(stop.reason, stop) from None


def _like(reason: BudgetSpent, wrong: BaseException) -> BudgetSpent:
    """The reason, with what was found before: `answering` has hung it to what was raised."""
    if "answer" in wrong.__dict__:
        reason.__dict__["answer"] = wrong.__dict__["answer"]
    return reason


@contextmanager
def _limited(mine: Budget) -> Iterator[None]:
    """The system refuses this process, and each child, more memory than that."""
    if mine.memory is None or resource is None or not mine.before:
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = mine.before + mine.memory + mine.memory // 8 + _SLACK
    others = [n for n in before if n != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min([wanted, *others]), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


@contextmanager
def _watched(mine: Budget, last_words: Callable[[BudgetSpent], None] | None) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread() or (mine.memory is None and mine.seconds is None):
        yield
        return
    found: list[BudgetSpent] = []
    done = threading.Event()

    def interrupt(*_: Any) -> None:
        if found and not done.is_set():
            children.interrupt(Stop(found[0]))

    def watch() -> None:
        base = children.own_memory()
        while not done.wait(EVERY):
            used = max(0, children.own_memory() - base) + children.in_use() if mine.memory is not None else 0
            if mine.memory is not None and used > mine.memory:
                message = (
                    f"the run and its children have {amount(used)} of memory in use, and may take {amount(mine.memory)}"
                )
                found.append(BudgetSpent(f"{message}; --memory raises that", label="budget.C1"))
            elif mine.left() == 0.0:
                found.append(BudgetSpent(mine.late(), label="budget.C2"))
            if found:
                break
        z3: Any = sys.modules.get("z3")
        if found and z3 is not None:
            z3.main_ctx().interrupt()  # it hears of no signal
        until = time.monotonic() + GRACE if interruptible else 0.0
        while found and not done.is_set() and time.monotonic() < until:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
            done.wait(GRACE / 5)
        if found and not done.is_set():
            _end(found[0], last_words)

    interruptible = hasattr(signal, "pthread_kill")  # else the process is ended at once
    before = signal.signal(signal.SIGUSR1, interrupt) if interruptible else None
    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        if interruptible:
            signal.signal(signal.SIGUSR1, before)


def _end(reason: BudgetSpent, last_words: Callable[[BudgetSpent], None] | None) -> None:
    """The end of the process, whatever its other threads do."""
    with suppress(Exception):
        children.end_all()
    with suppress(Exception):
        if last_words is not None:
            last_words(reason)
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(6)


@contextmanager
def endings() -> Iterator[None]:
    """Within this SIGTERM and SIGHUP raise Terminated, and SIGINT KeyboardInterrupt: not where something is being done
    that may not be left half done."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _: Any) -> None:
        children.interrupt(KeyboardInterrupt() if number == signal.SIGINT else Terminated(number))

    there = [signal.Signals[n] for n in ("SIGTERM", "SIGHUP", "SIGINT") if n in signal.Signals.__members__]
    kept = {n: signal.getsignal(n) for n in there}
    for number, handler in kept.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
