"""The columns of the table of scalar operations, against the meanings that stand beside them (rule M5)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from assay.semantics.dtypes import dtype
from assay.semantics.errors import Crash, Trap
from assay.semantics.scalar import neutral
from assay.semantics.scalar.arithmetic import GROUP, LATTICE, OPERATIONS, Operation, Property, operation


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


SAMPLES: dict[str, list[Any]] = {
    "bool": [np.False_, np.True_],
    "int": [np.int8(v) for v in (-128, -127, -7, -1, 0, 1, 2, 3, 7, 8, 127)],
    "uint": [np.uint8(v) for v in (0, 1, 2, 7, 8, 255)],
    "float": [np.float32(v) for v in (-np.inf, -2.5, -1.0, -0.0, 0.0, 1e-45, 0.1, 1.0, 3e38, np.inf, np.nan)],
}


def observed(row: Operation) -> set[str]:
    """The properties that an operation has on the samples."""
    found: set[str] = set()
    on = [k for k in row.kinds if k in SAMPLES]
    if row.arity > 2 or row.result == "bits":
        return found

    def value(*args: Any) -> Any:
        """The result; None for a trap, or where an operand is one."""
        if any(a is None for a in args):
            return None
        try:
            return row.meaning(*args)
        except Trap as trap:
            found.add({"scalar.T1": "divides", "scalar.T2": "shifts"}[trap.label])
            assert trap.kind == row.fails
            return None

    def alike(a: Any, b: Any) -> bool:
        return a is None or b is None or np.asarray(a).tobytes() == np.asarray(b).tobytes() or (a != a and b != b)

    for k in (k for k in on if k in ("int", "uint")):
        for args in itertools.product(SAMPLES[k], repeat=row.arity):
            made = value(*args)
            assert row.arity == 1 or bool(row.fails_at(args[1], 8)) == (made is None)
            if made is not None and row.result == "same" and row.meaning(*map(int, args)) != made:
                found.add("wraps")
    if row.arity == 2:
        pairs = [p for k in on for p in itertools.product(SAMPLES[k], repeat=2)]
        found |= {"compares"} if row.result == "bool" else set()
        found |= {"commutes"} if all(alike(value(a, b), value(b, a)) for a, b in pairs) else set()
        found |= {"idempotent"} if all(a is not b or alike(value(a, a), a) for a, b in pairs) else set()
        sums = [k for k in on if k != "float" or not row.has("wraps")]
        threes = [t for k in sums for t in itertools.product(SAMPLES[k], repeat=3)]
        if row.result == "same" and all(alike(value(value(a, b), c), value(a, value(b, c))) for a, b, c in threes):
            found.add("associates")
    return found


@pytest.mark.parametrize("of", ["bool", "int8", "uint8", "int64", "float32", "bfloat16", "float8_e4m3fn"])
@pytest.mark.parametrize("op", [o.name for o in OPERATIONS.values() if o.has("associates")])
def test_the_neutral_element_changes_nothing(op: str, of: str) -> None:
    row, to = operation(op), dtype(of)
    if to.kind not in row.kinds:
        return
    unit = neutral(op, to).value
    assert np.asarray(unit).dtype == to.numpy
    for x in np.array(SAMPLES[to.kind] if to.kind in SAMPLES else [], np.float64).astype(to.numpy):
        made = row.meaning(unit, x)
        assert made == x or made != made and x != x, (unit, x)


def test_what_has_no_neutral_element_is_not_asked_for_it() -> None:
    assert all((o.unit is not None) == o.has("associates") for o in OPERATIONS.values())
    with pytest.raises(Crash):
        neutral("sub", dtype("int8"))


@pytest.mark.parametrize("op", OPERATIONS)
def test_properties_are_those_of_the_meaning(op: str) -> None:
    assert observed(operation(op)) == set(operation(op).properties)


@pytest.mark.parametrize("op, wrong", [("sub", LATTICE), ("max", GROUP), ("shr", ("divides",)), ("lt", ())])
def test_a_wrong_property_is_found(op: str, wrong: tuple[Property, ...]) -> None:
    row = replace(operation(op), properties=wrong)
    try:
        assert observed(row) != set(wrong)
    except AssertionError:
        assert op == "shr"
