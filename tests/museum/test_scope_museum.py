"""Each planted fault of memory scopes is caught, and what it was planted in is right (specs/verify.md, "Devices")."""

from __future__ import annotations

import pytest

from assay.lower.devices import plan_devices
from assay.semantics.analyses.equality import structural_equal
from assay.semantics.errors import Invalid
from assay.semantics.module import Module
from assay.verify.devices.scopes_check import check_scopes
from tests.museum.scope_faults import CONFIG, FAULTS, Fault, program, right


@pytest.mark.row("V12", "V13")
@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_the_fault_is_caught(fault: Fault) -> None:
    source = program()
    made = right(source)
    assert check_scopes(source, made).holds
    wrong = fault.plant(made)
    evidence = check_scopes(source, wrong)
    assert not evidence.holds and fault.said in evidence.detail, evidence.detail
    if fault.again:
        assert changes(wrong)


def changes(wrong: Module) -> bool:
    try:
        return not structural_equal(plan_devices(wrong, CONFIG), wrong)
    except Invalid:
        return True


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
