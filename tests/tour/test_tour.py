"""The tour is fresh, and each of its planted faults is caught where the page says."""

from __future__ import annotations

import pytest

from tests.tour.page import PAGE, STOPS, Stop, page, refuted_by, refuted_in_c


def test_the_tour_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m tests.tour --write"


@pytest.mark.parametrize("stop", [s for s in STOPS if s.fault is not None], ids=lambda s: s.stage)
def test_a_planted_fault_is_caught_at_its_stage(stop: Stop) -> None:
    assert stop.fault is not None
    line = refuted_by(stop.stage, stop.fault)
    assert (line.stage, line.evidence.holds) == (stop.stage, False)


def test_a_fault_of_the_c_is_caught_by_compare() -> None:
    line = refuted_in_c()
    assert (line.stage, line.evidence.holds) == ("compare", False)
