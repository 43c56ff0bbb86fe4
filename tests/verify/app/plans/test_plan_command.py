"""`assay plan FILE.csv` as a person meets it: what it prints and writes, exit codes, and one line for each mistake."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from assay.lower.memory import csv as tables
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.memory import Plan, Problem
from assay.verify.api import plan as plan_api
from assay.verify.app.cli import main
from assay.verify.app.pools import parse_constant_pools, parse_pools
from tests.lower.memory.memory_problems import CAPACITY, instance

FIVE = "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n"
"""The example of google/minimalloc; 12 bytes are enough."""

Command = Callable[..., int]


@pytest.fixture
def assay(monkeypatch: pytest.MonkeyPatch) -> Command:
    def run(*args: object) -> int:
        monkeypatch.setattr(sys, "argv", ["assay", *map(str, args)])
        with pytest.raises(SystemExit) as done:
            main()
        return int(done.value.code or 0)

    return run


@pytest.fixture
def five(tmp_path: Path) -> Path:
    path = tmp_path / "five.csv"
    path.write_text(FIVE)
    return path


def rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text())))


@pytest.mark.row("U11")
def test_a_plan_is_written_and_said_to_be_optimal(
    assay: Command, five: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.csv"
    assert assay("plan", five, "--output", out, "--capacity", 12) == 0
    said = capsys.readouterr().out
    assert "workspace: 12 bytes for 5 buffers; 12 live at once, ratio 1.000; optimal" in said
    assert "proved: z3: no two of 5 live buffers share a byte" in said
    assert f"wrote {out}" in said
    found = rows(out)
    assert out.read_text().startswith("id,lower,upper,size,offset\nb1,0,3,4,")
    assert all(0 <= int(r["offset"]) <= 8 for r in found)
    for a in found:
        for b in found:
            apart = int(a["lower"]) >= int(b["upper"]) or int(b["lower"]) >= int(a["upper"])
            assert a is b or apart or abs(int(a["offset"]) - int(b["offset"])) >= 4


def test_a_capacity_that_is_not_reached_is_exit_1(
    assay: Command, five: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.csv"
    assert assay("plan", five, "-o", out, "--capacity", 11) == 1
    assert "12 bytes do not fit the capacity of 11; no plan is below 12" in capsys.readouterr().out
    assert not out.exists()


@pytest.mark.row("U2")
def test_pools(assay: Command, five: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.csv"
    assert assay("plan", five, "-o", out, "--pools", "fast=8,slow") == 0
    assert "fast: 8 bytes of 8 for 4 buffers" in capsys.readouterr().out
    assert sorted(r["pool"] for r in rows(out)) == ["fast"] * 4 + ["slow"]
    assert assay("plan", five, "--pools", "fast=8") == 2
    assert "a limit of 12 bytes for fast would be enough, and nothing less [memory.C7]" in capsys.readouterr().err


def test_as_json(assay: Command, five: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert assay("plan", five, "--json", "--planner", "greedy-size", "--alignment", 8) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["planner"], data["holds"], data["how"], data["optimal"]) == ("greedy-size", True, "proved", False)
    assert data["pools"] == [
        {"name": "workspace", "limit": None, "buffers": 5, "bytes": 20, "lower_bound": 12, "ratio": 1.6667}
    ]
    assert {p["offset"] for p in data["places"].values()} == {0, 8, 16}


def test_a_picture(assay: Command, five: Path, tmp_path: Path) -> None:
    path = tmp_path / "map.svg"
    assert assay("plan", five, "--plot", path) == 0
    root = ElementTree.parse(path).getroot()
    titles = [e.text or "" for e in root.iter("{http://www.w3.org/2000/svg}title")]
    assert any(t.startswith("b4\n4 bytes at offset ") and "[9, 21)" in t for t in titles)
    assert "http" not in path.read_text().replace("http://www.w3.org/2000/svg", "")


def test_a_wrong_plan_is_not_written(
    assay: Command, five: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The planner is not trusted: a plan that puts everything at 0 is refuted."""
    honest = plan_api.make_plan

    def lying(problem: Problem, *args: object, **options: object) -> Plan:
        made = honest(problem)
        return Plan({n: type(p)(p.pool, 0) for n, p in made.places.items()}, made.sizes, "lying", 0, True)

    monkeypatch.setattr(plan_api, "make_plan", lying)
    out = tmp_path / "out.csv"
    assert assay("plan", five, "-o", out) == 1
    said = capsys.readouterr().out
    assert "share byte" in said and "FAILS: the plan does not hold, and nothing is written" in said
    assert not out.exists()


@pytest.mark.row("U11")
def test_a_public_instance(assay: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert assay("plan", instance("A"), "--capacity", CAPACITY, "--seed", 1) == 0
    assert "1048576 bytes for 154 buffers; 1048576 live at once, ratio 1.000; optimal" in capsys.readouterr().out


# --- the form ------------------------------------------------------------------------------------------------------


def test_the_other_names_and_columns() -> None:
    table = tables.parse("buffer_id,start,end,size,note,alignment,gaps\nx,0,8,4,hot,8,2-3 5-5\ny,1,1,0,,,\n")
    x, y = table.buffers
    assert (x.name, x.nbytes, x.live, x.alignment) == ("x", 4, ((0, 2), (4, 5), (6, 9)), 8)
    assert (y.live, y.alignment) == (((1, 2),), 1)


def test_blank_lines_spaces_and_marks_of_windows(tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    path.write_bytes(b'\xef\xbb\xbfid , lower,upper,size\r\n\r\n a, 0 ,2, 4\r\n"b, c",1,3,5\r\n')
    table = tables.read_table(path)
    assert [(b.name, b.nbytes) for b in table.buffers] == [("a", 4), ("b, c", 5)]
    assert table.lines == (3, 4)


def test_what_is_written_can_be_read_and_is_placed_by_hand(assay: Command, five: Path, tmp_path: Path) -> None:
    out, again = tmp_path / "out.csv", tmp_path / "again.csv"
    assert assay("plan", five, "-o", out, "--pools", "fast=8,slow") == 0
    assert assay("plan", out, "-o", again, "--pools", "fast,slow") == 0
    assert [(r["offset"], r["pool"]) for r in rows(out)] == [(r["offset"], r["pool"]) for r in rows(again)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty; the first line names the columns: id,lower,upper,size"),
        ("id,lower,upper\n", ":1: there is no column 'size'"),
        ("a,0,3,4\n", ":1: there is no column 'id'; the first line names the columns"),
        ("id,lower,start,upper,size\n", ":1: there are two columns 'lower'"),
        ("id,lower,upper,size\na,0,3\n", ":2: has 3 fields, but the header has 4"),
        ("id,lower,upper,size\na,0,3,4\n\nb,0,3,x\n", ":4: size is 'x', and must be a whole number"),
        ("id,lower,upper,size\na,0,3,1e3\n", ":2: size is '1e3'"),
        ("id,lower,upper,size\na,0,3,-4\n", ":2: buffer a has -4 bytes"),
        ("id,lower,upper,size\na,3,3,4\n", ":2: buffer a is live from 3 up to, and not including, 3: never"),
        ("id,lower,upper,size\na,0,3,4\na,1,3,4\n", ":3: a second buffer called 'a'; the first is in line 2"),
        ("id,lower,upper,size,alignment\na,0,3,4,0\n", ":2: buffer a has the alignment 0"),
        ("id,lower,upper,size,gaps\na,0,9,4,2-12\n", ":2: the gap 2-12 must lie inside the life"),
        ("id,lower,upper,size,gaps\na,0,9,4,4\n", ":2: the gap '4' must be two numbers with a dash"),
        ('id,lower,upper,size\n"a,0,3,4\n', "is not CSV"),
    ],
)
def test_a_file_that_is_not_of_the_form(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(Invalid) as raised:
        tables.read_table(path).problem()
    assert words in str(raised.value)
    assert str(path) in str(raised.value)


def test_a_gap_with_a_window_is_not_for_us() -> None:
    with pytest.raises(Unsupported, match="keeps a part of the buffer in use"):
        tables.parse("id,lower,upper,size,gaps\na,0,9,4,2-4@0:2\n")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--planner", "best"], "there is no planner 'best'"),
        (["--pools", "fast=many"], "--pools takes name@memory=limit"),
        (["--alignment", "0"], "--alignment is 0"),
        (["--capacity", "-1"], "--capacity is -1"),
        (["--time-limit", "-1"], "--time-limit is -1"),
        (["-o", "nowhere/out.csv"], "there is no such directory"),
    ],
)
def test_options_that_make_no_sense(
    assay: Command, five: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    assert assay("plan", five, *options) == 2
    said = capsys.readouterr().err
    assert words in said and len(said.splitlines()) == 1


def test_no_such_file_and_no_text(assay: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert assay("plan", tmp_path / "none.csv") == 2
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00")
    assert assay("plan", tmp_path / "bytes.csv") == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2 and "cannot read" in said[0] and "is not text in UTF-8" in said[1]


@pytest.mark.row("C7")
def test_pools_name_their_memories() -> None:
    near, far = parse_pools("near@cuda:0/shared=4096, far")
    assert near.device == VirtualDevice("cuda", 0, scope="shared") and near.limit == 4096
    assert far.device == ANYWHERE and far.limit is None
    assert parse_pools("a@llvm")[0].device == VirtualDevice("cpu", target="llvm", scope="global")
    tcm, flash, weights = parse_constant_pools("tcm@.tcm=64,flash,weights@cuda:1")
    assert (tcm.section, tcm.device, tcm.limit) == (".tcm", ANYWHERE, 64) and flash.section == ""
    assert weights.device == VirtualDevice("cuda", 1, scope="global") and weights.read_only


@pytest.mark.parametrize("text", ["", "a@", "a=x", "=3", "a@cuda=1=2"])
def test_wrong_pools_are_refused(text: str) -> None:
    for parse in (parse_pools, parse_constant_pools):
        with pytest.raises(Invalid, match=r"such as .*\[cli\.C5\]"):
            parse(text)
    with pytest.raises(Invalid, match=r"device\.C2"):
        parse_pools("a@cuda:x")
