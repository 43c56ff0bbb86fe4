"""A campaign on a Dask cluster (specs/verify.md, "Fuzzing"): the extra `cluster`.

Each task is a few examples, named by numbers, so a task that is lost with its worker is simply done again, by another:
nothing is lost and nothing is counted twice. A task on which workers die again and again is cut into single examples, and
one that kills its workers alone has died. The corpus stays with who started the campaign.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib import import_module
from itertools import islice
from typing import Any

from assay.semantics.errors import Invalid
from assay.verify.fuzz.targets import Result
from assay.verify.fuzz.work import Failure, Report, Task, total, work


def run_task(task: Task) -> Report:
    """What a worker of the cluster does with a task."""
    return total(list(work(task)))


class Cluster:
    """The workers behind a scheduler's address. Invalid: fuzz.C3, Dask is not there, or no scheduler."""

    def __init__(self, address: str, *, timeout: float = 10.0) -> None:
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

    def run(self, tasks: Iterable[Task]) -> Iterator[Report]:
        """Reports as they come, in no order; two tasks are in line for each thread of a worker."""
        source = iter(tasks)
        sent: dict[Any, Task] = {}

        def send(task: Task) -> Any:
            future = self.client.submit(run_task, task, pure=False, retries=2)
            sent[future] = task
            return future

        line = self.completed([send(t) for t in islice(source, 2 * self.jobs)], loop=self.client.loop)
        for future in line:
            task = sent.pop(future)
            error = future.exception()
            if error is None:
                yield future.result()
                following = next(source, None)
                if following is not None:
                    line.add(send(following))
            elif len(task.numbers) > 1:
                for number in task.numbers:
                    line.add(send(replace(task, numbers=(number,))))
            else:
                yield _died(task.numbers[0], error)
            future.release()

    def close(self) -> None:
        self.client.close()


def _died(number: int, error: BaseException) -> Report:
    report = Report((number,))
    report.kinds["died"] += 1
    why = type(error).__name__
    report.failures.append(Failure(number, Result("died", why, "", f"{why}: {error}"[:500]), ()))
    return report
