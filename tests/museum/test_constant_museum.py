"""Every fault with constants in the museum is caught, and what is right is not."""

from __future__ import annotations

import pytest

from tests.museum.catalogue import is_caught, planted
from tests.museum.planted import PlantedFault


@pytest.mark.row("C2", "C4", "C5", "C14")
@planted("constant_faults")
def test_a_fault_is_caught(fault: PlantedFault) -> None:
    is_caught(fault)
