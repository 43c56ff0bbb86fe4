"""`assay explain` (specs/verify.md, "explain"): what it prints on 80 columns, and what is unknown."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from assay.semantics.errors import EnvironmentFailure
from assay.semantics.ops import OPERATORS
from assay.verify.app.cli import main
from assay.verify.explain import chapters
from assay.verify.explain.topics import explain
from tests.places import ROOT, SPECS
from tests.verify.app.test_cli import assay


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("M7.2", ["rule M7.2, specs/semantics.md#m7.2", "must be owned by the slot", "memory/overwritten: A.trap("]),
        ("vm.B14", ["rule B14, specs/vm.md#b14", "Each byte of a storage"]),
        ("backend", ["word backend, specs/glossary.md", "Another program that computes a model"]),
        ("rewriting", ["word rewriting, specs/glossary.md", "of the same meaning", "optional pass"]),
        ("property test", ["guide Property-test a pass, specs/guides/properties.md", "assay.strategies"]),
        ("add a backend", ["guide Add a backend, specs/guides/backend.md"]),
        ("quantization", ["rule O14, specs/lower.md"]),  # in texts alone
        ("remainders", ["word sign of a remainder, specs/semantics.md#questions", "the divisor's sign"]),
        ("M7", ["section M7 Memory, specs/semantics.md#m7-memory"]),
        ("pool.C2", ["label pool.C2", "refused before anything runs", "lower/pool/__init__.py"]),
        ("nn.softmax.C1", ["nn.softmax requires: axis is an integer"]),
        (
            "pool",
            [
                "pass pool",
                "no two live buffers share a byte",
                "word pool, specs/glossary.md",
                "section pool, specs/lower",
            ],
        ),
        ("undecided", ["word undecided, specs/verify.md#evidence", "nothing known is broken"]),
        ("5", ["exit code 5", "not enough is known to say right", "undecided, unpredictable, refused"]),
        ("division by zero", ["integer quotient or remainder by 0"]),
        ("softmax", ["operator nn.softmax, specs/operators/nn.softmax.md", "x: inf first", "softmax.infinite"]),
        ("Gather", ["operator take", "trap (out of bounds)"]),
        ("stablehlo.add", ["operator add"]),
        ("torch.linalg.det", ["operator det"]),
        ("order of evaluation", ["A-normal form"]),
        ("left open", ["specs/glossary.md", "section Left open, specs/semantics.md#left-open"]),
    ],
)
def test_what_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], word: str, said: list[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["assay", "explain", *word.split()])
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as done:
        main()
    assert not done.value.code
    shown = capsys.readouterr().out
    flat = " ".join(shown.split())
    assert [s for s in said if s not in flat] == []
    assert max(map(len, shown.splitlines())) <= 80


def test_every_operator_is_explained_by_its_page() -> None:
    for name in OPERATORS:
        first = explain(name)[0]
        assert (first.kind, first.where) == ("operator", f"specs/operators/{name}.md")
        assert first.text.startswith(f"# {name}\n")


def test_every_rule_of_the_chapter_is_explained_with_programs() -> None:
    rules = [p.name for p in chapters.passages() if p.kind == "rule" and p.page == "semantics.md" and p.name[0] == "M"]
    assert len(rules) >= 91
    for number in rules:
        (one,) = [e for e in explain(number) if e.where == f"specs/semantics.md#{number.lower()}"]
        assert "Programs (" in one.text, number


@pytest.mark.parametrize(
    ("word", "near"),
    [("sofmax", "nn.softmax"), ("pool.C22", "pool.C2"), ("frobnicate", ""), ("empty zebra", ""), ("M7.9", "M7.")],
)
def test_what_is_unknown_gets_the_nearest_names(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], word: str, near: str
) -> None:
    assert assay(monkeypatch, "explain", word) == 2
    said = capsys.readouterr().err
    assert "[explain.C1]" in said and f"nothing is called {word!r}" in said and near in said


def test_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert assay(monkeypatch, "explain", "M5.2", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["asked"] == "M5.2"
    (one,) = found["found"]
    assert (one["kind"], one["name"], one["where"]) == ("rule", "M5.2", "specs/semantics.md#m5.2")
    assert one["text"].startswith("- M5.2 Integers wrap") and "numbers/saturates: `A.wrong(" in one["text"]
    assert assay(monkeypatch, "explain", "frobnicate", "--json") == 2
    assert json.loads(capsys.readouterr().out)["exit"] == 2


def test_an_installation_without_chapters(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    place = tmp_path / "assay" / "verify" / "explain" / "chapters.py"
    monkeypatch.setattr(chapters, "__file__", str(place))
    with pytest.raises(EnvironmentFailure, match="has no chapters") as wrong:
        chapters.chapters_folder()
    assert wrong.value.label == "explain.C2"


def test_the_wheel_is_told_to_hold_what_is_read() -> None:
    """pyproject.toml maps specs/ into the package: chapters, pages of operators and the schema of answers alone."""
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    assert tool["package-dir"]["assay.specs"] == "specs" and "assay.specs" in tool["packages"]
    held = {p.relative_to(SPECS).as_posix() for g in tool["package-data"]["assay.specs"] for p in SPECS.glob(g)}
    read = {"labels.md", *(f"{c}.md" for c in chapters.CHAPTERS), *(f"operators/{n}.md" for n in OPERATORS)}
    read |= {p.relative_to(SPECS).as_posix() for p in (SPECS / chapters.GUIDES).iterdir()}
    assert read <= held
    assert [n for n in held if not n.endswith(".md")] == ["answers.schema.json"]


def _builds_wheels() -> bool:
    """Whether setuptools is new enough for pyproject.toml."""
    try:
        return int(version("setuptools").partition(".")[0]) >= 77
    except PackageNotFoundError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not _builds_wheels(), reason="setuptools is not installed, or older than 77")
def test_a_wheel_has_the_chapters_once(tmp_path: Path) -> None:
    """`assay explain` runs in a wheel, which has each chapter once."""
    source = tmp_path / "source"
    for name in ("semantics", "interp", "lower", "verify", "specs", ".src"):
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("README.md", "LICENSE", "pyproject.toml"):
        shutil.copy(ROOT / name, source / name)
    build = "import setuptools.build_meta as b, sys; print(b.build_wheel(sys.argv[1]))"
    words = [sys.executable, "-c", build, str(tmp_path)]
    done = subprocess.run(words, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        found = file.namelist()
        file.extractall(tmp_path / "there")
    assert [n for n in found if n.endswith("/semantics.md")] == ["assay/specs/semantics.md"]
    assert "assay/specs/operators/nn.softmax.md" in found
    assert not [n for n in found if n.startswith("assay/specs/") and n.endswith(".py")]
    run = "import sys; sys.path.insert(0, sys.argv.pop(1)); from assay.verify.app.cli import main; main()"
    words = [sys.executable, "-I", "-c", run, str(tmp_path / "there"), "explain", "M7.2"]
    shown = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert shown.returncode == 0, shown.stderr[-2000:]
    assert "rule M7.2, specs/semantics.md#m7.2" in shown.stdout


QUESTIONS = {
    "softmax infinity": "specs/operators/nn.softmax.md",
    "division by zero": "specs/semantics.md#traps",
    "gather out of range": "specs/operators/take.md",
    "empty maximum": "specs/operators/max.md",
    "cast overflow": "specs/semantics.md#traps",
    "rounding ties": "specs/semantics.md#m5-scalars",
    "order of evaluation": "specs/semantics.md#m3-order",
    "device copies": "specs/semantics.md#m8-devices",
    "argmax of NaN": "specs/lower.md#numbers",
    "sum order float": "specs/operators/sum.md",
    "integer overflow wraps": "specs/semantics.md#m5-scalars",
    "sign of zero": "specs/semantics.md#m5.3",
    "topk ties": "specs/operators/topk.md",
    "shift by more than the width": "specs/semantics.md#m5-scalars",
    "uninitialized memory read": "specs/semantics.md#traps",
    "reshape zero size": "specs/operators/reshape.md",
    "subnormal flush": "specs/semantics.md#m9.2",
    "matmul accumulate precision": "specs/operators/matmul.md",
    "clip min greater than max": "specs/operators/clip.md",
    "two buffers share memory": "specs/semantics.md#m7-memory",
}
"""What a contributor asks, and a place that answers, which is among the first."""


@pytest.mark.parametrize("asked", QUESTIONS)
def test_twenty_questions_are_answered_by_one_search(asked: str) -> None:
    assert QUESTIONS[asked] in [one.where for one in explain(asked)[:5]]
