"""StableHLO's own test programs pass, but for those that are listed."""

from __future__ import annotations

import pytest

from tests.lower.frontends.stablehlo.stablehlo_suite import DATA, MISSING, listed, reasons, results


def test_what_is_listed_is_for_complex_numbers_processes_and_floats_of_6_bits() -> None:
    for name, reason in listed().items():
        assert "complex numbers" in reason or "several processes" in reason, name


@pytest.mark.skipif(not DATA.is_dir(), reason=MISSING)
def test_all_files_pass_that_are_not_listed() -> None:
    found = results()
    assert len(found) == 350
    assert reasons(found) == listed()
    assert sum(r.outcome == "as expected" for r in found) == 272
    assert sum(r.outcome == "runs" for r in found) == 42
