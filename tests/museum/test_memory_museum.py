"""Every fault of memory planning in the museum is caught, and what is right is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.museum import liveness_faults, planner_faults
from tests.museum.memory_faults import FAULTS


@pytest.mark.row("U1", "U2", "U5", "U12", "U15", "U21")
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = FAULTS[name]
    right = fault.right()
    assert right.holds, right.detail
    wrong = fault.wrong(monkeypatch)
    assert not wrong.holds and fault.said in wrong.detail, wrong.detail


def test_the_table_has_every_fault_of_memory() -> None:
    text = (Path(__file__).parents[2] / "specs" / "museum.md").read_text().partition("## Devices")[0]
    listed = {line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")}
    names = {*FAULTS, *liveness_faults.FAULTS, *(f.name for f in planner_faults.FAULTS)}
    assert not names - listed, "missing in specs/museum.md"
    assert len(listed - names) == 5, "the head, three headings, and hill climbing, which is no fault of a plan"
