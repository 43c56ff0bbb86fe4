"""Every exhibit is caught, every row of the lists has a place, and the page says what the exhibits give."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.museum import __main__ as command, aot_faults, dynamic_faults, kernel_faults, numeric_faults
from tests.museum.catalogue import exhibits, found
from tests.museum.exhibits import NOTHING, Exhibit, Fault, Found
from tests.museum.page import PAGE, TITLES, page, rows

FAULTS = {
    f"{module.__name__.rpartition('.')[2]}: {name}": fault
    for module in (aot_faults, numeric_faults, dynamic_faults, kernel_faults)
    for name, fault in module.FAULTS.items()
}


@pytest.mark.parametrize("exhibit", exhibits(), ids=lambda e: e.key)
def test_a_fault_is_caught(exhibit: Exhibit) -> None:
    seen = found()[exhibit.key]
    assert seen.layer != NOTHING and seen.layer.startswith(exhibit.layer) and seen.size, seen


@pytest.mark.parametrize("key", FAULTS)
def test_the_right_one_is_not(key: str) -> None:
    fault = FAULTS[key]
    assert fault.judged(fault.right) is None


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m tests.museum --write"


def test_names_are_unique_and_have_a_section() -> None:
    assert [k for k, n in Counter(e.key for e in exhibits()).items() if n > 1] == []
    assert {e.file for e in exhibits()} == set(TITLES)


def test_every_row_has_its_exhibits_or_says_why_not() -> None:
    """As many rows as the lists have, each with exhibits that are there, or with a reason."""
    all_rows, keys = rows(), {e.key for e in exhibits()}
    assert Counter(r.name.split()[0] for r in all_rows) == {
        "executor:": 18,
        "memory:": 30,
        "devices:": 12,
        "constants:": 11,
        "sizes:": 12,
        "tvm": 37,
        "numbers": 11,
    }
    assert len({r.name for r in all_rows}) == len(all_rows)
    assert [k for r in all_rows for k in r.exhibits if k not in keys] == []
    assert [r.name for r in all_rows if not (r.exhibits or r.why)] == []
    text = PAGE.read_text(encoding="utf-8")
    assert [r.name for r in all_rows if r.name not in text] == []


def test_what_nothing_catches_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A pass without a fault in the place of a faulty one."""
    fault = aot_faults.FAULTS["an alias of an input is fresh storage"]
    harmless = Fault(fault.known, fault.layer, fault.program, fault.right, fault.right, fault.said)
    assert Exhibit("aot_faults", "harmless", "", fault.layer, harmless.run).found() == Found(
        NOTHING, "7 nodes, 2 statements"
    )
    monkeypatch.setattr(command, "found", lambda: {"x: harmless": Found(NOTHING, "")})
    monkeypatch.setattr(command, "page", lambda: "")
    assert command.main([]) == 1
    assert "nothing catches x: harmless" in capsys.readouterr().out


def test_another_reason_is_not_the_fault() -> None:
    """A refutation that says something else is not counted."""
    fault = aot_faults.FAULTS["nested tuples are flattened in another order"]
    other = Fault(fault.known, fault.layer, fault.program, fault.right, fault.wrong, "something else")
    assert Exhibit("aot_faults", "other", "", other.layer, other.run).found().layer == NOTHING
