"""Every planted fault is run by one test, every row of the lists has a place, and the page says what the runs gave."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import pytest

from tests.museum import __main__ as command
from tests.museum.catalogue import FAMILIES, PAGE, exhibits, is_caught, planted, recorded
from tests.museum.faults import aot_faults
from tests.museum.page import page, rows
from tests.museum.planted import NOTHING, Found, PlantedFault
from tests.places import ROOT


@planted("aot_faults")
def test_a_fault_of_storage_is_caught(fault: PlantedFault) -> None:
    is_caught(fault)


@planted("numeric_faults")
def test_a_fault_of_numbers_is_caught(fault: PlantedFault) -> None:
    is_caught(fault)


@planted("dynamic_faults")
def test_a_fault_of_open_sizes_is_caught(fault: PlantedFault) -> None:
    is_caught(fault)


@planted("kernel_faults")
def test_a_fault_inside_a_tensor_function_is_caught(fault: PlantedFault) -> None:
    is_caught(fault)


def test_every_family_is_run_by_one_test() -> None:
    run = [
        family
        for path in (ROOT / "tests").rglob("test_*.py")
        for family in re.findall(r'^@planted\("(\w+)"\)$', path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert sorted(run) == sorted(FAMILIES)


def test_the_page_is_fresh() -> None:
    """Each line of a fault is what its own test found; here, what is around them."""
    assert recorded().keys() == exhibits().keys(), "run: python -m tests.museum --write"
    assert PAGE.read_text(encoding="utf-8") == page(recorded()), "run: python -m tests.museum --write"


def test_names_are_unique() -> None:
    assert [
        k for k, n in Counter(f"{m}: {f.name}" for m, (of, _) in FAMILIES.items() for f in of.FAULTS).items() if n > 1
    ] == []


def test_every_row_has_its_exhibits_or_says_why_not() -> None:
    """As many rows as the lists have, each with exhibits that are there, or with a reason."""
    all_rows, keys = rows(), exhibits().keys()
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


HARMLESS = "aot_faults: an alias of an input is fresh storage"


def test_what_nothing_catches_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A pass without a fault in the place of a faulty one."""
    fault = exhibits()[HARMLESS]
    assert fault.right is not None
    harmless = replace(fault, wrong=fault.right)
    assert harmless.refused() == Found(NOTHING, "7 nodes, 2 statements")
    with pytest.raises(AssertionError):
        is_caught(harmless)
    monkeypatch.setattr(command, "exhibits", lambda: {"x: harmless": harmless})
    monkeypatch.setattr(command, "page", lambda found: "")
    assert command.main([]) == 1
    assert "nothing catches x: harmless" in capsys.readouterr().out


def test_a_fault_in_the_place_of_what_is_right_is_seen() -> None:
    fault = exhibits()[HARMLESS]
    wrong = replace(fault, right=fault.wrong)
    assert wrong.accepted()
    with pytest.raises(AssertionError):
        is_caught(wrong)


def test_another_reason_is_not_the_fault() -> None:
    """A refutation that says something else is not counted."""
    (fault,) = (f for f in aot_faults.FAULTS if f.name == "nested tuples are flattened in another order")
    assert replace(fault, said="something else").refused().layer == NOTHING


def test_a_judge_that_does_not_see_the_fault_is_noticed() -> None:
    """Each judge that is named must refuse; one that cannot see the fault must accept."""
    fault = exhibits()[HARMLESS]
    assert replace(fault, judges=(*fault.judges, lambda source, made: None)).refused().layer == NOTHING
    assert replace(fault, silent=fault.judges).refused().layer == NOTHING


def test_another_size_is_not_what_the_page_says() -> None:
    fault = exhibits()[HARMLESS]
    assert replace(fault, size=lambda source, made: "1 node").refused() != recorded()[HARMLESS]
