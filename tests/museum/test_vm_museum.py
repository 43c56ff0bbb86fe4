"""Every fault of bytecode in the museum is refused, and what the compiler makes without it is not (specs/verify.md,
"vm")."""

from __future__ import annotations

import pytest

from tests.museum.catalogue import is_caught, planted
from tests.museum.planted import PlantedFault


@pytest.mark.row("R11", "J3", "J13")
@planted("vm_faults")
def test_a_fault_is_caught(fault: PlantedFault) -> None:
    is_caught(fault)
