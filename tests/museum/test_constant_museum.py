"""Every fault with constants in the museum is caught, and what is right is not."""

from __future__ import annotations

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
