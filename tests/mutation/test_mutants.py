"""Mutants and their runs (specs/verify.md, "Mutants")."""

from __future__ import annotations

import ast
import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutation.groups import GROUPS, ROOT
from tests.mutation.mutants import mutants

TEXT = '''
"""Not this: 1 + 1."""

def f(x: int, y: list[int]) -> int:
    """Nor this: 1 < 2."""
    if x < 1 and y:
        raise ValueError(f"{x + 1}: {1 + 2}")
    total = 0
    for i in sorted(y):
        total += i
        if not i:
            continue
        g(total)
    return max(x, y[0]) // 2 if total else -x
'''


def test_each_mutant_differs_from_the_text_in_one_place() -> None:
    found = mutants(TEXT)
    plain = ast.unparse(ast.parse(TEXT)).splitlines()
    for m in found:
        compile(m.source, "mutant", "exec")
        changed = [(a, b) for a, b in zip(plain, m.source.splitlines(), strict=True) if a != b]
        assert len(changed) == 1, m
    assert len({m.source for m in found}) == len(found)


def test_every_kind_of_fault_is_made_and_words_are_left_alone() -> None:
    said = {(m.kind, m.said) for m in mutants(TEXT)}
    assert said >= {
        ("bound", "x < 1 -> x <= 1"),
        ("condition", "x < 1 and y -> x < 1 or y"),
        ("condition", "not i -> i"),
        ("index", "y[0] -> y[1]"),
        ("index", "total = 0 -> total = 1"),
        ("order", "sorted(y) -> list(y)"),
        ("interval", "max(x, y[0]) -> min(x, y[0])"),
        ("operator", "max(x, y[0]) // 2 -> max(x, y[0]) * 2"),
        ("operator", "-x -> x"),
        ("step", "continue -> pass"),
        ("step", "g(total) -> pass"),
    }
    assert all(m.line not in (2, 5, 7) for m in mutants(TEXT))


@pytest.mark.campaign
def test_a_run_notices_what_tests_say_and_tells_what_they_do_not(tmp_path: Path) -> None:
    """Of disjoint sets, the classes are tested; by which of two the larger class is found, nobody can see."""
    results = tmp_path / "results.jsonl"
    command = [sys.executable, "-m", "tests.mutation", "sets", "--count", "100", "--results", str(results)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    outcomes = {o["said"]: o["end"] for o in map(json.loads, results.read_text().splitlines())}
    assert outcomes["a == b -> a != b"] != "survived" and outcomes["return False -> return True"] != "survived"
    assert outcomes["size.get(a, 1) > size.get(b, 1) -> size.get(a, 1) >= size.get(b, 1)"] == "survived"
    assert "| sets |" in done.stdout
    before = results.read_text()
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    assert results.read_text() == before  # it goes on from where it was: nothing is left


def test_groups_name_files_and_tests_that_there_are() -> None:
    for group in GROUPS:
        assert group.files and group.test_files, group.name


def test_what_is_explained_is_still_a_mutant() -> None:
    with (ROOT / "tests" / "mutation" / "explained.csv").open(newline="") as rows:
        for row in csv.DictReader(rows):
            assert row["why"]
            assert row["mutant"] in {m.said for m in mutants((ROOT / row["file"]).read_text())}, row
