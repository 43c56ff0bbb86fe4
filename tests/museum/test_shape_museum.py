"""Each wrong way to make sizes explicit is caught twice: by the check, for all inputs, and by a run that shows it."""

from __future__ import annotations

import pytest

from assay.lower.shapes import lower_shapes
from assay.semantics.errors import AssayError
from assay.verify.shapes import check_shapes, told_apart
from tests.museum.shape_faults import FAULTS, Fault

pytestmark = pytest.mark.row("R10", "U24")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_a_wrong_pass_is_caught(fault: Fault) -> None:
    source = fault.module
    right = lower_shapes(source)
    assert check_shapes(source, right).holds
    assert told_apart(source, right, fault.arrays) is None
    wrong = fault.lower(source)
    assert not check_shapes(source, wrong).holds
    try:
        seen = told_apart(source, wrong, fault.arrays)
    except (AssayError, ValueError) as failed:  # such as a size without a value, where the run needs one
        seen = str(failed)
    assert seen is not None
