"""Every wrong A-normal form of the museum is refused, for the right reason, and a run tells it; the right form is
accepted."""

from __future__ import annotations

from tests.museum.catalogue import is_caught, planted
from tests.museum.planted import PlantedFault


@planted("anf_faults")
def test_the_wrong_form_is_refused(fault: PlantedFault) -> None:
    is_caught(fault)
