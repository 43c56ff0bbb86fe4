"""Memories as a person names them on the command line, through the whole pipeline (specs/lower.md, "pool")."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from assay.interp import vector
from assay.interp.graph import evaluate
from assay.lower.frontends.onnx.model import import_onnx
from assay.lower.pool import Memory, plan_pools, wanted
from assay.semantics.devices import VirtualDevice
from assay.semantics.errors import Invalid
from assay.semantics.memory import Place, Plan, Pool, Problem
from assay.semantics.module import Module
from assay.verify.app.cli import main
from assay.verify.app.stages import lowering_passes
from assay.verify.pool import check_pool
from tests.models import small_cnn


def assay(monkeypatch: pytest.MonkeyPatch, *args: object) -> int:
    monkeypatch.setattr(sys, "argv", ["assay", *map(str, args)])
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as done:
        main()
    return int(done.value.code or 0)


@pytest.fixture(scope="module")
def lives() -> Module:
    """A network up to liveness."""
    module = import_onnx(small_cnn(), evaluate=evaluate)
    for name, stage in lowering_passes(vector.run).items():
        if name == "pool":
            break
        module = stage(module)
    return module


@pytest.fixture
def cnn(tmp_path: Path) -> Path:
    path = tmp_path / "cnn.onnx"
    onnx.save(small_cnn(), path)
    return path


@pytest.mark.row("U2", "U5")
def test_two_pools_and_arguments_in_them(
    cnn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Built, proved, run in C, and proved again from the certificate."""
    out = tmp_path / "out"
    assert assay(monkeypatch, "build", cnn, "-o", out, "--pools", "fast=4096,slow", "--io-in-pools") == 0
    said = capsys.readouterr().out
    sizes = re.search(r"bytes: fast (\d+), slow (\d+); at most \d+ are live at once", said)
    assert sizes is not None and 0 < int(sizes[1]) <= 4096 and int(sizes[2]) > 0
    header = (out / "cnn.h").read_text()
    assert "CNN_INPUT_" in header and "workspace_fast" in header and "workspace_slow" in header
    assert assay(monkeypatch, "verify", out) == 0


@pytest.mark.parametrize("planner", ["tokens", "greedy-size", "greedy-conflicts", "first-fit", "hill-climb", "exact"])
def test_every_planner(lives: Module, planner: str) -> None:
    assert check_pool(plan_pools(lives, Memory(planner=planner)))[0].holds


def test_ones_own_planner(lives: Module) -> None:
    """Every buffer in bytes of its own; and one that puts all of them at 0 is refused."""

    def apart(problem: Problem) -> Plan:
        end, places = 0, {}
        for b in problem.buffers:
            assert isinstance(b.nbytes, int)
            end += -end % b.alignment
            places[b.name] = ("workspace", end)
            end += b.nbytes
        return made(places, end)

    def made(places: dict[str, tuple[str, int]], size: int) -> Plan:
        return Plan({n: Place(*p) for n, p in places.items()}, {"workspace": size})

    def stacked(problem: Problem) -> Plan:
        return made({b.name: ("workspace", 0) for b in problem.buffers}, 1 << 20)

    assert check_pool(plan_pools(lives, Memory(planner=apart)))[0].holds
    assert not check_pool(plan_pools(lives, Memory(planner=stacked)))[0].holds


def test_what_does_not_fit_names_a_limit_that_does(lives: Module) -> None:
    with pytest.raises(Invalid, match=r"a limit of (\d+) bytes for small would be enough, and nothing less") as wrong:
        plan_pools(lives, Memory((Pool("small", limit=100),)))
    found = re.search(r"limit of (\d+) bytes", str(wrong.value))
    assert found is not None
    enough = int(found[1])
    assert plan_pools(lives, Memory((Pool("small", limit=enough),))).program.sizes == {"small": enough}
    with pytest.raises(Invalid):
        plan_pools(lives, Memory((Pool("small", limit=enough - 1),)))


@pytest.mark.row("U17")
def test_a_slot_goes_to_a_pool_of_its_device(lives: Module) -> None:
    cpu, npu = VirtualDevice("cpu", 0), VirtualDevice("npu", 0)
    steps = lives.program.calls
    half = len(steps) // 2
    parts = tuple(replace(s, device=npu if i < half else cpu) for i, s in enumerate(steps))
    made = {n: s.device for s in parts for n in (*s.writes, *s.scratch)}
    slots = {n: replace(s, device=made.get(n, s.device)) for n, s in lives.program.slots.items()}
    module = lives.with_(main=replace(lives.program, slots=slots, steps=parts))
    done = plan_pools(module, Memory((Pool("sram", device=npu), Pool("dram", device=cpu))))
    for step in done.program.calls:
        for name in (*step.writes, *step.scratch):
            slot = done.program.slots[name]
            assert slot.place != "workspace" or slot.pool == ("sram" if step.device == npu else "dram")
    wrong = check_pool(done)[0]
    assert (
        not wrong.holds and "runs on cpu:0 and reads buffer" in wrong.detail
    )  # nothing copies from the one to the other
    with pytest.raises(Invalid, match="no pool is on .*cpu.*there are sram on .*npu"):
        plan_pools(module, Memory((Pool("sram", device=npu),)))


def test_slots_in_place_are_one_buffer(lives: Module) -> None:
    """The planner sees one buffer that lives as long as both, of the greater alignment."""
    program = lives.program
    step = next(
        s for s in program.calls
        if any(program.slots[n].place == "workspace" for n in s.reads) and program.slots[s.writes[0]].place
            == "workspace"
    )  # fmt: skip
    j = next(j for j, n in enumerate(step.reads) if program.slots[n].place == "workspace")
    joined = replace(program, steps=tuple(replace(s, in_place=((0, j),)) if s is step else s for s in program.steps))
    before = {b.name: b for b in wanted(program).buffers}
    after = {b.name: b for b in wanted(joined).buffers}
    read, made = step.reads[j], step.writes[0]
    assert set(before) - set(after) == {made}
    covered = {p for start, stop in after[read].live for p in range(start, stop)}
    both = (*before[read].live, *before[made].live)
    assert covered == {p for start, stop in both for p in range(start, stop)}
