"""Graph programs on intervals (rule M9): what a run with bounds says is right, or it says that it cannot know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from assay.interp.graph import run
from assay.interp.values import Cell, Closure, Data, Event
from assay.lower.legalize import legalize
from assay.semantics import graph as g
from assay.semantics.bounds import Bounded, contains
from assay.semantics.dtypes import BOOL, FLOAT32, INT32, dtype
from assay.semantics.errors import Invalid, Trap, Unpredictable
from assay.semantics.graph import Expr, Var, call, constant, function, if_, let, var
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.scalar import Dim, apply, cast
from assay.semantics.tensor import Buffer, PrimFunc, loops, store
from assay.semantics.types import DataDef, DataType, FuncType, RefType, TensorType, Type

X = np.array([0.1, 0.2, 0.3, 0.7], np.float32)


def tensor(*shape: Dim) -> TensorType:
    return TensorType(shape, FLOAT32)


V, S = tensor(4), tensor()
BOX = DataDef("Box", (), {"box": (V,)})
MAKE = g.constructor(BOX, "box")


def total(x: Expr) -> Expr:
    """Inexact: a sum may be made in any order."""
    return call("sum", x, axis=(0,), keepdims=False)


def number(value: float) -> Expr:
    return constant(np.float32(value))


def bounded(
    body: Callable[[Var], Expr], of: Type = V, x: Any = X, more: dict[str, Any] | None = None, **options: Any
) -> Any:
    p = var("x", of)
    module = Module({"main": function([p], body(p)), "Box": BOX, **(more or {})})
    check(module)
    return run(module, {"x": x}, bounds=True, **options)["output_0"]


def unpredictable(label: str, body: Callable[[Var], Expr], **more: Any) -> Unpredictable:
    with pytest.raises(Unpredictable) as caught:
        bounded(body, **more)
    assert caught.value.label == label
    return caught.value


def is_wide(value: Any) -> bool:
    return isinstance(value, Bounded) and bool(np.all(value.radius > 0)) and bool(np.all(contains(value, X.sum())))


# --- decisions ---------------------------------------------------------------------------------------------------


def straddling(x: Expr) -> Expr:
    """Whether a sum is less than itself, made in another order."""
    return call("less", total(x), total(call("add", x, number(0))))


def test_a_branch_that_nobody_can_know_is_unpredictable() -> None:
    why = unpredictable("bounds.C1", lambda x: if_(straddling(x), number(1), number(2)))
    assert not isinstance(why, (Invalid, Trap)) and "either branch" in why.message


def test_a_branch_that_the_bounds_decide_is_taken() -> None:
    assert is_wide(bounded(lambda x: if_(call("less", total(x), number(2)), total(x), number(2))))


def test_a_failed_assertion_that_nobody_can_know_is_unpredictable() -> None:
    unpredictable("bounds.C1", lambda x: let(var("u", g.UNIT), g.assert_op(straddling(x)), number(1)))


def test_a_condition_may_come_out_of_data_or_a_cell() -> None:
    flag = TensorType((), BOOL)

    def from_cell(x: Var) -> Expr:
        r = var("r", RefType(flag))
        return let(r, g.ref(straddling(x)), if_(g.read(r), number(1), number(2)))

    unpredictable("bounds.C1", from_cell)


def test_a_match_is_decided_by_its_constructor() -> None:
    v = var("v", V)
    assert is_wide(
        bounded(lambda x: g.match(call(MAKE, call("add", x, number(0))), (g.Made(MAKE, (g.Bind(v),)), total(v))))
    )


@pytest.mark.parametrize("x", [X, np.array([1, 2, 3, 7], np.int64)], ids=["floats", "numbers without error"])
def test_what_an_index_may_take_is_all_in_the_interval(x: Any) -> None:
    def index(p: Var) -> Expr:  # from either side of 2
        whole = call("astype", call("multiply", total(var_x(p)), number(2 / 1.3)), dtype="int32")
        return call("take", p, whole, axis=0)

    def var_x(p: Var) -> Expr:
        return constant(X) if p.type != V else p

    found = bounded(index, TensorType((4,), dtype(x.dtype)), x)
    low, high = found.interval()
    assert low <= x[1] < x[2] <= high
    assert x[0] < low and high < x[3]


def test_indices_that_nobody_can_know_are_unpredictable() -> None:
    def index(x: Var) -> Expr:
        many = call("add", total(call("multiply", x, number(1e9))), number(-1.3e9))
        table = constant(np.arange(1_000, dtype=np.float32))
        return call("take", table, call("astype", call("abs", many), dtype="int32"), axis=0)

    unpredictable("bounds.C4", index)


def test_an_index_that_is_outside_for_sure_traps() -> None:
    def index(x: Var) -> Expr:
        whole = call("astype", call("multiply", total(x), number(20 / 1.3)), dtype="int32")
        return call("take", x, whole, axis=0)

    with pytest.raises(Trap) as caught:
        bounded(index)
    assert caught.value.kind == "out of bounds"


# --- calls out of the language -----------------------------------------------------------------------------------

TICK = g.extern("tick", [S], S)


def test_an_extern_is_given_arrays() -> None:
    given: list[Any] = []
    trace: list[Event] = []

    def tick(x: Any) -> Any:
        given.append(x)
        return x * 2

    made = bounded(lambda x: call(TICK, x), S, np.float32(3), externs={"tick": tick}, trace=trace)
    assert [type(v) for v in given] == [np.ndarray] and given[0].dtype == np.float32
    assert isinstance(made, Bounded) and made.is_exact and made.value == 6.0
    assert [type(v) for v in trace[0].values] == [np.ndarray]


def test_an_extern_is_not_given_what_nobody_can_know() -> None:
    why = unpredictable("bounds.C2", lambda x: call(TICK, total(x)), externs={"tick": abs})
    assert "tick" in why.message

    boxed = g.extern("open", [BOX.type], S, pure=True)
    unpredictable(
        "bounds.C2", lambda x: call(boxed, call(MAKE, call("exp", x))), externs={"open": lambda b: b.fields[0][0]}
    )


def test_what_is_printed_is_what_is_known() -> None:
    trace: list[Event] = []
    bounded(lambda x: let(var("u", g.UNIT), g.print_(x, total(x)), number(1)), trace=trace)
    exact, wide = trace[0].values
    assert isinstance(exact, np.ndarray) and isinstance(wide, Bounded)


# --- values that come in by other ways -----------------------------------------------------------------------------


def test_what_data_cells_and_closures_hold_is_computed_with_bounds() -> None:
    """Were the arrays inside taken as arrays, a sum of them would pass as exact."""
    v = var("v", V)
    opened = bounded(
        lambda b: g.match(b, (g.Made(MAKE, (g.Bind(v),)), total(v))), DataType("Box"), Data("Box", "box", (X,))
    )
    assert is_wide(opened)
    assert is_wide(bounded(lambda r: total(g.read(r)), RefType(V), Cell(X)))
    captured = var("c", V)
    make = Module({"main": function([captured], function([], captured))})
    closure = run(make, {"c": X})["output_0"]
    assert isinstance(closure, Closure)
    assert is_wide(bounded(lambda f: total(call(f)), FuncType((), V), closure))


# --- tensor functions --------------------------------------------------------------------------------------------


OUT = Buffer("out", (4,), FLOAT32)


def kernel(what: str) -> PrimFunc:
    a = Buffer("a", (4,), FLOAT32)
    body = loops("i", (4,), lambda i: store(OUT, i, apply(what, a[i]) if what != "double" else a[i] + a[i]))
    return PrimFunc("k", (a, OUT), 1, body)


def test_a_tensor_function_of_exact_values_is_exact() -> None:
    made = bounded(lambda x: g.call_tir("k", [x], V), more={"k": kernel("double")})
    assert isinstance(made, Bounded) and made.is_exact and np.array_equal(made.raw, X + X)


def test_a_tensor_function_of_what_nobody_can_know_is_unpredictable() -> None:
    why = unpredictable("bounds.C3", lambda x: g.call_tir("k", [call("exp", x)], V), more={"k": kernel("double")})
    assert "k" in why.message
    unpredictable("bounds.C3", lambda x: g.call_tir("k", [x], V), more={"k": kernel("exp")})
    whole = Buffer("a", (4,), INT32)
    of_whole = PrimFunc(
        "k", (whole, OUT), 1, loops("i", (4,), lambda i: store(OUT, i, apply("exp", cast(whole[i], FLOAT32))))
    )
    numbers = constant(np.arange(4, dtype=np.int32))
    unpredictable("bounds.C3", lambda x: g.call_tir("k", [numbers], V), more={"k": of_whole})
    held = var("r", RefType(V))
    unpredictable(
        "bounds.C3", lambda r: g.call_tir("k", [g.read(r)], V), of=held.type, x=Cell(X), more={"k": kernel("exp")}
    )


def test_a_legalized_program_has_the_bounds_of_its_operators() -> None:
    x, w = var("x", tensor(3, 4)), var("w", tensor(4, 2))
    source = Module({"main": function([x, w], call("nn.softmax", call("matmul", call("exp", x), w), axis=-1))})
    target = legalize(source)
    rng = np.random.default_rng(0)
    inputs = {"x": rng.random((3, 4), np.float32), "w": rng.random((4, 2), np.float32)}
    (wanted,), (found,) = (run(m, inputs, bounds=True).values() for m in (source, target))
    assert np.array_equal(wanted.value, found.value) and np.array_equal(wanted.radius, found.radius)
    assert contains(found, run(target, inputs)["output_0"]).all()


def test_integers_are_exact() -> None:
    x = var("x", TensorType((4,), INT32))
    module = Module({"main": function([x], total(x))})
    assert run(module, {"x": np.arange(4, dtype=np.int32)}, bounds=True)["output_0"] == 6
