"""The page of `assay check --report`: what stands on it is what the program does, and nothing in a model can break
it."""

from __future__ import annotations

import json
import os
import re
import xml.etree.ElementTree as ElementTree
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from assay.interp import vector
from assay.semantics.errors import EnvironmentFailure, Invalid
from assay.semantics.memory import BufferInfo, Interval, Place, Plan, Pool, Problem, conflicts, lower_bound
from assay.semantics.module import Module, Program, Slot
from assay.semantics.scalar.expression import Var
from assay.verify.app import check
from assay.verify.app.check import CheckRun, Line, Lowering
from assay.verify.app.report.collect import collect
from assay.verify.app.report.graph import node_depths
from assay.verify.app.report.maps import plan_picture
from assay.verify.app.report.model import CheckReport
from assay.verify.app.report.page import page
from assay.verify.app.report.plot import html_escaped, ticks
from assay.verify.app.report.write import write_report
from assay.verify.app.stages import lowering_passes
from assay.verify.evidence import proved, refuted
from assay.verify.liveness.lives import check_lives
from tests.models import small_cnn
from tests.verify.app.report.page import Read, read
from tests.verify.app.report.programs import HOSTILE, hostile, many, rich, work
from tests.verify.app.test_cli import assay

pytestmark = pytest.mark.row("U10", "U22")


def report_of(program: Program, wrong: str = "", **data: object) -> CheckReport:
    """The report of a run that ends at the stage pool; with `wrong`, it does not hold."""
    evidence = refuted("checked", wrong, **data) if wrong else proved("z3 says so")
    return collect("m.onnx", 3, [Line("pool", "a plan", evidence, 0.5)], {"pool": Module({"main": program})})


def page_of(program: Program, wrong: str = "", **data: object) -> Read:
    return read(page(report_of(program, wrong, **data)))


# --- what stands on the page --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cnn() -> tuple[list[Line], CheckRun]:
    check = CheckRun(Lowering(small_cnn(), "cnn", source="cnn.onnx"))
    return list(check.lines()), check


def test_every_stage_has_a_line(cnn: tuple[list[Line], CheckRun]) -> None:
    lines, check = cnn
    got = read(page(collect("cnn.onnx", 0, lines, check.modules)))
    for line in lines:
        e = line.evidence
        assert got.rows[line.stage] == [line.stage, e.how, f"{line.seconds:.2f}", line.did, e.detail]
    assert "every line holds" in got.text


def test_a_line_has_what_was_asked_for_it(cnn: tuple[list[Line], CheckRun]) -> None:
    lines, check = cnn
    assert {"pool", "constants"} <= check.queries.keys()
    report = collect("cnn.onnx", 0, lines, check.modules, check.queries)
    found = {s.name: dict(s.asked) for s in report.stages if s.asked}
    assert found == {stage: {stage: check.queries[stage]} for stage in ("constants", "pool")}
    assert html_escaped(check.queries["pool"], 10**9) in page(report)
    texts = {"c-entry": "(assert <b>)", "constants": "x", "c": "y" * 100_000, "cx": "z"}
    asked = next(s for s in collect("cnn.onnx", 0, lines, {}, texts).stages if s.name == "c").asked
    assert [about for about, _ in asked] == ["c-entry", "c"] and asked[0][1] == "(assert <b>)"
    assert len(asked[1][1]) < 41_000 and "60,000 characters are left out" in asked[1][1]
    assert "(assert &lt;b&gt;)" in page(collect("cnn.onnx", 0, lines, {}, texts))


def test_every_buffer_has_a_row_and_a_box(cnn: tuple[list[Line], CheckRun]) -> None:
    lines, check = cnn
    program = check.modules["pool"].program
    got = read(page(collect("cnn.onnx", 0, lines, check.modules)))
    assert sum(key.startswith("b") and key[1:].isdecimal() for key in got.rows) == len(program.slots)
    for number, slot in enumerate(program.slots.values()):
        row = got.rows[f"b{number}"]
        _, name, kind, nbytes, _, offset, live, producer, reader, reads, type_ = row
        assert (name, int(nbytes.replace(",", "")), type_) == (slot.name, slot.nbytes, str(slot.type))
        assert offset == ("" if slot.offset is None else f"{slot.offset:,}")
        assert live == " ".join(f"[{a}, {z})" for a, z in slot.live)
        writes = [i for i, s in enumerate(program.steps) if slot.name in (*s.writes, *s.scratch)]
        readers = [i for i, s in enumerate(program.steps) if slot.name in (*s.reads, *s.scratch)]
        assert int(reads) == len(readers)
        if slot.place in ("workspace", "output"):
            assert producer == ", ".join(f"{i} {program.calls[i].kernel}" for i in writes)
        if slot.place == "workspace":
            assert reader == f"{readers[-1]} {program.calls[readers[-1]].kernel}"
            assert kind == ("scratch" if any(slot.name in s.scratch for s in program.steps) else "tensor")
            shape = got.shape(f"m{number}")
            assert rectangles(shape.attrs["d"]) == rectangles_of(slot)
            words = shape.title.split("\n")
            assert words[:2] == [slot.name, f"{slot.nbytes:,} bytes at offset {slot.offset:,}"]
            assert words[2].startswith(f"produced by step {writes[0]} {program.calls[writes[0]].kernel}")
            assert words[3].startswith(f"last read by step {readers[-1]} {program.calls[readers[-1]].kernel}")


def rectangles(path: str) -> list[tuple[int, int, int, int]]:
    """Position, offset, positions, bytes of each part of a path."""
    found = re.findall(r"M(\d+) (\d+)h(\d+)v(\d+)h-(\d+)z", path)
    assert "".join(f"M{x} {y}h{w}v{h}h-{w}z" for x, y, w, h, _ in found) == path
    return [(int(x), int(y), int(w), int(h)) for x, y, w, h, _ in found]


def rectangles_of(slot: Slot) -> list[tuple[int, int, int, int]]:
    assert slot.offset is not None
    return [(a, slot.offset, z - a, slot.nbytes) for a, z in slot.live]


def test_pools_gaps_choices_and_devices() -> None:
    program = rich()
    got = page_of(program)
    for number, slot in enumerate(program.slots.values()):
        shown = [s for s in got.shapes if s.attrs.get("id") == f"m{number}"]
        assert [rectangles(s.attrs["d"]) for s in shown] == (
            [rectangles_of(slot)] if slot.is_pooled and slot.nbytes else []
        )
    assert got.rows["b6"][7:9] == ["2 left, 4 right", "5 store"]  # b, which both arms write
    assert got.rows["b0"][7] == "the caller" and got.rows["b1"][8] == "the caller"
    lanes = [(s.title, rectangles(s.attrs["d"])) for s in got.shapes if "lanes" in s.plot and s.title]
    assert lanes == [
        ("step 0: load at n0\non cpu", [(0, 31, 3, 8)]),
        ("step 2: left\non npu:1 shared", [(4, 21, 1, 8)]),
        ("step 3: right\non npu:1 shared", [(5, 21, 1, 8)]),
        ("step 4: right\non any device", [(6, 11, 1, 8)]),
        ("step 5: store\non cpu", [(7, 31, 1, 8)]),
        ("if flag: steps 2 to 2", [(4, 2, 1, 6)]),
        ("unless flag: steps 3 to 4", [(5, 2, 2, 6)]),
    ]


def test_pressure_is_against_the_pool_and_the_bound() -> None:
    program = rich()
    got = page_of(program)
    for pool in program.pools:
        inside = [BufferInfo(s.name, s.nbytes, s.live) for s in program.pooled if program.pool_of(s) is pool]
        bound = lower_bound(inside)
        assert f"lower bound {bound} bytes" in got.text and f"pool size {program.sizes[pool.name]} bytes" in got.text
        shown = [s.attrs["d"] for s in got.shapes if "pressure" in s.plot and s.classes == ["bound"]]
        assert f"M0 {bound}H8" in shown
    area = next(s.attrs["d"] for s in got.shapes if "pressure" in s.plot and s.classes == ["area"])
    assert area == "M0 0H0V32H1V96H2V65H4V64H5V0H7V64H8V0H8V0z"
    assert "its limit is 128 bytes" in got.text


def test_the_data_is_beside_the_page(tmp_path: Path) -> None:
    report = report_of(rich())
    write_report(tmp_path / "new" / "dir", report)
    assert json.loads((tmp_path / "new/dir/report.json").read_text("utf-8")) == json.loads(json.dumps(report.as_data()))
    assert (tmp_path / "new/dir/index.html").read_text("utf-8") == page(report)


def test_without_a_program_there_are_only_lines() -> None:
    lines = [Line("import", "", refuted("checked", "node n is ill-formed"), 0.1)]
    got = read(page(collect("m.onnx", 0, lines, {"import": Module({})})))
    assert got.rows["import"][1] == "FAILS" and got.tags["svg"] == 0
    assert "node n is ill-formed" in got.section("refutation")


def test_before_a_plan_there_is_pressure_but_no_map() -> None:
    program = rich()
    slots = {n: replace(s, offset=None) for n, s in program.slots.items()}
    lines = [Line("liveness", "", refuted("checked", "no"), 0.1)]
    got = read(page(collect("m", 0, lines, {"liveness": Module({"main": replace(program, slots=slots, sizes={})})})))
    plots = {s.plot.split()[1] for s in got.shapes}
    assert plots == {"pressure", "lanes"} and "not planned; at least 96 bytes" in got.text


# --- a plan that is wrong -----------------------------------------------------------------------------------------


def moved(program: Program, **slots: Slot) -> Program:
    return replace(program, slots={**program.slots, **slots})


def marked(got: Read) -> tuple[set[str], list[tuple[int, int, int, int]]]:
    """The numbers of the outlined buffers, and the marked area."""
    outlined = {s.attrs["data-buffer"] for s in got.shapes if {"first", "second"} & set(s.classes)}
    (shared,) = (s for s in got.shapes if "shared" in s.classes)
    return outlined, rectangles(shared.attrs["d"])


def test_a_planted_clash_is_marked(cnn: tuple[list[Line], CheckRun]) -> None:
    """In the plan of a real model: whichever two buffers share bytes, those two are shown, and where they do."""
    lines, check = cnn
    program = check.modules["pool"].program
    work = [BufferInfo(s.name, s.nbytes, s.live) for s in program.pooled if s.nbytes > 64]
    pairs = list(conflicts(work))
    numbers = {n: str(i) for i, n in enumerate(program.slots)}
    for a, b in pairs[:: max(1, len(pairs) // 5)]:
        first, second = program.slots[a.name], program.slots[b.name]
        wrong = moved(program, **{b.name: replace(second, offset=first.offset)})
        said = Line("pool", "", refuted("proved", f"buffers {a.name} (p) and {b.name} (q) share byte 7"), 0.1)
        got = read(page(collect("m", 0, [*lines[:-3], said], {"pool": Module({"main": wrong})})))
        outlined, area = marked(got)
        assert outlined == {numbers[a.name], numbers[b.name]}
        both = next((max(s, t), min(e, f)) for s, e in a.live for t, f in b.live if max(s, t) < min(e, f))
        assert area == [(both[0], first.offset, both[1] - both[0], min(a.nbytes, b.nbytes))]
        assert said.evidence.detail in got.section("refutation")
        assert f"share bytes {first.offset} to {first.offset + min(a.nbytes, b.nbytes) - 1} of pool" in got.section(
            "refutation"
        )  # type: ignore[operator]


@pytest.mark.parametrize(
    ("slot", "changed", "number", "area", "words"),
    [
        ("c", {"offset": 60}, {"7"}, [(5, 64, 2, 12)], "outside the pool: steps 3 to 4"),
        ("s", {"alignment": 64}, {"5"}, [(0, 72, 2, 32)], "not aligned: step 0"),
        ("s", {"offset": None}, {"5"}, [(0, 0, 2, 32)], "without a place: step 0"),
        ("flag", {"offset": 63}, {"3", "4"}, [(2, 63, 2, 1)], "shared bytes: steps 0 to 1"),
    ],
)
def test_each_fault_has_a_picture(
    slot: str, changed: Mapping[str, object], number: set[str], area: list[tuple[int, int, int, int]], words: str
) -> None:
    program = rich()
    got = page_of(moved(program, **{slot: replace(program.slots[slot], **changed)}), "it is wrong")  # type: ignore[arg-type]
    assert marked(got) == (number, area)
    assert words in got.section("refutation")


@pytest.mark.parametrize("stage", ["liveness", "pool"])
def test_a_life_that_is_too_short_is_marked(stage: str, cnn: tuple[list[Line], CheckRun]) -> None:
    _, check = cnn
    program = check.modules[stage].program
    number, slot = next((i, s) for i, s in enumerate(program.slots.values()) if s.is_pooled and s.stop - s.start > 1)
    short = moved(program, **{slot.name: replace(slot, live=((slot.start, slot.stop - 1),))})
    said = check_lives(short, check.modules[stage].kernels)
    got = read(page(collect("m", 0, [Line(stage, "", said, 0.1)], {stage: Module({"main": short})})))
    assert marked(got) == ({str(number)}, [(slot.stop - 1, slot.offset or 0, 1, slot.nbytes)])
    step = bisect_right(program.positions, slot.stop - 1) - 1
    assert f"needed here, and not live: step {step}" in got.section("refutation")


def test_of_two_faults_the_one_that_is_named_is_shown() -> None:
    program = rich()
    slots = program.slots
    both = moved(program, flag=replace(slots["flag"], offset=63), c=replace(slots["c"], offset=32))
    assert marked(page_of(both, "wrong", buffers=("b", "c")))[0] == {"6", "7"}
    assert marked(page_of(both, "wrong", buffers=("a", "flag")))[0] == {"3", "4"}


def test_a_small_clash_of_large_buffers_can_be_seen() -> None:
    slots = {"a": work("a", 10**9, [(0, 100_000)], 0), "b": work("b", 10**9, [(50_000, 50_001)], 10**9 - 1)}
    got = page_of(Program(slots, (), (), (), sizes={"workspace": 2 * 10**9}), "a and b share a byte")
    assert marked(got) == ({"0", "1"}, [(50_000, 10**9 - 1, 1, 1)])
    (window,) = (v.split() for t, k, v in got.attrs if k == "data-window" and v.split()[0] != "0")
    assert int(window[1]) - int(window[0]) < 50 and int(window[3]) - int(window[2]) < 50


def test_a_refutation_without_a_fault_of_the_plan_has_no_picture() -> None:
    got = page_of(rich(), "the plan has other steps than the program")
    assert "other steps" in got.section("refutation") and not any("refuted" in s.plot for s in got.shapes)


# --- what a page withstands ---------------------------------------------------------------------------------------


def test_hostile_names_are_text() -> None:
    program = hostile()
    wrong = replace(program, sizes=dict.fromkeys(HOSTILE, 4))
    for got in (page_of(program), page_of(wrong, HOSTILE[0] + "0")):
        assert got.tags["script"] == 1 and got.tags["img"] == 0
        assert not [a for a in got.attrs if a[1].startswith("on")]
        assert got.rows["b0"][1] == HOSTILE[0] + "0" and got.rows["b1"][1] == HOSTILE[1] + "1"
        assert got.rows["b2"][1] == HOSTILE[2] + "2" and got.rows["b3"][1] == "\ufffdgnp\ufffd.3"
        assert len(got.rows["b4"][1]) == 160 and got.rows["b4"][1].endswith("long4")
        assert got.shape("m0").title.startswith(HOSTILE[0])
    assert re.search("long4\n8 bytes at offset 32\nproduced by step 4 long", got.shape("m4").title)
    assert len(page(report_of(program))) < 100_000


def test_nothing_is_fetched(cnn: tuple[list[Line], CheckRun]) -> None:
    lines, check = cnn
    made = page(collect("https://example.org/m.onnx", 0, lines, check.modules))
    got = read(made)
    assert {v[0] for _, k, v in got.attrs if k == "href"} == {"#"}
    assert not [a for a in got.attrs if a[1] in ("src", "srcset", "action", "xlink:href", "data", "poster")]
    assert not got.tags.keys() & {"link", "iframe", "object", "embed", "base"}
    code = "".join(re.findall(r"<(?:style|script)>(.*?)</(?:style|script)>", made, re.DOTALL))
    assert not re.search(r"@import|url\(|fetch\(|XMLHttp|import\(", code)
    assert re.findall(r"https?://[^'\"]*", code) == ["http://www.w3.org/2000/svg"]


def test_links_lead_somewhere() -> None:
    got = page_of(rich())
    there = {v for _, k, v in got.attrs if k == "id"}
    links = {v[1:] for _, k, v in got.attrs if k == "href"}
    assert links and links <= there
    assert {f"m{i}" for i in range(3, 8)} <= links and {f"s{i}" for i in (0, 2, 3, 4, 5)} <= links


def test_ten_thousand_buffers() -> None:
    made = page(report_of(many(10_000)))
    assert len(made.encode()) < 12_000_000
    got = read(made)
    assert got.shape("m9999").title.startswith(
        "/model/layers.999/attention/MatMul_9999_output\n10,000 bytes at offset 0\n"
    )
    assert got.rows["b9997"][7:9] == ["9997 fused_matmul_add_relu47", "9999 fused_matmul_add_relu49"]


def test_of_more_the_largest_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.verify.app.report.page.MOST", 10)
    program = many(50)
    got = page_of(moved(program, **{n: replace(s, offset=120_000) for n, s in list(program.slots.items())[:1]}), "x")
    rows = {int(key[1:]) for key in got.rows if re.fullmatch(r"b\d+", key)}
    assert len(rows) == 10 and {0, 36, 35, 34} <= rows  # the one that is wrong, and the largest
    assert "40 smaller buffers of 50 are not drawn" in got.text and "40 more steps are left out" in got.text


# --- files and exit codes -----------------------------------------------------------------------------------------


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "cnn.onnx"
    onnx.save(small_cnn(), path)
    return path


def test_check_writes_the_page(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "a" / "b"
    assert assay(monkeypatch, "check", model, "--report", out) == 0
    assert sorted(p.name for p in out.iterdir()) == ["index.html", "report.json"]
    first = (out / "index.html").read_text("utf-8")
    assert "every line holds" in first and "cnn.onnx" in first

    def fault(module: Module) -> Module:
        program = planned(module).program
        a, b = next(p for p in conflicts(BufferInfo(s.name, s.nbytes, s.live) for s in program.pooled if s.nbytes))
        return module.with_(
            main=moved(program, **{b.name: replace(program.slots[b.name], offset=program.slots[a.name].offset)})
        )

    planned = lowering_passes(vector.run)["pool"]
    monkeypatch.setattr(check, "Lowering", lambda *a, **k: Lowering(*a, **k, changed={"pool": fault}))
    assert assay(monkeypatch, "check", model, "--report", out, "--json") == 1
    got = read((out / "index.html").read_text("utf-8"))
    assert len(marked(got)[0]) == 2 and got.rows["pool"][1] == "FAILS"


@pytest.mark.parametrize("where", ["file", "file/below", "foreign", "page"])
def test_a_place_that_is_no_good_is_said_at_once(
    where: str, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "index.html").write_text("<!doctype html>\nmine")
    (tmp_path / "page" / "index.html").mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    assert assay(monkeypatch, "check", model, "--report", tmp_path / where) == 2
    out, err = capsys.readouterr()
    assert out == "" and len(err.splitlines()) == 1
    assert ("[report.C1]" if "file" in where else "[report.C2]") in err
    assert sorted(tmp_path.rglob("*")) == before


def test_nothing_is_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_report(tmp_path, report_of(rich()))
    old = {p.name: p.read_bytes() for p in tmp_path.iterdir()}

    def full(*paths: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(EnvironmentFailure, match=r"No space left on device \[output\.C1\]"):
        write_report(tmp_path, report_of(many(5)))
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == old


# --- a picture that stands alone ----------------------------------------------------------------------------------


def test_the_picture_of_a_plan() -> None:
    lives: dict[str, tuple[Interval, ...]] = {"a": ((0, 2), (5, 9)), "<b>": ((1, 3),), "k": ((2, 4),)}
    pools = (Pool("big"), Pool("empty"), Pool("small"))
    problem = Problem(tuple(BufferInfo(n, 100, live, producer="p&q") for n, live in lives.items()), pools)
    plan = Plan({"a": Place("big", 0), "<b>": Place("big", 100), "k": Place("small", 0)}, {"big": 250, "small": 100})
    picture = plan_picture(problem, plan)
    root = ElementTree.fromstring(picture)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    found = [
        (e.get("d"), "".join(e.itertext()).split("\n")[0]) for e in root.iter() if len(e) and e.tag.endswith("path")
    ]
    assert found == [("M0 0h2v100h-2zM5 0h4v100h-4z", "a"), ("M1 100h2v100h-2z", "<b>"), ("M2 0h2v100h-2z", "k")]
    words = "".join(root.itertext())
    assert "pool big: 2 buffers in 250 bytes, at least 200" in words and "empty" not in words


def test_a_picture_needs_numbers() -> None:
    n = Var("n")
    problem = Problem((BufferInfo("a", n, ((0, 1),)),), (Pool("w"),))
    with pytest.raises(Invalid, match=r"n is none.*\[report\.C3\]"):
        plan_picture(problem, Plan({"a": Place("w", 0)}, {"w": n}))


def test_ticks_are_round() -> None:
    assert ticks(0, 100, 5) == [0, 20, 40, 60, 80, 100]
    assert ticks(3, 9, 10) == [3, 4, 5, 6, 7, 8, 9]
    assert ticks(0, 3_287_424, 6) == [0, 1_000_000, 2_000_000, 3_000_000]
    assert html_escaped("a" * 1000, 10) == "aaaaa…aaaa"


def test_nodes_stand_behind_what_they_read() -> None:
    chain = {(i, i + 1) for i in range(4)}
    assert node_depths(5, chain) == [0, 1, 2, 3, 4]
    # 5 and 6 make a weight of node 4, and 7 one of 1 and 3
    assert node_depths(8, {(0, 1), (1, 2), (2, 3), (5, 6), (6, 7), (3, 7), (4, 3), (4, 1)})[4] == 0
    depths = node_depths(7, {(0, 1), (1, 4), (4, 6), (2, 3), (3, 6), (5, 6)})
    assert depths == [0, 1, 1, 2, 2, 2, 3]
    for count, edges in ((3, {(0, 2), (1, 2)}), (4, {(0, 1), (0, 2), (1, 3), (2, 3)}), (0, set()), (2, set())):
        found = node_depths(count, edges)
        assert all(found[u] < found[v] for u, v in edges) and min(found, default=0) == 0
