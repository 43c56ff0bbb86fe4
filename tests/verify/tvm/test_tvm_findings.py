"""What was found in apache-tvm: every case under specs/findings/tvm-0.27 is a program, and still shows what it is
about."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT

PAGE = ROOT / "specs" / "findings" / "tvm-0.27.md"
CASES = sorted((ROOT / "specs" / "findings" / "tvm-0.27").glob("*.py"))


def test_the_page_lists_every_case() -> None:
    text = PAGE.read_text("utf-8")
    assert len(CASES) >= 15
    assert [c.name for c in CASES if f"tvm-0.27/{c.name}" not in text] == []


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.stem)
def test_a_case_still_shows(case: Path) -> None:
    pytest.importorskip("tvm", reason="the peer apache-tvm is not installed")
    ended = subprocess.run([sys.executable, str(case)], capture_output=True, text=True, check=False, timeout=300)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "TVM:" in ended.stdout and "right:" in ended.stdout
