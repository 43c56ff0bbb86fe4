"""Parts of one check that know nothing of each other, in as many processes as there are cores (specs/verify.md,
"Budgets").

    found = side_by_side(lambda i: prove(kernels[i]), len(kernels))

Each process is forked from this one, so it has all that this one has, and hands back what it found. What one does not
hand back, for it died or what it found cannot be sent, is done here: so it fails here as it would without others.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeAlias, TypeVar

from assay.verify import children

T = TypeVar("T")
Channel: TypeAlias = "Connection[Any, Any]"


def side_by_side(work: Callable[[int], T], count: int, done: Callable[[int, int], None] = lambda k, n: None) -> list[T]:
    """`work(i)` for each number below `count`, in order. `done` is told how many of how many there are."""
    jobs = min(children.cores(), count)
    if jobs < 2 or not children.CAN_FORK or threading.current_thread() is not threading.main_thread():
        found = []
        for i in range(count):
            done(i, count)
            found.append(work(i))
        return found
    with _workers(work, jobs) as workers:
        return _Shared(work, count, done, workers).run()


@dataclass
class _Worker:
    child: children.Forked
    channel: Channel
    number: int = -1
    """What it is doing."""


@dataclass
class _Shared(Generic[T]):
    """The work of one call, and who does it."""

    work: Callable[[int], T]
    count: int
    done: Callable[[int, int], None]
    workers: list[_Worker]

    def run(self) -> list[T]:
        """All results, in order."""
        found: dict[int, T] = {}
        left = deque(range(self.count))
        again: list[int] = []
        free, busy = list(self.workers), list[_Worker]()
        while busy or (left and free):
            while left and free:
                worker = free.pop()
                worker.number = left.popleft()
                busy.append(worker)
                with suppress(OSError):  # it is gone, which is seen when it is listened to
                    worker.channel.send(worker.number)
            self.done(len(found), self.count)
            ready = wait([w.channel for w in busy], timeout=0.5)
            for worker in [w for w in busy if w.channel in ready]:
                busy.remove(worker)
                try:
                    came, result = worker.channel.recv()
                    free.append(worker)
                except (EOFError, OSError):
                    came = False
                if came:
                    found[worker.number] = result
                else:
                    again.append(worker.number)
        for number in sorted([*again, *left]):
            found[number] = self.work(number)
        self.done(self.count, self.count)
        return [found[i] for i in range(self.count)]


@contextmanager
def _workers(work: Callable[[int], Any], jobs: int) -> Iterator[list[_Worker]]:
    """So many processes, which are ended behind this."""
    made: list[_Worker] = []
    try:
        for _ in range(jobs):
            mine, theirs = Pipe()
            others = [w.channel for w in made]

            def life(theirs: Channel = theirs, closed: tuple[Channel, ...] = (mine, *others)) -> None:
                for channel in closed:  # it ends when the other end of its own is closed
                    channel.close()
                _serve(theirs, work)

            made.append(_Worker(children.fork(life), mine))
            theirs.close()
        yield list(made)
    finally:
        for worker in made:
            worker.channel.close()
            children.end(worker.child)


def _serve(channel: Channel, work: Callable[[int], Any]) -> None:
    """Do what comes in, until nobody is there."""
    while True:
        try:
            number = channel.recv()
        except (EOFError, OSError):
            return
        try:
            answer = True, work(number)
            channel.send(answer)
        except OSError:
            return
        except Exception:  # noqa: BLE001 - whatever it is, it is done again where it can be told
            channel.send((False, None))
