"""The generated pages: fresh, complete, and wrong inputs to them are found."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from assay.semantics.errors import Invalid
from assay.semantics.left_open.entries import BY_OPERATOR
from assay.semantics.operator import Attrs
from assay.semantics.ops import OPERATORS
from assay.semantics.types import TensorType, Type
from tests.docs import __main__ as command, campaigns, failing, scoreboard, stale, write
from tests.docs.labels import LABEL, Failure, failures, labels_page, unnamed
from tests.docs.operator_pages import operator_page, operator_pages, page_path
from tests.docs.operator_runs import dtypes_of, special_runs
from tests.docs.operator_text import value_text
from tests.docs.operators import operators_page, record_file
from tests.docs.rows import claims, read_rows, rows_page
from tests.places import ROOT


def test_the_generated_pages_are_fresh() -> None:
    assert [str(p.relative_to(ROOT)) for p in stale(ROOT)] == [], "run: make docs"


# --- a small repository of its own --------------------------------------------------------------------------------

ROWS = 'id,sentence,where\nA1,Sharing becomes lets.,lower/anf.py\nA2,Order is fixed.,\nJ1,"Dims, known later.",\n'
TEST = """
import pytest
pytestmark = [pytest.mark.slow, pytest.mark.row("J1")]

@pytest.mark.row("A1", "A2")
def test_one(): ...

class TestMany:
    @pytest.mark.row("A2")
    def test_two(self): ...

@pytest.mark.parametrize("n", [pytest.param(1, marks=pytest.mark.row("A1")), 2])
def test_three(n): ...

@pytest.mark.parametrize("row", [("R1",)])
def test_four(row): ...

@pytest.mark.xfail(reason="not yet")
@pytest.mark.row("A3")
def test_five(): ...

SHOWN: tuple[Shown, ...] = (Shown("A1 A2", "check FILE.py", "text"), Shown("A2", "run FILE.py", text))
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    for folder in ("specs", "tests/lower", "lower"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "specs" / "rows.csv").write_text(ROWS)
    (tmp_path / "tests" / "lower" / "test_anf.py").write_text(TEST)
    (tmp_path / "lower" / "anf.py").write_text(
        "def f(n):\n"
        '    raise Invalid(f"{n} of {n.x + 1} names", label="anf.C1")\n'
        "def g():\n"
        '    raise Trap("lost | found", "no such thing", label="anf.T2")\n'
        "def h(name, said):\n"
        '    raise Trap("lost | found", said, label=f"{name}.T3")\n'
    )
    return tmp_path


def test_markers_are_collected_without_running(small: Path) -> None:
    file = "tests/lower/test_anf.py"
    assert claims(small / "tests") == {
        "J1": [file],
        "A1": [f"{file}::test_one", f"{file}::test_three", f"{file}::SHOWN"],
        "A2": [f"{file}::test_one", f"{file}::TestMany::test_two", f"{file}::SHOWN"],
    }


def test_a_row_is_shown_or_open(small: Path) -> None:
    page = rows_page(small)
    assert "3 of 3 rows are shown" in page
    assert "| A1 | Sharing becomes lets. | lower/anf.py | `lower/test_anf.py::test_one`<br>" in page
    (small / "tests" / "lower" / "test_anf.py").write_text("def test_one(): ...\n")
    page = rows_page(small)
    assert "0 of 3 rows are shown" in page
    assert "| J1 | Dims, known later. |   | open |" in page


@pytest.mark.parametrize(
    ("file", "text", "label"),
    [
        ("specs/rows.csv", ROWS + "A1,Again.,\n", "rows.C1"),
        ("specs/rows.csv", ROWS + "Q1,No such group.,\n", "rows.C2"),
        ("specs/rows.csv", ROWS + "A,No number.,\n", "rows.C2"),
        ("tests/test_x.py", "import pytest\n@pytest.mark.row(*IDS)\ndef test_x(): ...\n", "rows.C3"),
        ("tests/test_x.py", 'import pytest\n@pytest.mark.row("A9")\ndef test_x(): ...\n', "rows.C4"),
        ("specs/rows.csv", ROWS + "A3,Elsewhere.,lower/gone.py\n", "rows.C5"),
    ],
)
def test_a_wrong_row_is_invalid(small: Path, file: str, text: str, label: str) -> None:
    (small / file).write_text(text)
    with pytest.raises(Invalid) as wrong:
        rows_page(small)
    assert wrong.value.label == label


def test_labels_are_found_with_their_messages(small: Path) -> None:
    found = {f.label: f for f in failures(small)}
    assert found["anf.C1"].message == "{n} of {...} names"
    assert (found["anf.T2"].kind, found["anf.T2"].message) == ("lost | found", "no such thing")
    assert (found["*.T3"].kind, found["*.T3"].message) == ("lost | found", "")
    page = labels_page(small)
    assert "| anf.C1 | {n} of {...} names | lower/anf.py | open |" in page
    (small / "tests" / "test_y.py").write_text('LABEL = "anf.C1"\n')
    assert "| anf.C1 | {n} of {...} names | lower/anf.py | yes |" in labels_page(small)
    assert "| lost \\| found | lower/anf.py |" in page


def test_a_stale_page_is_found_and_written(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(stale(small)) == 4
    assert command.main([str(small), "--check"]) == 1
    assert len(write(small)) == 4
    assert command.main([str(small), "--check"]) == 0
    page = small / "specs" / "rows.md"
    page.write_text(page.read_text() + "edited by hand\n")
    assert stale(small) == [page]
    capsys.readouterr()
    assert command.main([str(small)]) == 0
    assert capsys.readouterr().out == "written: specs/rows.md\n"
    assert stale(small) == []
    (small / "tests" / "test_y.py").write_text('import pytest\n@pytest.mark.row("A9")\ndef test_y(): ...\n')
    assert command.main([str(small)]) == 2
    assert "claims row A9" in capsys.readouterr().err


def test_a_folder_that_is_no_repository_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        command.main([str(tmp_path)])
    assert left.value.code == 2
    assert "has no folder specs/" in capsys.readouterr().err


# --- the real one -------------------------------------------------------------------------------------------------


@cache
def real_failures() -> list[Failure]:
    return failures(ROOT)


def test_every_operator_has_an_entry() -> None:
    page = operators_page()
    for op in OPERATORS.values():
        assert page.count(f"\n### {op.name}\n") == 1
        assert (ROOT / "semantics" / "ops" / record_file(op)).is_file()
        assert op.view or (ROOT / "lower" / "legalize" / "kernels" / record_file(op)).is_file(), (
            f"no kernel file for {op.name}"
        )
        for label in op.constraints:
            assert f"| {op.name}.{label} |" in page
            assert LABEL.fullmatch(f"{op.name}.{label}"), label


def test_every_operator_has_a_page_with_all_that_a_standard_needs() -> None:
    made = operator_pages()
    assert {p.stem for p in made} == set(OPERATORS)
    for op in OPERATORS.values():
        text = made[page_path(op.name)]
        heads = re.findall(r"^## (.+)$", text, re.MULTILINE)
        assert {"Restrictions", "Meaning", "Errors", "Accuracy", "In other languages"} <= set(heads), op.name
        assert "Shown by" in heads or op.view, op.name
        assert ("Left open" in heads) == (op.name in BY_OPERATOR)
        assert "| **" not in text and table_faults(text) == [], op.name


def table_faults(text: str) -> list[str]:
    """Rows of tables that have other cells than the line under their head."""
    faults: list[str] = []
    for block in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        widths = {len(re.split(r"(?<!\\)\|", line)) for line in block.splitlines()}
        faults += [block] if len(widths) > 1 else []
    return faults


def test_a_page_says_what_runs_give() -> None:
    runs = {r.given: r for r in special_runs(OPERATORS["floor_divide"])}
    assert runs["int8: -1, 0"].gives == "trap (division by zero)"
    assert "division" in runs["int8: least, -1"].left_open
    runs = {r.given: r for r in special_runs(OPERATORS["take"])}
    assert runs["indices: 5, one too far"].gives == "trap (out of bounds)"
    assert runs["indices: -1"].gives.startswith("1, ")
    assert special_runs(OPERATORS["max"])[-1].gives.startswith("refused: ")


def test_an_operator_with_another_meaning_has_another_page() -> None:
    """The page is run, not written: a planted value, type rule and constraint change it."""
    op = OPERATORS["maximum"]
    page = operator_page(op)
    assert "| float32: 1, NaN | nan |" in page and "| a, b | every int, every uint, every float |" in page
    other = replace(op, value=lambda attrs, a, b: np.fmax(a, b))
    assert {r.given: r.gives for r in special_runs(other)}["float32: 1, NaN"] == "1"
    assert value_text(other).startswith("lambda attrs, a, b: np.fmax(a, b)")

    def floats_only(attrs: Attrs, types: tuple[TensorType, ...]) -> Type:
        if not types[0].dtype.is_float:
            raise Invalid("floats are wanted", label="dtype.C1")
        return op.type_rule(attrs, types)

    assert dtypes_of(replace(op, type_rule=floats_only)) == [("a, b", "every float")]


def test_a_page_of_no_operator_is_found_and_removed(small: Path) -> None:
    folder = small / "specs" / "operators"
    folder.mkdir()
    (folder / "nn.gone.md").write_text("# nn.gone\n")
    write(small)
    assert {p.stem for p in folder.glob("*.md")} == set(OPERATORS)
    assert stale(small) == []
    (folder / "add.md").write_text("by hand\n")
    assert stale(small) == [folder / "add.md"]


def test_every_row_of_the_seed_systems_is_listed() -> None:
    rows = read_rows(ROOT / "specs" / "rows.csv")
    counts = {"A": 26, "U": 24, "R": 39, "V": 21, "C": 15, "J": 22}
    assert list(rows) == [f"{letter}{i}" for letter, n in counts.items() for i in range(1, n + 1)]


def test_every_kind_of_trap_stands_in_the_chapter() -> None:
    text = (ROOT / "specs" / "semantics.md").read_text(encoding="utf-8")
    section = text[text.index("## Traps") : text.index("## M2")]
    listed = set(re.findall(r"^\| ([a-z ]+) \|", section, re.MULTILINE)) - {"kind"}
    assert {f.kind for f in real_failures() if f.kind} == listed


def test_every_label_is_named_by_a_test() -> None:
    assert unnamed(ROOT, real_failures()) == []


def test_a_label_that_no_test_names_is_found(small: Path) -> None:
    assert unnamed(small, failures(small)) == ["*.T3", "anf.C1", "anf.T2"]
    (small / "tests" / "test_y.py").write_text('LABELS = "anf.C1", r"take\\.T3"\n')
    assert unnamed(small, failures(small)) == ["anf.T2"]


# --- the scoreboard ---------------------------------------------------------------------------------------------------


def kept(folder: Path, version: str, *results: tuple[str, str, str]) -> Path:
    folder.mkdir()
    head = {"format": "assay-conform-1", "versions": {"onnx": "1.23", "mine": version, "other": "3"}}
    lines = [
        {"case": case, "suite": "onnx", "operator": operator, "backend": "mine", "verdict": verdict, "detail": "inside"}
        for case, operator, verdict in results
    ]
    (folder / "conform.jsonl").write_text("".join(json.dumps(line) + "\n" for line in (head, *lines)))
    return folder


def test_the_scoreboard_counts_what_was_kept(tmp_path: Path) -> None:
    """Of a case that was judged again the last result counts, and results of two versions are never mixed."""
    (tmp_path / "specs").mkdir()
    first = kept(tmp_path / "a", "1.0", ("a", "Add", "right"), ("b", "Add", "wrong"), ("c", "Neg", "wrong"))
    again = kept(tmp_path / "b", "1.0", ("b", "Add", "right"))
    (path,) = scoreboard.write_counts(tmp_path, [first, again])
    assert path.read_text().splitlines()[1:] == [
        "mine,1.0,1.23,onnx,Add,right,2",
        "mine,1.0,1.23,onnx,Neg,wrong,1",
    ]
    page = scoreboard.scoreboard_page(tmp_path)
    assert "| `mine` | 1.0 | 3 | 2 | 0 | 0 | 0 | 1 | 0 | 0 | 0 | 0 | 0 |" in page
    assert failing.miscounted(tmp_path, scoreboard.boards_of(tmp_path)) == ["mine wrong Neg: 1 counted, 0 told of"]
    (tmp_path / "specs" / "findings").mkdir()
    head = "backend,verdict,operator,cases,comes_to\n"
    (tmp_path / failing.OF_CONFORMANCE).write_text(head + "mine,wrong,Neg,c,mine-1.0/01_planted\nmine,wrong,Add,b,no\n")
    assert failing.miscounted(tmp_path, scoreboard.boards_of(tmp_path)) == ["mine wrong Add: 0 counted, 1 told of"]
    assert failing.lost_findings(tmp_path) == ["mine-1.0/01_planted"]
    assert list(failing.not_told(tmp_path, [again])) == ["mine\tb\tAdd\tright\tinside"]
    page = scoreboard.scoreboard_page(tmp_path)
    assert "| `mine` | wrong | Neg | 1 | [01_planted](findings/mine-1.0/01_planted.py) |" in page
    with pytest.raises(ValueError, match=r"mine 2\.0 beside 1\.0"):
        scoreboard.write_counts(tmp_path, [first, kept(tmp_path / "c", "2.0")])


def test_each_case_that_fails_comes_to_a_finding_or_a_reason() -> None:
    assert failing.lost_findings(ROOT) == []
    assert failing.miscounted(ROOT, scoreboard.boards_of(ROOT)) == []


def test_each_failure_of_a_campaign_comes_to_a_finding_or_a_reason(tmp_path: Path) -> None:
    """Planted: a finding that is not there."""
    corpus, folder = tmp_path / "corpus", tmp_path / "specs" / "findings"
    for made in (corpus, folder):
        made.mkdir(parents=True)
    state = {"examples": 7, "seconds": 130, "of": {"numpy": {"kinds": {"right": 5, "wrong": 2}}}}
    (corpus / "campaign-1-a.json").write_text(json.dumps(state))
    (row,) = campaigns.counted_examples([corpus])
    assert (row["minutes"], row["examples"], row["right"], row["wrong"], row["died"]) == ("2", "7", "5", "2", "0")
    (tmp_path / campaigns.COUNTS).write_text(",".join(row) + "\n" + ",".join(row.values()) + "\n")
    (tmp_path / failing.OF_CAMPAIGNS).write_text(
        "backend,verdict,operators,failures,comes_to\n"
        "numpy,wrong,Add,1,numpy-1.0/01_planted\nnumpy,wrong,Neg,2,the standard leaves it open\n"
    )
    assert failing.lost_findings(tmp_path) == ["numpy-1.0/01_planted"]
    lines = list(campaigns.campaign_lines(tmp_path))
    assert "Of 3 kept failures 1 come to findings." in lines
    assert "| `numpy` | wrong | Add | 1 | [01_planted](findings/numpy-1.0/01_planted.py) |" in lines


# --- pages of operators, as who adopts them reads them ------------------------------------------------------------


def test_a_page_says_on_what_its_special_values_were_run() -> None:
    said = {
        op.name: operator_page(op).partition("## Special values\n\n")[2].partition("\n")[0] for op in OPERATORS.values()
    }
    assert said["astype"].startswith("On operands of the first example, or of one with the attributes that are named;")
    assert said["unique"].startswith("On operands of the first example of floats;")
    assert said["maximum"] == "Operands in their order, one element each."
    for op in OPERATORS.values():
        one_each = said[op.name].startswith("Operands in their order")
        assert not one_each or all(": " in r.given and " in all" not in r.gives for r in special_runs(op)), op.name


def test_a_page_names_the_traps_of_its_operator() -> None:
    assert "- A well-typed use can trap: shape [max.T1]." in operator_page(OPERATORS["max"])
    assert "- A well-typed use can trap: shape [nn.conv2d.T1]." in operator_page(OPERATORS["nn.conv2d"])
    assert "| dtype='int8'; x: NaN first | trap (cast) |" in operator_page(OPERATORS["astype"])
    unnamed_traps = [op.name for op in OPERATORS.values() if "can trap.\n" in operator_page(op)]
    assert unnamed_traps == []
