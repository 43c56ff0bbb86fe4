"""Questions of meaning, as a stranger asks them: one search finds the answer, with its rule and its program
(specs/semantics.md, "Questions")."""

from __future__ import annotations

import re

import pytest

from assay.semantics.errors import Invalid
from assay.semantics.ops import OPERATORS
from assay.verify.conform.reader import read_program
from assay.verify.explain.chapters import page_text, passages
from assay.verify.explain.topics import explain
from tests.docs.operator_pages import own_traps
from tests.docs.rules import PROGRAMS, rules
from tests.places import ROOT

PLACE = "specs/semantics.md#questions"
ASKED = """
softmax inf | dividing an integer by zero | out of range gather | reduce max of empty tensor | max of nothing
cast overflow | int32 to int8 overflow | float16 overflow | float8 | rounding ties | copies between devices | empty sum
mean of an empty tensor | argmax NaN | relu negative zero | overflow of integers | shift too large | pow(0,0)
0*inf matmul | align_corners | resize to size 1 with align_corners | duplicate indices in scatter
negative step of a slice | broadcast with size 0 | what happens in an untaken branch | a loop of a million iterations
what may a function call share | do inputs alias, aliasing inputs
log(0) | log of negative numbers | sqrt(-1) | sqrt of negative | square root of negative
int min divided by minus one | INT_MIN / -1 | negative modulo | mod of negative numbers | remainder sign
"""
"""Other words for the questions of the table."""


def questions() -> list[list[str]]:
    """The cells of the table, a row each."""
    table = page_text("semantics.md").partition("\n## Questions\n")[2].partition("\n## ")[0]
    rows = [r for r in table.splitlines() if r.startswith("| ")]
    return [[c.strip() for c in r.strip("|").split("|")] for r in rows[1:]]


def missing(rows: list[list[str]]) -> list[str]:
    """What rows cite and nobody has: rules, programs and their cases, operators."""
    known = set(rules(ROOT))
    others = {p.name for p in passages() if p.kind in ("rule", "section")} | set(OPERATORS)
    faults = []
    for _, _, cited, shown, _ in rows:
        for rule in cited.split("; "):
            own = rule.removeprefix("lower ")
            if not (own in known if own.startswith("M") and own[1].isdigit() else own in others or "." in own):
                faults.append(rule)
        for file, case in re.findall(r"`([\w/]+): (\w+)`", shown):
            path = ROOT / PROGRAMS / f"{file}.py"
            program = read_program(path) if path.is_file() else None
            if program is None or case not in {**program.cases, **program.claims}:
                faults.append(f"{file}: {case}")
        if "`" not in shown and shown != "of ONNX models alone":
            faults.append(f"no program: {shown}")
    return faults


def test_the_table_has_rules_and_programs_that_there_are() -> None:
    rows = questions()
    assert len(rows) >= 31
    assert missing(rows) == []


def test_what_is_cited_and_not_there_is_found() -> None:
    planted = ["q", "a", "M5.99; lower O99", "`tensors/softmax: nothing`, `tensors/no_file: x`", "-"]
    assert missing([planted]) == ["M5.99", "lower O99", "tensors/softmax: nothing", "tensors/no_file: x"]
    assert missing([["q", "a", "M5.2", "-", "-"]]) == ["no program: -"]


def test_every_question_is_found_first_as_it_stands() -> None:
    named = {(p.name, p.text) for p in passages() if p.where == PLACE and p.kind == "row"}
    for cells in questions():
        first = cells[0].split(", ")[0]
        found = explain(first)
        assert any(e.where == PLACE and cells[1] in e.text for e in found[:2]), first
        for name in cells[0].split(", "):
            assert any(n == name and cells[1] in text for n, text in named), name


@pytest.mark.parametrize("asked", [q.strip() for line in ASKED.strip().splitlines() for q in line.split("|")])
def test_other_words_find_it_too(asked: str) -> None:
    found = explain(asked)
    assert PLACE in [e.where for e in found[:2]], [(e.name, e.where) for e in found]
    assert "- rule: " in next(e.text for e in found if e.where == PLACE)


def test_every_trap_of_an_operator_is_explained_by_its_label() -> None:
    """`max.T1` and others are raised by one line for several operators, and stand as `*.T1` in the table of labels."""
    known = [label for op in OPERATORS.values() for _, label in own_traps(op)]
    assert {"max.T1", "min.T1", "nn.conv2d.T1", "gather_nd.T1", "take.T1", "topk.T1", "nn.pad.T1"} <= set(known)
    for label in known:
        first = explain(label)[0]
        assert (first.kind, first.name) == ("label", label)
        assert "a trap of a run" in first.text
    for label in ("add.T1", "astype.T1", "max.T9"):
        with pytest.raises(Invalid, match="nothing is called"):
            explain(label)
