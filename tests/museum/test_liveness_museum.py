"""Every fault of liveness in the museum is caught, and the pass without it passes (specs/verify.md, "liveness")."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assay.lower.liveness import find_lives
from assay.verify.liveness.lives import check_lives
from assay.verify.liveness.program import check_program
from tests.museum.liveness_faults import FAULTS


@pytest.mark.row("U7", "U8", "U9", "U15", "U18")
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = FAULTS[name]
    source = fault.program()
    right = find_lives(source)
    lives = check_lives(right.program, right.kernels)
    assert lives.holds and lives.data["spare"] == 0 and check_program(source, right).holds
    source = fault.program()  # new tensor functions, for what is known of the old ones stays
    fault.plant(monkeypatch)
    wrong = fault.wrong(source)
    lives, values = check_lives(wrong.program, wrong.kernels), check_program(source, wrong)
    assert lives.holds == (not fault.lasting) and values.holds == fault.lasting
    said = (lives if fault.lasting else values).detail
    assert ("is between uses at position" if fault.lasting else "which nothing has written") in said


def test_the_lives_of_a_fault_are_shorter_and_of_a_caution_longer() -> None:
    source = FAULTS["the last use is not counted"].program()
    made = find_lives(source)
    whole = {n: replace(s, live=((0, made.program.positions[-1]),)) for n, s in made.program.slots.items()}
    evidence = check_lives(replace(made.program, slots=whole), made.kernels)
    assert evidence.holds and evidence.data["spare"] > 0 and "more than needed" in evidence.detail
