"""Each wrong way to make sizes explicit is caught twice: by the check, for all inputs, and by a run that shows it."""

from __future__ import annotations

import pytest

from tests.museum.catalogue import is_caught, planted
from tests.museum.planted import PlantedFault

pytestmark = pytest.mark.row("R10", "U24")


@planted("shape_faults")
def test_a_wrong_pass_is_caught(fault: PlantedFault) -> None:
    is_caught(fault)
