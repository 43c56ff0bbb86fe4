"""Every fault of memory planning in the museum is caught, and what is right is not."""

from __future__ import annotations

import pytest

from tests.museum.catalogue import is_caught, planted
from tests.museum.planted import PlantedFault


@pytest.mark.row("U1", "U2", "U5", "U12", "U15", "U21")
@planted("memory_faults")
def test_a_fault_is_caught(fault: PlantedFault) -> None:
    is_caught(fault)
