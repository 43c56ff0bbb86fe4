"""Each wrong schedule primitive is caught by `equivalent`, and the right one is bit-exact or refuses."""

from __future__ import annotations

import pytest

from assay.lower.loops import schedule
from assay.semantics.errors import Invalid
from assay.verify.equivalence import BIT_EXACT, UNKNOWN, equivalent
from tests.museum.schedule_primitive_faults import FAULTS, Fault, alternating, blurred, running, skewed, total

REFUSALS = {
    "reorder": lambda: schedule(skewed()).reorder("j", "i"),
    "vectorized recurrence": lambda: schedule(running()).vectorize("i"),
    "parallel reduction": lambda: schedule(total()).parallelize("k"),
    "fusion with a neighbour": lambda: schedule(blurred()).merge("i", "j"),
    "fission": lambda: schedule(alternating()).fission("i"),
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_the_fault_is_caught(fault: Fault) -> None:
    source = fault.program()
    verdict = equivalent(source, fault.transform(source), weakest=BIT_EXACT)
    assert verdict.notion is UNKNOWN, fault.wrong
    assert verdict.witness is not None and verdict.witness.replayed, f"{fault.wrong}: {verdict}"


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_the_right_primitive_is_not(fault: Fault) -> None:
    """Bit-exact, or refused where the function does not allow it."""
    source = fault.program()
    if fault.right is not None:
        assert equivalent(source, fault.right(source)).holds(BIT_EXACT)
    else:
        with pytest.raises(Invalid, match="may touch one element"):
            REFUSALS[fault.name]()


def test_each_function_is_equal_to_itself() -> None:
    for fault in FAULTS:
        assert equivalent(fault.program(), fault.program()).holds(BIT_EXACT)
