"""Worker processes whose death is an outcome (specs/verify.md, "Fuzzing").

A worker says which example it begins before it begins it. Where its process dies, or takes too long over one, that
example has died; a new worker goes on with the rest.
"""

from __future__ import annotations

import multiprocessing as mp
import signal
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

try:
    import resource
except ImportError:  # not a Unix
    resource = None  # type: ignore[assignment]

from assay.semantics.budget import current, in_use
from assay.semantics.errors import EnvironmentFailure
from assay.verify.fuzz.worker import ExampleReport, Task, judge_examples, lost

LEAST = 64 << 20
"""Bytes that each worker may take, however many they are."""
MOST_IDLE = 8
Work = Callable[[Task], Iterator[ExampleReport]]


def run_worker(channel: Connection[Any, Any], work: Work, memory: int | None = None) -> None:
    """A worker's life: tasks come in, and out go a number before each example, a report after it, and None
    at the end of a task. `memory`: the bytes that it may take, whoever is judged in it."""
    _hold_to(memory)
    warnings.simplefilter("ignore")  # of whoever is judged; nobody reads them
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who interrupts a campaign ends its workers
    try:
        while True:
            task = channel.recv()
            for number in task.numbers:
                channel.send(number)
                for report in work(replace(task, numbers=(number,))):
                    channel.send(report)
            channel.send(None)
    except (EOFError, OSError):  # nobody listens any more: the campaign is over
        return


def _hold_to(memory: int | None) -> None:
    """The system refuses this process more than so many bytes from now on: what is judged in it may grow without
    end."""
    if memory is None or resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = [n for n in (soft, hard) if n != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min([in_use() + memory, *most]), hard))


@dataclass
class Worker:
    """One process, and what it is doing."""

    process: BaseProcess
    channel: Connection[Any, Any]
    task: Task | None = None
    number: int | None = None
    since: float = 0.0
    left: tuple[int, ...] = ()


class Pool:
    """So many workers. `patience`: seconds that one example may take, and being made simpler comes on top. `memory`:
    bytes that all may take together, by default those of the budget."""

    def __init__(
        self, jobs: int, patience: float = 60.0, work: Work = judge_examples, memory: int | None = None
    ) -> None:
        self.context = mp.get_context("spawn")
        self.patience = patience
        self.work = work
        if memory is None and (budget := current()) is not None:
            memory = budget.memory
        self.memory = None if memory is None else max(LEAST, memory // jobs)
        self.idle = 0
        """Workers in a row that were gone before they began anything."""
        self.closed = False
        self.workers = [self._start() for _ in range(jobs)]

    def _start(self) -> Worker:
        if self.closed:
            raise EnvironmentFailure("the campaign has ended", label="fuzz.C5")
        mine, theirs = self.context.Pipe()
        process = self.context.Process(target=run_worker, args=(theirs, self.work, self.memory), daemon=True)
        process.start()
        theirs.close()
        return Worker(process, mine)

    def run(self, tasks: Iterable[Task]) -> Iterator[ExampleReport]:
        """Reports as they come, in no order. Tasks are taken one by one, when a worker is free."""
        source, again = iter(tasks), deque[Task]()
        while True:
            for worker in self.workers:
                if worker.task is None:
                    task = again.popleft() if again else next(source, None)
                    if task is not None:
                        self._give(worker, task)
            busy = [w for w in self.workers if w.task is not None]
            if not busy:
                return
            ready = set(map(id, wait([w.channel for w in busy], timeout=0.5)))
            for worker in busy:
                if id(worker.channel) in ready:
                    yield from self._listen(worker, again)
                elif worker.number is not None and time.monotonic() - worker.since > self._limit(worker):
                    yield from self._lost(worker, again, f"took longer than {self._limit(worker):.0f} s")

    def _limit(self, worker: Worker) -> float:
        return self.patience if worker.task is None else worker.task.longest(self.patience)

    def _give(self, worker: Worker, task: Task) -> None:
        worker.task, worker.number, worker.left = task, None, task.numbers
        try:
            worker.channel.send(task)
        except OSError:  # it died while it had nothing to do; what it was given is noticed when it is listened to
            pass

    def _listen(self, worker: Worker, again: deque[Task]) -> Iterator[ExampleReport]:
        try:
            message = worker.channel.recv()
        except (EOFError, OSError):
            worker.process.join(5)
            yield from self._lost(worker, again, _ending(worker.process.exitcode))
            return
        if message is None:
            worker.task = worker.number = None
        elif isinstance(message, int):
            worker.number, worker.since, self.idle = message, time.monotonic(), 0
        else:
            worker.left = tuple(n for n in worker.left if n not in message.numbers)
            yield message

    def _lost(self, worker: Worker, again: deque[Task], why: str) -> Iterator[ExampleReport]:
        """A worker that is gone: its example died, the rest is done again by another."""
        task, number = worker.task, worker.number
        self._end(worker)
        if number is None and task is not None:
            self.idle += 1
            if self.idle > MOST_IDLE:
                what = f"{self.idle} worker processes in a row are gone before they have begun: the last {why}"
                raise EnvironmentFailure(what, label="fuzz.C5")
        self.workers[self.workers.index(worker)] = self._start()
        if task is None:
            return
        left = tuple(n for n in worker.left if n != number)
        if left:
            again.append(replace(task, numbers=left))
        if number is not None and number in worker.left:
            yield from lost(task, number, why, f"the worker's process {why}")

    def _end(self, worker: Worker) -> None:
        worker.process.kill()
        worker.process.join()
        worker.channel.close()

    def close(self) -> None:
        """End all workers, whoever waits for them."""
        self.closed = True
        for worker in self.workers:
            self._end(worker)


def _ending(code: int | None) -> str:
    """How a process ended, in words."""
    if code is not None and code < 0:
        try:
            return f"was ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"was ended by signal {-code}"
    return f"ended with code {code}"
