"""A campaign on a Dask cluster: nothing is lost when a worker dies, and its limits hold there too."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from assay.semantics.errors import EnvironmentFailure, Invalid
from assay.verify.app.cli import main
from assay.verify.fuzz import cluster
from assay.verify.fuzz.campaign import Campaign, Plan
from assay.verify.fuzz.cases import Recipe
from assay.verify.fuzz.cluster import Cluster, Limits, end_campaign, run_task
from assay.verify.fuzz.pool import LEAST, Pool
from assay.verify.fuzz.worker import ExampleReport, Task, merged_report
from tests.verify.fuzz.test_fuzz import deadly

SMALL = Recipe(("add", "nn.relu", "concat"), 6, ())


class Future(SimpleNamespace):
    __hash__ = object.__hash__


class Client:
    """A cluster of one worker of four threads, which is this process: each task is done when it is sent."""

    ended: list[str]

    def __init__(self, address: str, **options: object) -> None:
        type(self).ended, self.loop = [], None

    def nthreads(self) -> dict[str, int]:
        return {"here": 4}

    def submit(self, function: Any, *arguments: Any, **options: object) -> Any:
        try:
            done = function(*arguments)
        except EnvironmentFailure as wrong:
            return Future(exception=partial(lambda w: w, wrong), release=lambda: None)
        return Future(exception=lambda: None, result=lambda: done, release=lambda: None)

    def run(self, function: Any, campaign: str, **options: object) -> None:
        self.ended.append(campaign)
        function(campaign)

    def close(self) -> None:
        pass


class Recorded:
    """A pool that says under which limits it was made."""

    made: list[Any]

    def __init__(self, jobs: int, patience: float, memory: int | None) -> None:
        self.made.append((jobs, patience, memory))
        self.closed = False

    def run(self, tasks: list[Task]) -> Iterator[ExampleReport]:
        for task in tasks:
            for number in task.numbers:
                report = ExampleReport((number,), "values")
                report.kinds["right"] += 1
                yield report

    def close(self) -> None:
        self.closed = True


def completed(futures: list[Any], loop: object) -> Iterator[Any]:
    yield futures[0]
    raise KeyboardInterrupt


def test_the_limits_of_the_command_hold_on_the_workers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """--memory and --patience go with each task, a fourth for each of four threads; an interrupt ends what runs
    there."""
    monkeypatch.setitem(sys.modules, "distributed", SimpleNamespace(Client=Client, as_completed=completed))  # type: ignore[misc]
    monkeypatch.setattr(Recorded, "made", [], raising=False)
    monkeypatch.setattr(cluster, "Pool", Recorded)
    monkeypatch.setattr(cluster, "default_memory", lambda: 600 << 20)
    for memory, most in (("400000000", 100_000_000), ("4G", 150 << 20), ("none", None)):
        Recorded.made.clear()
        monkeypatch.setattr(
            sys,
            "argv",
            [
                "assay",
                "fuzz",
                "--backend",
                "values",
                "--examples",
                "40",
                "--cluster",
                "tcp://x:1",
                "--patience",
                "7",
                "--memory",
                memory,
            ],
        )
        with pytest.raises(SystemExit) as done:
            main()
        assert done.value.code == 0 and "2 right" in (said := capsys.readouterr().out) and "interrupted" in said
        assert Recorded.made == [(1, 7.0, most)]
        assert len(Client.ended) == 1 and not cluster._pools


def test_workers_that_can_start_nothing_end_the_campaign(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """That is no fault of whoever is judged: exit code 6, not an example that has died."""

    def none(*_: object, **__: object) -> None:
        raise EnvironmentFailure("no process can be had", label="fuzz.C5")

    monkeypatch.setitem(
        sys.modules, "distributed", SimpleNamespace(Client=Client, as_completed=lambda futures, loop: iter(futures))
    )  # type: ignore[misc]
    monkeypatch.setattr(cluster, "Pool", none)
    monkeypatch.setattr(
        sys, "argv", ["assay", "fuzz", "--backend", "values", "--examples", "4", "--cluster", "tcp://x:1"]
    )
    with pytest.raises(SystemExit) as done:
        main()
    assert (
        done.value.code == 6 and "no process can be had [fuzz.C5]" in capsys.readouterr().err and len(Client.ended) == 1
    )


@pytest.mark.slow
def test_an_example_that_takes_too_long_dies_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Example 5 takes for ever: it has died, those beside it are judged, and nothing is left behind the campaign."""
    monkeypatch.setattr(cluster, "Pool", partial(Pool, work=deadly))
    limits = Limits("one", 1.0, 8 * LEAST)
    report = merged_report(run_task(Task(("values",), SMALL, 0, (4, 5, 6), seconds=0.0), limits, 2))
    assert sorted(report.numbers) == [4, 5, 6] and report.kinds == {"right": 2, "died": 1}
    assert report.failures[0].number == 5 and report.failures[0].result.where.startswith("took longer")
    (pool,) = (p for _, p in cluster._pools.values())
    assert pool.memory == 4 * LEAST
    end_campaign("another")
    assert not pool.closed
    end_campaign("one")
    assert pool.closed and not cluster._pools and all(not w.process.is_alive() for w in pool.workers)


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # what Dask does to itself is not ours
def test_a_worker_that_dies_loses_nothing() -> None:
    """Two workers; one is ended in the middle. Every example is judged once."""
    distributed = pytest.importorskip("distributed", reason="Dask is not installed; pip install 'assay[cluster]'")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1") as local:
        workers = Cluster(local.scheduler_address)
        ended = False

        def tell(campaign: Campaign) -> None:
            nonlocal ended
            if not ended and campaign.judged >= 20:
                ended = True
                next(iter(local.workers.values())).process.process.kill()

        campaign = Campaign(Plan(("values",), SMALL, examples=120, batch=10), None, tell)
        try:
            campaign.run(workers)
        finally:
            workers.close()
    assert ended
    assert campaign.judged == sum(campaign.done.kinds.values()) == 120
    assert campaign.done.kinds["right"] > 100 and not campaign.open


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_no_scheduler() -> None:
    pytest.importorskip("distributed", reason="Dask is not installed; pip install 'assay[cluster]'")
    with pytest.raises(Invalid) as said:
        Cluster("tcp://127.0.0.1:1", timeout=1)
    assert said.value.label == "fuzz.C3"


def test_no_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    modules: Any = {"distributed": None}
    for name, value in modules.items():
        monkeypatch.setitem(__import__("sys").modules, name, value)
    with pytest.raises(Invalid) as said:
        Cluster("tcp://127.0.0.1:1")
    assert said.value.label == "fuzz.C3"
