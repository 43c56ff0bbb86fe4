"""Changes of what writes programs, and what becomes of them (specs/verify.md, "Mutants")."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from assay.verify.c.reading import ReadBack
from tests.mutation import judged
from tests.mutation.mutants import mutants
from tests.mutation.proofs import drawn
from tests.mutation.written import changes_of_writers
from tests.places import ROOT
from tests.verify.c.reading_programs import texts

TEXT = '''
def f(x, y, acc):
    """Not this: a < b."""
    if x:
        raise ValueError("nor this: a < b")
    total = Buffer("total", (), FLOAT64)
    return select(x, total - y, apply("lt", x, y)), """
static T @f(T a)
{
    const T b = 0.0f;
    a = b;
    return (a < b) ? a : b;
}
"""
'''


def test_words_and_special_values_are_changed() -> None:
    found = {(m.kind, m.said) for m in mutants(TEXT, changes_of_writers)}
    assert found >= {
        ("dtype", "FLOAT64 -> FLOAT32"),
        ("arms", "select(x, total - y, apply('lt', x, y)) -> select(x, apply('lt', x, y), total - y)"),
        ("operands", "total - y -> y - total"),
        ("operands", "apply('lt', x, y) -> apply('lt', y, x)"),
        ("operation", "'lt' -> 'le'"),
    }
    made = {m.source for m in mutants(TEXT, changes_of_writers) if m.kind.startswith("C")}
    for new in ("a <= b", "? b : a", "-0.0f", "{\\n    const T b = 0.0f;\\n\\n"):
        assert any(new in source for source in made), new
    assert all(ast.get_docstring(ast.parse(s).body[0]) == "Not this: a < b." for s in made)  # type: ignore[arg-type]


def test_the_order_is_that_of_the_seed_and_takes_each_file_in_turn() -> None:
    first, same, other = ([(f, m.said) for f, m in drawn("kernels", seed)[:9]] for seed in (3, 3, 4))
    assert first == same != other
    assert len({f for f, _ in first}) == 9


@pytest.mark.parametrize(
    ("old", "new", "end"),
    [
        ("(t <= 0.0f) ? 0.0f : t", "(t < 0.0f) ? 0.0f : t", "wrong"),
        ("    float total = 0.0f;\n", "    float total = 1.0f;\n", "same"),
    ],
)
def test_a_proof_that_takes_anything_is_found_out(
    old: str, new: str, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a proof accepts what means something else the end is `wrong`; where it means the same, `same`; where the
    proof is as it is, `refused`."""
    module, source = texts()["net"]
    assert old in source.source
    changed = replace(source, source=source.source.replace(old, new))
    told: list[judged.Said] = []
    assert judged._judge_c("net", lambda: (module, changed), told.append).end == (
        "refused" if end == "wrong" else "same"
    )
    monkeypatch.setattr(judged, "read_back", lambda source, module: ReadBack())
    assert judged._judge_c("net", lambda: (module, changed), told.append).end == end
    assert told[-1].run == judged.ENDLESS


@pytest.mark.campaign
def test_many_changes_are_refused_or_mean_the_same(tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    command = [sys.executable, "-m", "tests.mutation.proofs", "--count", "12", "--seed", "5", "--results", str(results)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    ends = [json.loads(line)["end"] for line in results.read_text().splitlines()]
    assert sum(e in ("refused", "same") for e in ends) >= 12
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "12" in again.stdout and len(results.read_text().splitlines()) == len(ends)
