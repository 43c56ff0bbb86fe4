"""Attacks on the graph interpreter: inputs, and depth and width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from assay.interp.values import Cell, Event, Shape
from assay.semantics import graph as g
from assay.semantics.errors import Invalid
from assay.semantics.graph import Expr, call, function, get, if_, let, tuple_of, var
from assay.semantics.module import Module
from assay.semantics.types import UNIT, RefType, TupleType
from tests.interp.test_graph_attacks import BOOL, CONS, NIL, SCALAR, f32, module, number, run, tensor
from tests.observation import observe

# --- inputs -------------------------------------------------------------------------------------------------------

WRONG_TENSORS: dict[str, Any] = {
    "none": None,
    "text": "ab",
    "texts": ["a", "b"],
    "python floats": [1.0, 2.0],
    "objects": np.array([1, 2], object),
    "big-endian": np.array([1, 2], ">f4"),
    "records": np.array([(1.0,)] * 2, [("a", "f4")]),
    "dates": np.array(["2020"] * 2, "M8[D]"),
    "complex": np.zeros(2, np.complex64),
    "no axis": np.float32(3),
    "another axis": np.zeros((1, 2), np.float32),
    "bools": np.array([True, False]),
    "integers": np.array([1, 2]),
    "mapping": {1: 2},
    "function": lambda: 0,
    "cell": Cell(f32(1, 2)),
    "shape": Shape((1, 2)),
}


@pytest.mark.parametrize("kind", WRONG_TENSORS)
@pytest.mark.parametrize("inside", [False, True])
def test_a_wrong_input_is_invalid_with_a_label(kind: str, inside: bool) -> None:
    of = TupleType((SCALAR, TupleType((tensor(2),)))) if inside else tensor(2)
    x = var("x", of)
    value = (np.float32(1), (WRONG_TENSORS[kind],)) if inside else WRONG_TENSORS[kind]
    with pytest.raises(Invalid) as caught:
        run(function([x], x), x=value)
    assert caught.value.label


@pytest.mark.parametrize(
    "value", [None, (), (1,), (1, 2, 3), (1, (2, 3)), ((1, 2), 3), "ab", {0: 1, 1: 2}, np.zeros((2, 2), np.float32)]
)
def test_a_wrong_nesting_is_invalid_with_a_label(value: Any) -> None:
    x = var("x", TupleType((SCALAR, TupleType((SCALAR,)))))
    with pytest.raises(Invalid) as caught:
        run(function([x], x), x=value)
    assert caught.value.label


def test_odd_layouts_are_fine() -> None:
    x = var("x", tensor(2, 3))
    main = function([x], call("add", x, x))
    whole = np.arange(24, dtype=np.float32).reshape(6, 4)
    reversed_, fortran = whole[::-3, 1:], np.asfortranarray(whole[:2, :3])
    frozen = whole[:2, :3].copy()
    frozen.flags.writeable = False
    for given in (reversed_, fortran, frozen):
        before = given.copy()
        assert np.array_equal(run(main, x=given), before * 2)
        assert np.array_equal(given, before), "the caller's array is not touched"


def test_cells_in_a_trace_are_as_they_were_however_deep() -> None:
    r, s = var("r", RefType(SCALAR)), var("s", RefType(RefType(SCALAR)))
    steps: Sequence[Expr] = [g.print_(s), g.write(r, number(2)), g.print_(s), g.write(s, g.ref(number(3))), g.print_(s)]
    body: Expr = g.read(r)
    for step in reversed(steps):
        body = let(var("_", UNIT), step, body)
    trace: list[Event] = []
    assert run(function([], let(r, g.ref(number(1)), let(s, g.ref(r), body))), trace=trace) == 2.0
    assert [float(e.values[0].value.value) for e in trace] == [1, 2, 3]


# --- depth and width ----------------------------------------------------------------------------------------------


def test_chains_of_every_construct_are_as_long_as_they_are() -> None:
    x, c = var("x", SCALAR), var("c", BOOL)
    cells: Expr = x
    branches: Expr = x
    pairs: Expr = x
    clauses: Expr = x
    closures: Expr = call("negative", x)
    for _ in range(2000):
        cells = g.ref(cells)
        branches = if_(c, branches, number(1))
        pairs = tuple_of(pairs)
        v = var("v", SCALAR)
        clauses = g.match(tuple_of(clauses), (g.Fields((g.Bind(v),)), v))
        closures = call(function([], closures))
    for _ in range(2000):
        cells = g.read(cells)
        pairs = get(pairs, 0)
    main = function([c, x], tuple_of(cells, branches, pairs, clauses, closures))
    assert [float(v) for v in run(main, c=np.array(True), x=np.float32(5))] == [5, 5, 5, 5, -5]


def test_long_lists_are_copied_and_compared() -> None:
    def long(last: float) -> Module:
        xs: Expr = call(CONS, number(last), call(NIL, type_args=[SCALAR]))
        for _ in range(5000):
            xs = call(CONS, number(1), xs)
        return module(function([], let(var("_", UNIT), g.print_(xs), number(0))))

    assert observe(long(1), {}).difference(observe(long(1), {})) is None
