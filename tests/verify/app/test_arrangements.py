"""Plans of several arrangements through the command line: planned, built, run, stored and verified
(specs/lower.md, "pool"; specs/verify.md, "pool")."""

from __future__ import annotations

import csv
import hashlib
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from assay.lower import c as lower_c
from assay.semantics.arrangements import in_one, total
from assay.semantics.errors import Invalid
from assay.semantics.graph import Expr
from assay.semantics.memory import Place, Plan, arrangements
from assay.semantics.module import Module
from assay.semantics.scalar import as_expr, select
from assay.verify.app.arrangement_sizes import sizes_of_arrangements, taken_at
from assay.verify.app.check import CheckRun, Line, Lowering
from assay.verify.app.judging_sizes import SizedRun
from assay.verify.app.report.collect import collect
from assay.verify.app.report.page import page
from assay.verify.evidence import Context
from assay.verify.pool import check
from assay.verify.trials.sizes import Sizes
from tests.verify.app.plans.test_plan_command import Command, assay

__all__ = ["assay"]


def crossing_model() -> onnx.ModelProto:
    """Chains of products over [n, 16], [m, m] and [n, m], of which some values live long."""
    rng = random.Random(3)
    chains = {"a": ["x"], "b": ["y"], "c": ["z"]}
    used: set[str] = set()
    nodes = []

    def some(kind: str) -> str:
        found = chains[kind][-1 - min(len(chains[kind]) - 1, rng.choice([0, 0, 1, 1, 2, 4]))]
        used.add(found)
        return found

    for i in range(40):
        kind = rng.choice("abc")
        left = some(kind)
        nodes.append(helper.make_node("MatMul", [left, "w" if kind == "a" else some("b")], [f"{kind}{i}"]))
        chains[kind].append(f"{kind}{i}")
    shapes: dict[str, list[str | int]] = {"a": ["n", 16], "b": ["m", "m"], "c": ["n", "m"]}

    def value(name: str, shape: list[str | int]) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    inputs = [value(n, shapes[k]) for k, n in zip("abc", "xyz", strict=True)] + [value("w", [16, 16])]
    outputs = [value(n, shapes[k]) for k, chain in chains.items() for n in chain[1:] if n not in used]
    graph = helper.make_graph(nodes, "crossing", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def lowered() -> tuple[Module, Module]:
    """The module before the stage pool, and behind it."""
    lowering = CheckRun(Lowering(crossing_model(), "crossing"), stop_after="pool")
    assert all(line.evidence.holds for line in lowering.lines())
    return lowering.modules["liveness"], lowering.modules["pool"]


def test_the_report_shows_a_fault_where_it_is(lowered: tuple[Module, Module]) -> None:
    """The memory map is at the sizes, and in the arrangement, at which something is wrong; else at large sizes."""
    before, after = lowered
    wrong = with_second(after, overlapping)
    line = Line("pool", "", check(before, wrong, Context(0)), 0.0)
    report = collect("crossing", 0, [line], {"pool": wrong})
    assert report.at == line.evidence.data["dims"] and report.refutation is not None
    assert {b.offset for b in report.buffers if b.pool} == {0}
    right = collect("crossing", 0, [], {"pool": after})
    assert right.at == {"n": 128, "m": 128} and right.refutation is None
    assert "the program is shown at n = 128, m = 128" in page(right)


def plan_of(module: Module) -> Plan:
    found = module.program.plan
    assert found is not None and len(found.others) == 1
    return found


def with_second(module: Module, change: Callable[[Plan], Plan]) -> Module:
    plan = plan_of(module)
    return module.with_(main=replace(module.program, plan=replace(plan, others=(change(plan.others[0]),))))


def overlapping(one: Plan) -> Plan:
    """Every buffer at the beginning."""
    return replace(one, places={n: Place(p.pool, 0) for n, p in one.places.items()})


def short(one: Plan) -> Plan:
    return replace(one, sizes={"workspace": one.sizes["workspace"] - 4})


@pytest.mark.parametrize("fault, said", [(overlapping, "share"), (short, "pool workspace has -4 bytes")])
def test_the_stage_refuses_a_fault_in_one_arrangement_only(
    lowered: tuple[Module, Module], fault: Callable[[Plan], Plan], said: str
) -> None:
    before, after = lowered
    wrong = check(before, with_second(after, fault), Context(0))
    assert wrong.holds is False and wrong.detail.startswith("arrangement 1 of 2: ") and said in wrong.detail, wrong


def test_sizes_are_found_at_which_each_arrangement_is_taken(lowered: tuple[Module, Module]) -> None:
    program = lowered[1].program
    for k, points in sizes_of_arrangements(program, []):
        assert taken_at(program, next(points)) == k
    assert not list(sizes_of_arrangements(program, [1, 0]))


def test_what_is_said_of_arrangements_is_the_same_where_the_model_has_no_such_run(
    lowered: tuple[Module, Module],
) -> None:
    """A certificate, which has no model, finds the same sizes again; only a backend is not asked there."""

    class Refusing(Lowering):
        def sized(self, module: Module, sizes: Sizes) -> tuple[Module, Mapping[str, Expr]]:
            raise Invalid("the shape is (0, -1)")

    def found(lowering: Lowering) -> tuple[list[SizedRun], list[str]]:
        check = CheckRun(lowering, stop_after="import")
        assert all(line.evidence.holds for line in check.lines())
        check.runs = check.runs[:1]
        return check.runs_of_arrangements(lowered[1])

    runs, missing = found(Lowering(crossing_model(), "crossing"))
    others, none = found(Refusing(crossing_model(), "crossing"))
    at, again = ([{s.name: n for s, n in r.sizes.items()} for r in some] for some in (runs, others))
    assert runs and at == again and missing == none == []
    assert not runs[0].refused and others[0].refused == "the shape is (0, -1)"


def test_c_that_takes_the_wrong_arrangement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its offsets are those of one arrangement where the workspace is that of the other."""

    def confused(plan: Plan) -> Plan:
        first, second = arrangements(plan)
        less = as_expr(total(second.sizes.values())) < as_expr(total(first.sizes.values()))
        wrong = {
            n: Place(p.pool, select(less, as_expr(p.offset), as_expr(second.places[n].offset)))
            for n, p in first.places.items()
        }
        return replace(in_one(plan), places=wrong)

    monkeypatch.setattr(lower_c, "in_one", confused)
    *_, line = CheckRun(Lowering(crossing_model(), "crossing")).lines()
    assert line.stage == "compare" and line.evidence.holds is False
    assert "C differs from the machine" in line.evidence.detail


def test_built_verified_and_refused_when_changed(
    assay: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The stored plan has a fault in one arrangement, and the manifest fits."""
    onnx.save(crossing_model(), tmp_path / "crossing.onnx")
    out = tmp_path / "out"
    assert assay("build", tmp_path / "crossing.onnx", "-o", out) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "the smallest of 2 arrangements is taken; 1." in said and "times the bytes live at once at the worst" in said
    assert "each of 2 arrangements by itself" in said
    assert assay("verify", out) == 0
    stored = next((out / "certificate").glob("*-pool.json"))
    rows = stored.read_text().splitlines()
    second = next(i for i, row in enumerate(rows) if row.startswith('["memory.Plan"'))
    name, content = json.loads(rows[second].rstrip(","))
    assert not content["others"]  # what a plan holds comes before it
    places = content["places"]["map"]
    content["places"]["map"] = [[buffer, places[0][1]] for buffer, _ in places]
    rows[second] = json.dumps([name, content]) + ","
    stored.write_text("\n".join(rows) + "\n")
    seal(out)
    capsys.readouterr()
    assert assay("verify", out) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "pool FAILS" in said and "arrangement 1 of 2: " in said and " share byte" in said


def seal(out: Path) -> None:
    """Write the manifest as a forger would, with the digests of what is there."""
    path = out / "certificate" / "manifest.json"
    listed: dict[str, Any] = json.loads(path.read_text())
    listed["files"] = {n: hashlib.sha256((out / n).read_bytes()).hexdigest() for n in listed["files"]}
    path.write_text(json.dumps(listed, indent=1) + "\n")


def test_a_file_is_planned_in_several_arrangements(
    assay: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(1)
    sizes = ["4*n*64", "4*m*m", "4*n*m", "256*m", "1024"]
    rows = [f"b{i},{i},{i + rng.choice([1, 2, 2, 3, 3, 5, 12])},{rng.choice(sizes)}" for i in range(40)]
    (tmp_path / "mixed.csv").write_text("\n".join(["id,lower,upper,size", *rows]) + "\n")
    bounds = ("--bound", "n=1..64", "--bound", "m=1..64", "--alignment", "64", "--planner", "first-fit")
    assert assay("plan", tmp_path / "mixed.csv", *bounds, "-o", tmp_path / "out.csv", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["how"] == "proved" and len(data["arrangements"]) == 2
    assert data["arrangements"][0]["offsets"]["b3"] == data["places"]["b3"]["offset"]
    with open(tmp_path / "out.csv") as file:
        found = list(csv.DictReader(file))
    assert [row["offset_1"] for row in found] == [str(n) for n in data["arrangements"][1]["offsets"].values()]
    # the first arrangement is a plan of its own, and is proved again
    assert assay("plan", tmp_path / "out.csv", *bounds[:4], "--alignment", "64") == 0
    assert "given in" in (said := capsys.readouterr().out) and "proved" in said
