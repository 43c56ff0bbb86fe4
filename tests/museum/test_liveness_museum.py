"""Every fault of liveness in the museum is caught, and the pass without it passes (specs/verify.md, "liveness")."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assay.lower.liveness import find_lives
from assay.verify.liveness.lives import check_lives
from tests.museum.catalogue import is_caught, planted
from tests.museum.faults.liveness_faults import used_again
from tests.museum.planted import PlantedFault


@pytest.mark.row("U7", "U8", "U9", "U15", "U18")
@planted("liveness_faults")
def test_a_fault_is_caught(fault: PlantedFault) -> None:
    is_caught(fault)


@pytest.mark.row("J13", "J15")
@planted("measured_faults")
def test_a_fault_of_loops_or_measured_sizes_is_caught(fault: PlantedFault) -> None:
    is_caught(fault)


def test_the_lives_of_a_fault_are_shorter_and_of_a_caution_longer() -> None:
    source = used_again()
    made = find_lives(source)
    whole = {n: replace(s, live=((0, made.program.positions[-1]),)) for n, s in made.program.slots.items()}
    evidence = check_lives(replace(made.program, slots=whole), made.kernels)
    assert evidence.holds and evidence.data["spare"] > 0 and "more than needed" in evidence.detail
