"""Every wrong plan of devices is caught by the rule that it breaks; the right one breaks none."""

from __future__ import annotations

import pytest

from tests.museum.catalogue import is_caught, planted
from tests.museum.planted import PlantedFault

pytestmark = pytest.mark.row("V9", "V11", "V17")


@planted("device_faults")
def test_a_wrong_plan_is_caught(fault: PlantedFault) -> None:
    is_caught(fault)
