"""`assay diff`: what is worse, better or other between two reports, and what of it decides (specs/verify.md, "Two
reports")."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest

import assay
from assay.semantics.errors import Invalid
from assay.verify.app.changes.changes_page import changes_page
from assay.verify.app.changes.compared import compare_reports
from assay.verify.app.changes.recorded import read_report
from assay.verify.app.report.write import write_report
from tests.published import complaints
from tests.verify.app.report.page import read
from tests.verify.app.report.programs import HOSTILE, hostile, rich
from tests.verify.app.report.test_report import moved, report_of
from tests.verify.app.test_cli import assay as command
from tests.verify.judge.planted import Off, two_outputs

Change = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`right` and `wrong`: the same backend, which gives another element in the second."""
    place = tmp_path_factory.mktemp("judged")
    assay.judge(two_outputs(), "numpy", kinds=["random"], page=place / "right")
    assay.judge(two_outputs(), Off("numpy"), kinds=["random"], page=place / "wrong")
    return place


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of the whole main job, but for C."""
    place = tmp_path_factory.mktemp("checked") / "report"
    assay.check(two_outputs(), backends="numpy", stop_after="pool", page=place)
    return place


def changed(report: Path, to: Path, change: Change) -> Path:
    """A copy of a report in which a fault is planted."""
    data = json.loads((report / "report.json").read_text("utf-8"))
    change(data)
    to.write_text(json.dumps(data), "utf-8")
    return to


def rows(then: Path, now: Path) -> list[tuple[str, ...]]:
    found = compare_reports(read_report(then), read_report(now)).found
    return [(c.part, c.name, c.then, c.now, c.weight) for c in found]


def test_a_backend_that_has_become_wrong(
    judged: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right, wrong = judged / "right", judged / "wrong"
    assert command(monkeypatch, "diff", right, wrong, "--json") == 1
    data = json.loads(capsys.readouterr().out)
    assert data["format"] == "assay-diff-1" and data["holds"] is False
    worse = {(c["part"], c["name"]) for c in data["changes"] if c["weight"] == "worse"}
    assert ("verdict", "numpy") in worse and ("tensor", "b of numpy on random") in worse
    assert any(part == "finding" and "numpy is wrong on random" in name for part, name in worse)
    assert command(monkeypatch, "diff", wrong, right) == 0
    said = capsys.readouterr().out
    assert "verdict, better" in said and "0 worse; " in said
    assert command(monkeypatch, "diff", right, wrong, "--quiet") == 1
    assert "worse: verdict numpy" in capsys.readouterr().out


def test_what_is_the_same_but_for_time(
    judged: Path, checked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def later(data: dict[str, Any]) -> None:
        for row in data.get("stages", data.get("backends")):
            row["seconds"] += 5

    for report in (judged / "wrong", checked):
        assert command(monkeypatch, "diff", report, changed(report, tmp_path / "later.json", later)) == 0
        assert capsys.readouterr().out == "nothing has changed, times aside\n"


def stage(data: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(s for s in data["stages"] if s["name"] == name)
    return found


def kernel_is_tested(data: dict[str, Any]) -> None:
    of = stage(data, "legalize")["data"]
    name, how = of["how"].popitem()
    of["not_proved"] = {name: "too large"}
    assert how


def line_fails(data: dict[str, Any]) -> None:
    stage(data, "pool").update(holds=False, detail="two buffers share a byte")


def line_is_tested(data: dict[str, Any]) -> None:
    stage(data, "anf").update(how="tested")


def new_line_fails(data: dict[str, Any]) -> None:
    data["stages"].append({**stage(data, "pool"), "name": "c", "holds": False})


def backend_is_undecided(data: dict[str, Any]) -> None:
    stage(data, "numpy").update(holds=None, outcome="undecided")


def buffer_moves(data: dict[str, Any]) -> None:
    next(b for b in data["buffers"] if b["offset"] is not None)["offset"] += 64


def line_is_gone(data: dict[str, Any]) -> None:
    data["stages"].remove(stage(data, "numpy"))


@pytest.mark.parametrize(
    ("change", "code", "part", "weight", "back"),
    [
        (kernel_is_tested, 5, "kernel", "worse", "better"),
        (line_fails, 1, "line", "worse", "better"),
        (line_is_tested, 5, "line", "worse", "better"),
        (new_line_fails, 1, "line", "worse", "other"),
        (backend_is_undecided, 5, "line", "worse", "better"),
        (buffer_moves, 0, "buffer", "other", "other"),
        (line_is_gone, 0, "line", "other", "other"),
        (lambda data: data["steps"].reverse(), 0, "step", "other", "other"),
        (lambda data: data["steps"].pop(), 0, "step", "other", "other"),
        (lambda data: data.update(seed=7), 0, "run", "other", "other"),
    ],
)  # fmt: skip
def test_a_planted_change_is_told(
    checked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    change: Change, code: int, part: str, weight: str, back: str,
) -> None:  # fmt: skip
    now = changed(checked, tmp_path / "now.json", change)
    assert command(monkeypatch, "diff", checked, now) == code
    assert part in capsys.readouterr().out
    assert {(p, w) for p, *_, w in rows(checked, now)} == {(part, weight)}
    assert {(p, w) for p, *_, w in rows(now, checked)} == {(part, back)}
    assert compare_reports(read_report(now), read_report(checked)).exit == 0


def first(data: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = data["backends"][0]
    return found


def set_is_gone(data: dict[str, Any]) -> None:
    first(data)["samples"] = [{**s, "sample": s["sample"].replace("random", "ties")} for s in first(data)["samples"]]


def set_is_undecided(data: dict[str, Any]) -> None:
    first(data)["samples"][0].update(outcome="undecided", tensors=[], outputs=[])


def backend_comes_twice(data: dict[str, Any]) -> None:
    data["backends"].insert(0, {**first(data), "outcome": "wrong", "samples": []})


def error_is_nan(data: dict[str, Any]) -> None:
    first(data)["samples"][0]["outputs"][0]["error"] = "nan"


@pytest.mark.parametrize(
    ("change", "code", "told"),
    [
        (set_is_gone, 5, ("verdict", "numpy on random", "right", "", "worse")),
        (set_is_undecided, 5, ("verdict", "numpy on random", "right", "undecided", "worse")),
        (backend_comes_twice, 1, ("verdict", "numpy-2", "", "right", "other")),
        (error_is_nan, 0, ("tensor", "a of numpy on random", "0.516 ulp", "nan ulp", "other")),
        (lambda data: data["samples"].pop(), 0, ("run", "sets of inputs", "random, random 2", "random", "other")),
    ],
    ids=["a set is gone", "a set is undecided", "a backend comes twice", "an error is NaN", "fewer sets"],
)
def test_what_is_known_less_well_of_a_backend_is_told(
    judged: Path, tmp_path: Path, change: Change, code: int, told: tuple[str, ...]
) -> None:
    """The verdict on the backend is the same, but that on a set of inputs is not, or there is no such set."""
    now = changed(judged / "right", tmp_path / "now.json", change)
    assert told in rows(judged / "right", now)
    assert compare_reports(read_report(judged / "right"), read_report(now)).exit == code


def test_another_operator_that_is_wrong_is_told(judged: Path, tmp_path: Path) -> None:
    then = changed(judged / "wrong", tmp_path / "then.json", lambda d: first(d)["samples"][0].update(culprit="Mul, a"))
    now = changed(judged / "wrong", tmp_path / "now.json", lambda d: first(d)["samples"][0].update(culprit="Neg, b"))
    assert rows(then, now) == [("verdict", "numpy on random", "wrong: Mul, a", "wrong: Neg, b", "other")]


@pytest.mark.parametrize(
    "change",
    [
        lambda d: first(d)["samples"][0]["outputs"][0].update(error=10**400),
        lambda d: first(d)["samples"][0].update(outcome="banana"),
        lambda d: first(d)["samples"][0].update(outcome=["right"]),
    ],
    ids=["a number that no float is", "no verdict", "a list"],
)
def test_a_damaged_report_is_no_fault_of_ours(
    judged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], change: Change
) -> None:
    odd = changed(judged / "wrong", tmp_path / "odd.json", change)
    assert command(monkeypatch, "diff", judged / "right", odd) == 2
    assert "[diff.C1]" in capsys.readouterr().err


def test_a_place_beyond_all_numbers_is_no_fault_of_ours(checked: Path, tmp_path: Path) -> None:
    odd = changed(checked, tmp_path / "odd.json", lambda data: data["buffers"][0].update(offset=float("inf")))
    with pytest.raises(Invalid, match=r"diff\.C1"):
        read_report(odd)


def test_what_json_wrote_is_compared_with_a_report(
    checked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(two_outputs(), tmp_path / "m.onnx")
    assert command(monkeypatch, "check", tmp_path / "m.onnx", "--stop-after", "pool", "--json") == 0
    (tmp_path / "m.json").write_text(capsys.readouterr().out)
    parts = [row[:2] for row in rows(checked, tmp_path / "m.json")]
    assert parts == [("run", "model"), ("line", "numpy")]  # a plan is in one of them alone, and not told of


def test_plans_differ_by_pool_and_buffer(tmp_path: Path) -> None:
    write_report(tmp_path / "a", report_of(rich()))
    slot = rich().slots["b"]
    other = replace(moved(rich(), b=replace(slot, offset=16)), sizes={"workspace": 128, "fast": 128})
    write_report(tmp_path / "b", report_of(other))
    assert rows(tmp_path / "a", tmp_path / "b") == [
        ("pool", "fast", "64 bytes, at least 56 bytes", "128 bytes, at least 56 bytes", "other"),
        ("buffer", "b", "40 bytes in fast at 0", "40 bytes in fast at 16", "other"),
    ]


def test_the_page(judged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("diff", judged / "right", judged / "wrong", "--report", tmp_path / "page")
    for _ in range(2):  # a page of ours is replaced
        assert command(monkeypatch, *words) == 1
    got = read((tmp_path / "page" / "index.html").read_text("utf-8"))
    assert "worse" in got.section("verdict") and "b of numpy on random" in got.section("tensor")
    assert not complaints({"format": "assay-diff-1", **json.loads((tmp_path / "page" / "report.json").read_text())})
    assert not complaints(json.loads((judged / "wrong" / "report.json").read_text()))
    (tmp_path / "page" / "index.html").write_text("mine")
    assert command(monkeypatch, *words) == 2
    assert (tmp_path / "page" / "index.html").read_text() == "mine"


def test_names_in_a_report_are_no_code(tmp_path: Path) -> None:
    for name, program in (("a", rich()), ("b", hostile())):
        write_report(tmp_path / name, report_of(program))
    found = compare_reports(read_report(tmp_path / "a"), read_report(tmp_path / "b"))
    got = read(changes_page(HOSTILE[0], HOSTILE[1], found))
    assert got.tags["script"] == 1 and got.tags["img"] == 0 and HOSTILE[0] in got.text
    assert not [a for a in got.attrs if a[1] in ("src", "onerror")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "[diff.C1]"), ("[]", "[diff.C1]"), ("{}", "[diff.C1]"), ('{"backends": 3, "sizes": {}}', "[diff.C1]"),
        ('{"model": "m", "seed": 0, "lines": [{"stage": "c", "holds": 7, "how": "x", "did": "", "detail": ""}]}',
         "[diff.C1]"),
        ('{"model": "m", "seed": 0, "lines": [], "error": "it ended"}', "an error ended that run: it ended"),
        ('{"model": "m", "seed": 0, "lines": []}', "[diff.C2]"),
    ],
)  # fmt: skip
def test_what_is_no_report_of_the_same_command(
    judged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str,
    said: str,
) -> None:  # fmt: skip
    (tmp_path / "odd.json").write_text(text)
    assert command(monkeypatch, "diff", judged / "right", tmp_path / "odd.json") == 2
    out, err = capsys.readouterr()
    assert out == "" and said in err and len(err.splitlines()) == 1
    assert command(monkeypatch, "diff", tmp_path / "none", tmp_path / "odd.json") == 2
    assert "no such file [diff.C1]" in capsys.readouterr().err
