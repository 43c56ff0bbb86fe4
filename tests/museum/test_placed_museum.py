"""Every fault of programs on several devices is caught: by the machine, access by access too, and by the check."""

from __future__ import annotations

import pytest

from assay.verify.pool import check_pool
from tests.lower.devices.memory_access import check_memory_access
from tests.lower.devices.placed_programs import planned
from tests.museum.catalogue import is_caught, planted
from tests.museum.faults.placed_faults import WAYS, trapped
from tests.museum.planted import PlantedFault


@pytest.mark.row("V12")
def test_the_right_program_passes() -> None:
    right = planned()
    assert not any(trapped(right, execute) for execute in WAYS)
    assert check_memory_access(right.program, right.kernels).holds and check_pool(right)[0].holds


@pytest.mark.row("V9", "V12", "V17")
@planted("placed_faults")
def test_a_fault_is_caught(fault: PlantedFault) -> None:
    is_caught(fault)
