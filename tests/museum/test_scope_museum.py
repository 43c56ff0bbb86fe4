"""Each planted fault of memory scopes is caught, and what it was planted in is right (specs/verify.md, "Devices")."""

from __future__ import annotations

import pytest

from assay.lower.devices import plan_devices
from assay.semantics.analyses.equality import structural_equal
from tests.museum.catalogue import is_caught, planted
from tests.museum.faults.scope_faults import CONFIG, program, right
from tests.museum.planted import PlantedFault


@pytest.mark.row("V12", "V13")
@planted("scope_faults")
def test_the_fault_is_caught(fault: PlantedFault) -> None:
    is_caught(fault)


@pytest.mark.row("V11")
def test_planning_again_changes_nothing() -> None:
    made = right(program())
    assert structural_equal(plan_devices(made, CONFIG), made)
    assert sorted(made.kernels) == [
        "double",
        "double_A_global",
        "double_global",
        "twice",
        "twice_A_global",
        "twice_global_B",
    ]
