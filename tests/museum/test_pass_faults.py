"""Wrong folding, sharing and inlining are caught; the right passes are not."""

from __future__ import annotations

import pytest

from tests.museum.catalogue import is_caught, planted
from tests.museum.planted import PlantedFault

pytestmark = pytest.mark.row("V17")


@planted("pass_faults")
def test_the_fault_is_caught(fault: PlantedFault) -> None:
    is_caught(fault)
