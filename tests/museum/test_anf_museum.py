"""Every wrong A-normal form of the museum is refused, for the right reason; the right form is accepted."""

from __future__ import annotations

import pytest

from assay.interp.graph.observation import observe
from assay.verify.anf import check_anf
from tests.museum.anf_faults import EXHIBITS, Exhibit
from tests.museum.naive_anf import naive_anf


@pytest.mark.parametrize("exhibit", EXHIBITS, ids=lambda e: e.name)
def test_the_right_form_is_accepted(exhibit: Exhibit) -> None:
    source = exhibit.program()
    evidence = check_anf(source, naive_anf(source))
    assert evidence.holds, evidence.detail


@pytest.mark.parametrize("exhibit", EXHIBITS, ids=lambda e: e.name)
def test_the_wrong_form_is_refused(exhibit: Exhibit) -> None:
    source = exhibit.program()
    evidence = check_anf(source, exhibit.transform(source))
    assert not evidence.holds
    assert exhibit.says in evidence.detail


@pytest.mark.parametrize("exhibit", [e for e in EXHIBITS if e.inputs is not None], ids=lambda e: e.name)
def test_a_run_tells_them_apart(exhibit: Exhibit) -> None:
    source = exhibit.program()
    assert exhibit.inputs is not None
    wanted = observe(source, exhibit.inputs)
    assert wanted.difference(observe(naive_anf(source), exhibit.inputs)) is None
    assert wanted.difference(observe(exhibit.transform(source), exhibit.inputs)) is not None
