"""What `assay conform` writes: JUnit's XML, the badge; and its exit code."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from assay.verify.app.junit import junit
from assay.verify.conform.cases import CaseResult
from assay.verify.conform.junit_cases import junit_cases
from assay.verify.conform.scoreboard import Scoreboard, badge
from tests.verify.conform import planted
from tests.verify.conform.test_conform import Here, answer, few as few


def test_junit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, backend, kind in (
        ("wrong", planted.gives_nan, "failure"),
        ("refused", planted.refuses, "skipped"),
    ):
        answer(capsys, Here(backend), junit=tmp_path / "j.xml")
        root = ElementTree.parse(tmp_path / "j.xml").getroot()
        assert root.tag == "testsuites"
        (suite,) = root
        assert suite.get("name") == "assay.reference"
        counts = {w: suite.get(w) for w in ("tests", "failures", "errors", "skipped")}
        key = {"failure": "failures", "skipped": "skipped"}[kind]
        assert counts == {"tests": "2", "failures": "0", "errors": "0", "skipped": "0"} | {key: "1"}
        assert [{t.tag, *(c.tag for c in t)} for t in suite] == [{"testcase"}, {"testcase", kind}]
        told = suite[1][0]
        assert (suite[1].get("classname"), suite[1].get("name")) == ("onnx.node", "node/test_relu")
        assert (told.get("message") or "").startswith(f"{name}: ")
        assert all(float(t.get("time") or "x") >= 0 for t in suite)


def test_junit_has_no_character_that_xml_has_not() -> None:
    odd = CaseResult("node/a\x00b\ud800", "onnx", "Relu", "x", "wrong", "nul \x00, bell \x07, <&>")
    text = junit("assay conform", junit_cases([Scoreboard("x", "", [odd])], {"p/q": ["says \x01"]}))
    root = ElementTree.fromstring(text.encode())
    assert [s.get("failures") for s in root] == ["1", "1"]
    assert "nul \\x00, bell \\x07, <&>" in (root[1][0][0].text or "")


def results(**counts: int) -> Scoreboard:
    made = [
        CaseResult(f"{v}{i}", "onnx", "Relu", "x", v.replace("_", " ")) for v, n in counts.items() for i in range(n)
    ]
    return Scoreboard("x", "1.2", made)


@pytest.mark.parametrize(
    ("counts", "message", "color"),
    [
        ({"right": 3, "open": 1}, "4 of 4 right", "brightgreen"),
        ({"right": 9, "refused": 1, "not_judged": 5}, "9 of 10 right", "green"),
        ({"right": 1, "refused": 3}, "1 of 4 right", "yellow"),
        ({"right": 1999, "wrong": 1}, "1,999 of 2,000 right, 1 wrong", "red"),
        ({"right": 1, "died": 1, "late": 1}, "1 of 3 right, 2 wrong", "red"),
        ({"not_judged": 2}, "0 of 0 right", "lightgrey"),
    ],
)
def test_badge(counts: dict[str, int], message: str, color: str) -> None:
    made = badge(results(**counts), ("onnx",))
    assert made == {"schemaVersion": 1, "label": "onnx on x 1.2", "message": message, "color": color}


def test_the_badge_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer(capsys, Here(), badge=tmp_path / "b.json")
    made = json.loads((tmp_path / "b.json").read_text())
    assert (made["schemaVersion"], made["message"], made["color"]) == (1, "2 of 2 right", "brightgreen")


@pytest.mark.parametrize(
    ("counts", "code"),
    [
        ({"right": 1, "open": 1}, 0),
        ({"right": 1, "undecided": 1}, 5),
        ({"right": 1, "not_judged": 1}, 5),
        ({"refused": 1, "wrong": 1}, 1),
        ({"refused": 1, "died": 1}, 1),
        ({"right": 1, "late": 1}, 1),
        ({"unpredictable": 1}, 5),
    ],
)
def test_exit_codes(counts: dict[str, int], code: int) -> None:
    assert results(**counts).exit == code
