"""Wrong folding, sharing and inlining are caught; the right passes are not."""

from __future__ import annotations

import pytest

from assay.interp.graph.observation import observe
from assay.semantics.errors import AssayError
from assay.semantics.rules import check
from assay.verify.simplify import check_simplified
from tests.museum.pass_faults import FAULTS, XS, Fault

pytestmark = pytest.mark.row("V17")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_the_fault_is_caught(fault: Fault) -> None:
    source = fault.program()
    wrong = fault.wrong(source)
    try:
        check(wrong)
        seen = not check_simplified(source, wrong).holds
    except AssayError:  # no program any more
        seen = not fault.moves
    assert seen
    if fault.moves:  # no run could show it
        assert observe(source, XS).difference(observe(wrong, XS)) is None


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_the_right_pass_is_not(fault: Fault) -> None:
    source = fault.program()
    check(source)
    right = fault.right(source)
    check(right)
    evidence = check_simplified(source, right)
    assert evidence.holds, evidence.detail
    assert observe(source, XS).difference(observe(right, XS)) is None
