"""Each fault of a dispatcher of kernels is caught on the first use, or by its results or bounds."""

from __future__ import annotations

import pytest

from tests.museum.catalogue import is_caught, planted
from tests.museum.planted import PlantedFault

pytestmark = pytest.mark.row("J2", "J6")


@planted("dispatch_faults")
def test_a_wrong_dispatch_is_caught(fault: PlantedFault) -> None:
    is_caught(fault)
