"""Types that are deep, or parts of one another: every question takes steps in proportion to what is new.

Steps are calls of Python functions, which are the same on every machine and in every run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

from assay.interp.graph import run
from assay.semantics import graph as g
from assay.semantics.dtypes import BOOL, FLOAT32
from assay.semantics.graph import Expr, Function, Var, call, function, get, if_, let, match_cast, tuple_of, var
from assay.semantics.graph.matching import compatible, join, serves
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.scalar import Dim, Var as Symbol
from assay.semantics.types import (
    DataType,
    FuncType,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeVar,
    open_symbols,
    same_type,
)
from assay.semantics.walk import rewrite

DEEP = 5_000


def tensor(*shape: Dim) -> TensorType:
    return TensorType(shape, FLOAT32)


def steps(work: Callable[[], object]) -> int:
    """How many calls of Python functions `work` makes."""
    count = 0

    def seen(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def grows_in_proportion(make: Callable[[int], Callable[[], object]]) -> None:
    small, large = steps(make(60)), steps(make(480))
    assert large < 8 * small * 1.3, (small, large)


# --- deep function types -----------------------------------------------------------------------------------------


def results(depth: int, last: Type) -> Type:
    """() -> () -> ... -> last"""
    of = last
    for _ in range(depth):
        of = FuncType((), of)
    return of


def parameters(depth: int, first: Type) -> Type:
    """((first -> t) -> t) -> ..."""
    of = first
    for _ in range(depth):
        of = FuncType((of,), tensor())
    return of


@pytest.mark.parametrize("nested", [results, parameters])
def test_function_types_may_be_deep(nested: Callable[[int, Type], Type]) -> None:
    two, three = nested(DEEP, tensor(2)), nested(DEEP, tensor(3))
    assert isinstance(two, FuncType)
    again = nested(DEEP, tensor(2))
    found = [f(two, other) for f in (compatible, serves, same_type) for other in (again, three)]  # no type is shown
    assert found == [True, False] * 3


@pytest.mark.parametrize("nested", [results, parameters])
def test_deep_function_types_are_compared_in_proportion(nested: Callable[[int, Type], Type]) -> None:
    def differ(n: int) -> Callable[[], object]:
        two, three = nested(n, tensor(2)), nested(n, tensor(3))
        return lambda: compatible(two, three)

    grows_in_proportion(differ)


def both_ways(depth: int, leaf: Type) -> Type:
    """A function type whose parameter and result are one: as a tree it is 2**depth large."""
    of = leaf
    for _ in range(depth):
        of = FuncType((of,), of)
    return of


@pytest.mark.parametrize(("one", "other"), [(tensor(2), tensor(3)), (tensor(Symbol("n")), tensor(Symbol("m")))])
def test_function_types_that_share_parts_are_compared_part_by_part(one: Type, other: Type) -> None:
    a, again, b = both_ways(60, one), both_ways(60, one), both_ways(60, other)
    symbolic = isinstance(one, TensorType) and not one.is_static
    found = [f(a, x) for f in (same_type, compatible) for x in (again, b)]  # no type is shown
    assert found == [True, symbolic] * 2


def test_a_function_with_type_parameters_serves() -> None:
    t, u = TypeVar("t"), TypeVar("u")
    general, other = FuncType((t,), t, type_params=(t,)), FuncType((u,), u, type_params=(u,))
    assert serves(general, FuncType((tensor(2),), tensor(2))) and serves(general, other)
    assert not serves(general, FuncType((tensor(2),), tensor(3)))
    assert not serves(FuncType((tensor(2),), tensor(2)), general)
    made, named = FuncType((), t, type_params=(t,)), FuncType((), u, type_params=(u,))
    assert serves(made, named)


# --- types that are parts of one another ---------------------------------------------------------------------------


def chain(n: int, of: Type, named: bool) -> tuple[Var, list[tuple[Var, Expr]], Expr]:
    """Each step's type has the last step's in it."""
    x = var("x", of)
    bound: list[tuple[Var, Expr]] = []
    last: Expr = x
    for k in range(n):
        last = tuple_of(last, x)
        if named:
            v = var(f"v{k}", last.type)
            bound.append((v, last))
            last = v
    return x, bound, last


def program(n: int, of: Type, named: bool) -> Function:
    x, bound, last = chain(n, of, named)
    for _ in range(n):
        last = get(last, 0)
    for v, value in reversed(bound):
        last = let(v, value, last)
    return function([x], last)


@pytest.mark.parametrize("of", [tensor(2), tensor(Symbol("n"))], ids=str)
@pytest.mark.parametrize("named", [False, True])
def test_a_chain_of_growing_tuples_is_checked_in_proportion(of: Type, named: bool) -> None:
    def checked(n: int) -> Callable[[], object]:
        module = Module({"main": program(n, of, named)})
        return lambda: check(module)

    grows_in_proportion(checked)


def test_a_chain_of_growing_tuples_runs_in_proportion() -> None:
    def running(n: int) -> Callable[[], object]:
        module = Module({"main": program(n, tensor(2), True)})
        return lambda: run(module, {"x": np.ones(2, np.float32)})

    grows_in_proportion(running)


def test_a_chain_of_casts_and_branches_over_growing_tuples() -> None:
    def casts(n: int) -> Callable[[], object]:
        x, _, last = chain(n, tensor(2), False)
        for _ in range(n):
            last = match_cast(last, last.type)
        module = Module({"main": function([x], get(last, 1))})
        return lambda: check(module)

    def branches(n: int) -> Callable[[], object]:
        c, x = var("c", TensorType((), BOOL)), var("x", tensor(2))
        last: Expr = x
        for _ in range(n):
            last = if_(c, tuple_of(last, x), tuple_of(last, x))
        for _ in range(n):
            last = get(last, 0)
        module = Module({"main": function([c, x], last)})

        def work() -> None:
            check(module)
            run(module, {"c": np.array(True), "x": np.ones(2, np.float32)})

        return work

    grows_in_proportion(casts)
    grows_in_proportion(branches)


def test_nested_functions_find_their_variables_in_proportion() -> None:
    """The deepest functions use the outermost variable: they do not walk there step by step."""

    def nested(n: int) -> Callable[[], object]:
        x = var("x", tensor())
        params = [var(f"p{k}", tensor()) for k in range(n)]
        body: Expr = call("add", x, params[-1])
        for p in reversed(params):
            body = call("add", call(function([p], body, tensor()), x), x)
        module = Module({"main": function([x], body, tensor())})
        return lambda: run(module, {"x": np.float32(1)})

    grows_in_proportion(nested)


def test_what_stays_the_same_type_stays_the_same_object() -> None:
    for of in (
        TupleType((tensor(2), tensor())),
        FuncType((tensor(2),), tensor()),
        RefType(tensor()),
        DataType("List", (tensor(),)),
        TupleType(()),
    ):
        assert of.with_children(of.children) is of
        changed = rewrite(of, lambda t: tensor(7) if isinstance(t, TensorType) else t)
        assert (changed is of) == (of.children == ())
    same = TupleType((tensor(2), tensor()))
    assert join([same, same]) is same


def test_open_symbols_are_those_that_a_value_tells() -> None:
    n, m, k = Symbol("n"), Symbol("m"), Symbol("k")
    inner = TupleType((tensor(m, n), g.shape(k).type))
    assert open_symbols(TupleType((tensor(n, n + 1), inner))) == (n, m, k)
    assert (
        open_symbols(TupleType((RefType(tensor(n)), FuncType((tensor(m),), tensor(k)), DataType("L", (tensor(k),)))))
        == ()
    )
    assert open_symbols(tensor(n + 1)) == ()
