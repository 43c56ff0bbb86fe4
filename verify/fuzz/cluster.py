"""A campaign on a Dask cluster (specs/verify.md, "Fuzzing"): the extra `cluster`.

Each task is a few examples, named by numbers, so a task that is lost with its worker is simply done again, by another:
nothing is lost and nothing is counted twice. A task on which workers die again and again is cut into single examples,
and one that kills its workers alone has died. The corpus stays with who started the campaign.

Examples run in a process beside each thread of a worker (`assay.verify.fuzz.pool`), which is held to the limits of the
campaign and goes with it: one that takes too long, or too much, dies alone.
"""

from __future__ import annotations

import multiprocessing as mp
import secrets
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import islice
from typing import Any

from assay.semantics.budget import current
from assay.semantics.errors import EnvironmentFailure, Invalid
from assay.verify.app.spending import default_memory
from assay.verify.fuzz.pool import Pool
from assay.verify.fuzz.worker import ExampleReport, Task, lost


@dataclass(frozen=True)
class Limits:
    """What the examples of one campaign, which has a name, may take: seconds each, and bytes on each worker
    together."""

    campaign: str
    patience: float
    memory: int | None


_pools: dict[int, tuple[str, Pool]] = {}
"""Of each thread of this worker: its campaign, and the process beside it."""


def run_task(task: Task, limits: Limits, threads: int) -> list[ExampleReport]:
    """What one of the threads of a worker of the cluster does with a task. EnvironmentFailure: no process can be
    had."""
    thread = threading.get_ident()
    campaign, pool = _pools.get(thread, ("", None))
    if pool is None or campaign != limits.campaign:
        if pool is not None:
            pool.close()
        # Python denies children to a daemon, which a worker is of its nanny; ours end when nobody listens to them
        mp.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
        own = default_memory()
        most = None if limits.memory is None else min(limits.memory, own or limits.memory) // threads
        pool = Pool(1, limits.patience, memory=most)
        _pools[thread] = limits.campaign, pool
    return list(pool.run([task]))


def end_campaign(campaign: str) -> None:
    """End the processes of a campaign on this worker."""
    for thread, (of, pool) in list(_pools.items()):
        if of == campaign:
            pool.close()
            del _pools[thread]


class Cluster:
    """The workers behind a scheduler's address. `patience` as for a pool; on each worker the examples together may take
    the memory of the budget, and no more than half of what its machine has. Invalid: fuzz.C3, Dask is not there, or no
    scheduler.
    """

    def __init__(self, address: str, patience: float = 60.0, *, timeout: float = 10.0) -> None:
        budget = current()
        self.limits = Limits(secrets.token_hex(8), patience, None if budget is None else budget.memory)
        try:
            distributed: Any = import_module("distributed")
        except ImportError:
            raise Invalid("--cluster needs Dask; pip install 'assay[cluster]'", label="fuzz.C3") from None
        self.completed = distributed.as_completed
        try:
            self.client = distributed.Client(address, timeout=timeout, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as wrong:
            raise Invalid(f"no scheduler answers: {wrong}", where=address, label="fuzz.C3") from None

    @property
    def jobs(self) -> int:
        """How many tasks run at a time."""
        return max(1, int(sum(self.client.nthreads().values())))

    def run(self, tasks: Iterable[Task]) -> Iterator[ExampleReport]:
        """Reports as they come, in no order; two tasks are in line for each thread of a worker."""
        source = iter(tasks)
        sent: dict[Any, Task] = {}
        threads = max(self.client.nthreads().values(), default=1)

        def send(task: Task) -> Any:
            future = self.client.submit(run_task, task, self.limits, threads, pure=False, retries=2)
            sent[future] = task
            return future

        line = self.completed([send(t) for t in islice(source, 2 * self.jobs)], loop=self.client.loop)
        for future in line:
            task = sent.pop(future)
            error = future.exception()
            if error is None:
                yield from future.result()
                following = next(source, None)
                if following is not None:
                    line.add(send(following))
            elif isinstance(error, EnvironmentFailure):
                raise error
            elif len(task.numbers) > 1:
                for number in task.numbers:
                    line.add(send(replace(task, numbers=(number,))))
            else:
                why = type(error).__name__
                yield from lost(task, task.numbers[0], why, f"{why}: {error}"[:500])
            future.release()

    def close(self) -> None:
        """End what runs for this campaign on all workers."""
        with suppress(Exception):  # a worker that is gone has nothing left
            self.client.run(end_campaign, self.limits.campaign, on_error="ignore")
        self.client.close()
