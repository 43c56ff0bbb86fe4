"""Planning many buffers: the quick planners are those they stand for, the bound comes first, and a deadline holds."""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from assay.lower.memory import PLANNERS, Options, plan
from assay.lower.memory.greedy import orders
from assay.lower.memory.placing import PlacedBuffers
from assay.lower.memory.problem import IndexedProblem
from assay.lower.memory.sweep import in_order, is_line, sweeps
from assay.semantics.deadline import Deadline, Late
from assay.semantics.errors import BudgetSpent
from assay.semantics.memory import BufferInfo, Pool, Problem
from assay.verify.api import plan as plan_api
from assay.verify.app.cli import main
from tests.lower.memory.memory_problems import good


def tape(count: int, seed: int = 0) -> Problem:
    """A training step: what forward makes is kept until backward, which goes in reverse order, needs it."""
    rng, half = random.Random(seed), count // 2
    sizes = [rng.choice((256, 512, 1024, 4096, 65536)) * rng.randrange(1, 9) for _ in range(count)]
    forward = [BufferInfo(f"f{i}", sizes[i], ((i, 2 * half - i),)) for i in range(half)]
    backward = [BufferInfo(f"b{i}", sizes[half + i], ((half + i, half + i + 2),)) for i in range(half)]
    return Problem((*forward, *backward), (Pool("workspace"),))


def scattered(rng: random.Random, count: int) -> Problem:
    buffers = []
    for i in range(count):
        first = rng.randrange(20)
        live = ((first, first + rng.randrange(1, 9)),) if rng.random() < 0.95 else ()
        buffers.append(BufferInfo(f"b{i}", rng.randrange(30), live, rng.choice((1, 1, 4, 3))))
    return Problem(tuple(buffers), (Pool("workspace", limit=rng.choice((None, 60)), alignment=12),))


class Clock:
    """Time that goes on when it is looked at, and says what was done after an end."""

    def __init__(self, end: float = 1.0, step: float = 0.0) -> None:
        self.now, self.end, self.step, self.late = 0.0, end, step, 0

    def __call__(self) -> float:
        self.now += self.step
        self.late += self.now >= self.end
        return self.now


def test_first_fit_in_an_order_is_what_the_definition_places() -> None:
    rng = random.Random(1)
    for _ in range(60):
        layout = IndexedProblem(scattered(rng, rng.randrange(1, 25)))
        assert is_line(layout)
        for order in orders(layout):
            wanted = PlacedBuffers(layout, "first")
            wanted.put_all(order)
            found = in_order(layout, order)
            assert found.offset.tolist() == wanted.offset.tolist() and found.pool.tolist() == wanted.pool.tolist()


def test_sweeps_make_good_plans() -> None:
    rng = random.Random(2)
    whole = 0
    for _ in range(150):
        problem = scattered(rng, rng.randrange(1, 25))
        found = list(sweeps(IndexedProblem(problem)))
        assert len(found) == 2
        for placement, order in found:
            assert sorted(order) == list(range(len(problem.buffers)))
            if not placement.stuck():
                assert good(problem, placement.plan("sweep"))
                whole += 1
    assert whole > 100


def test_where_the_bound_is_met_nothing_else_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """No conflicts are listed, and no search is prepared, where a quick planner needs no more than is live at once."""

    def never(*given: Any, **more: Any) -> Any:
        raise AssertionError("it is not needed")

    problem = tape(600)
    monkeypatch.setattr(import_module("assay.lower.memory.exact.pool"), "Minimum", never)
    monkeypatch.setattr("assay.lower.memory.problem.Conflicts.of", never)
    made = plan(problem)
    assert made.optimal and good(problem, made)


@pytest.mark.parametrize("planner", PLANNERS)
def test_a_planner_stops_soon_after_the_end(planner: str) -> None:
    """The clock ends while it works: it is asked a few times more, whatever was being done."""
    problem = tape(400, seed=3)
    for step in (0.01, 0.05, 0.2, 0.6):
        clock = Clock(step=step)
        try:
            made = PLANNERS[planner](problem, Options(deadline=Deadline(1.0 - step, clock), capacity=1))
            assert good(problem, made)
        except Late:
            pass
        assert clock.late < 40


def test_without_a_plan_at_the_end_it_is_said() -> None:
    with pytest.raises(BudgetSpent, match=r"the time was up before greedy-size had a plan for 400 buffers.*memory\.C9"):
        plan(tape(400), "greedy-size", time_limit=0)


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    """The clock of the whole command is a planted one."""
    clock = Clock(end=60.0)
    monkeypatch.setattr(plan_api, "Deadline", lambda seconds: Deadline(seconds, clock))
    yield clock


def command(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["assay", "plan", *map(str, arguments)])
    with pytest.raises(SystemExit) as done:
        main()
    return int(done.value.code or 0)


def as_csv(problem: Problem, path: Path) -> Path:
    rows = [f"{b.name},{b.live[0][0]},{b.live[0][1]},{b.nbytes}" for b in problem.buffers]
    path.write_text("\n".join(["id,lower,upper,size", *rows, ""]))
    return path


def test_the_time_of_a_slow_planner_is_that_of_the_command(
    ticking: Clock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A planner that takes all of it: the proof is not begun, the plan is unknown, and nothing is written."""
    honest = plan_api.make_plan

    def slow(*given: Any, **more: Any) -> Any:
        made = honest(*given, **more)
        ticking.now += 61.0
        return made

    path, out = as_csv(tape(20), tmp_path / "in.csv"), tmp_path / "out.csv"
    assert command(monkeypatch, path, "-o", out) == 0 and out.exists()
    out.unlink()
    monkeypatch.setattr(plan_api, "make_plan", slow)
    capsys.readouterr()
    assert command(monkeypatch, path, "-o", out, "--json") == 4
    data = json.loads(capsys.readouterr().out)
    assert data["holds"] is None and "time was up" in data["detail"] and not out.exists()
    assert command(monkeypatch, path, "-o", out) == 4
    assert "UNKNOWN: the plan is not proved, and nothing is written" in capsys.readouterr().out
    assert ticking.late < 80


def test_no_time_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = as_csv(tape(400), tmp_path / "in.csv")
    assert command(monkeypatch, path, "--time-limit", 0) == 6
    assert "the 0 seconds of --time-limit were up before the buffers were read" in capsys.readouterr().err


@pytest.mark.bench
def test_planning_and_proving_a_tape_grows_near_linear(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The whole command, on tapes of 1,000, 3,000 and 10,000 buffers."""
    seconds = {}
    for count in (1_000, 3_000, 10_000):
        path = as_csv(tape(count), tmp_path / f"{count}.csv")
        start = time.process_time()
        assert command(monkeypatch, path, "--time-limit", 600) == 0
        seconds[count] = time.process_time() - start
    print(seconds)
    assert seconds[3_000] < 3**1.6 * seconds[1_000] and seconds[10_000] < 10**1.6 * seconds[1_000]
