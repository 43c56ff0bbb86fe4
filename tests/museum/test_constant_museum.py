"""Every fault with constants in the museum is caught, and what is right is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.museum.constant_faults import FAULTS


@pytest.mark.row("C2", "C4", "C5", "C14")
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = FAULTS[name]
    right = fault.right()
    assert right.holds, right.detail
    wrong = fault.wrong(monkeypatch)
    assert not wrong.holds and fault.said in wrong.detail, wrong.detail


def test_the_table_has_every_fault() -> None:
    text = (Path(__file__).parents[2] / "specs" / "museum.md").read_text()
    section = text.partition("## Constants")[2].partition("\n## ")[0]
    listed = {tuple(cell.strip() for cell in line.split("|")[1:4]) for line in section.splitlines() if line.startswith("| ")}
    assert listed == {("Fault", "Known from", "Caught by"), *((n, f.known, f.said) for n, f in FAULTS.items())}
