"""Each wrong schedule primitive is caught by `equivalent`, and the right one is bit-exact or refuses."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from assay.lower.loops import schedule
from assay.semantics.errors import Invalid
from assay.semantics.tensor import PrimFunc
from assay.verify.equivalence import BIT_EXACT, equivalent
from tests.museum.catalogue import is_caught, planted
from tests.museum.faults.schedule_primitive_faults import FAULTS, alternating, blurred, running, skewed, total
from tests.museum.planted import PlantedFault

REFUSALS = {
    "reorder": lambda: schedule(skewed()).reorder("j", "i"),
    "vectorized recurrence": lambda: schedule(running()).vectorize("i"),
    "parallel reduction": lambda: schedule(total()).parallelize("k"),
    "fusion with a neighbour": lambda: schedule(blurred()).merge("i", "j"),
    "fission": lambda: schedule(alternating()).fission("i"),
}


@planted("schedule_primitive_faults")
def test_the_fault_is_caught(fault: PlantedFault) -> None:
    """The right primitive is bit-exact, or refuses where the function does not allow it."""
    is_caught(fault)
    if fault.right is None:
        with pytest.raises(Invalid, match="may touch one element"):
            REFUSALS[fault.name]()


@pytest.mark.parametrize("program", dict.fromkeys(f.program for f in FAULTS), ids=lambda p: p.__name__)
def test_each_function_is_equal_to_itself(program: Callable[[], PrimFunc]) -> None:
    assert equivalent(program(), program()).holds(BIT_EXACT)
