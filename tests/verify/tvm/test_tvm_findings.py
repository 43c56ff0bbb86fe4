"""What was found in apache-tvm: every case under specs/findings/tvm-0.27 is a program, and is run with whatever version
is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.seen import findings, installed, judged, outcome, table
from tests.places import ROOT

PAGE = ROOT / "specs" / "findings" / "tvm-0.27.md"
CASES = findings("tvm-0.27")


def test_the_page_lists_every_case() -> None:
    text = PAGE.read_text("utf-8")
    assert len(CASES) >= 15
    assert [c.name for c in CASES if f"tvm-0.27/{c.name}" not in text] == []


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.stem)
def test_a_case_is_as_recorded(case: Path) -> None:
    pytest.importorskip("tvm", reason="the peer apache-tvm is not installed")
    there = installed("tvm-0.27")
    assert there is not None
    holds, line = judged(case, there, outcome(case), table())
    if holds is None:
        pytest.skip(line)
    assert holds, line
