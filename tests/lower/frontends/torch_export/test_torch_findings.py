"""What was found in PyTorch is as recorded of the version that is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.seen import findings, installed, judged, outcome, table


@pytest.mark.peer
@pytest.mark.parametrize("path", findings("torch-2.14"), ids=lambda p: p.stem)
def test_a_finding_is_as_recorded(path: Path) -> None:
    there = installed("torch-2.14")
    if there is None:
        pytest.skip("PyTorch is not installed")
    holds, line = judged(path, there, outcome(path), table())
    if holds is None:
        pytest.skip(line)
    assert holds, line
