"""The evaluator of the graph IR: sizes that a run finds out, by rule M4."""

from __future__ import annotations

import numpy as np
import pytest

from assay.interp.values import Shape
from assay.semantics import graph as g
from assay.semantics.errors import Invalid, Trap
from assay.semantics.graph import Expr, call, function, get, if_, let, tuple_of, var
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.scalar import Dim, Var as Symbol
from assay.semantics.types import ShapeType, TensorType
from tests.interp.small import BOOL, f32, m, n, run, tensor

# --- sizes --------------------------------------------------------------------------------------------------------


def zeros(*dims: Dim) -> Expr:
    return call("full", shape=dims, fill_value=0.0, dtype="float32")


@pytest.mark.row("R7")
def test_a_match_cast_binds_symbols_for_what_follows() -> None:
    x = var("x", tensor(m))
    cast = g.match_cast(x, tensor(n))
    v = var("v", tensor(n))
    main = function([x], let(v, cast, call("add", v, v)))
    assert np.array_equal(run(main, x=f32(1, 2, 3)), f32(2, 4, 6))


@pytest.mark.row("R7", "J12")
def test_a_match_cast_that_does_not_hold_names_both_values_and_both_places() -> None:
    x, y = var("x", tensor(n)), var("y", tensor(m))
    v = var("v", tensor(n))
    main = function([x, y], let(v, g.match_cast(y, tensor(n)), call("add", x, v)))
    assert np.array_equal(run(main, x=f32(1, 2), y=f32(3, 4)), f32(4, 6))
    with pytest.raises(Trap, match=r"3, expected 2, the value of n by axis 0 of parameter 'x'") as caught:
        run(main, x=f32(1, 2), y=f32(1, 2, 3))
    assert caught.value.kind == "shape" and caught.value.label == "match_cast.T1"


def test_a_match_cast_of_a_tuple_uses_a_symbol_before_its_plain_dim() -> None:
    x, y = var("x", tensor(m)), var("y", tensor(Symbol("k")))
    want = tuple_of(var("a", tensor(n * 2)), var("b", tensor(n))).type
    v = var("v", want)
    main = function([x, y], let(v, g.match_cast(tuple_of(x, y), want), get(v, 1)))
    assert np.array_equal(run(main, x=f32(1, 2, 3, 4), y=f32(5, 6)), f32(5, 6))
    with pytest.raises(Trap, match=r"axis 0 of the value.0 is 3, expected 4 = "):
        run(main, x=f32(1, 2, 3), y=f32(5, 6))


@pytest.mark.row("J12")
def test_a_function_checks_its_arguments_when_it_is_entered() -> None:
    x, y = var("x", tensor(n)), var("y", tensor(m))
    p, q = var("p", tensor(n)), var("q", tensor(n))
    inner = function([p, q], call("add", p, q))
    f = var("f", inner.type)
    main = function([x, y], let(f, inner, call(f, x, y)))
    assert np.array_equal(run(main, x=f32(1), y=f32(2)), f32(3))
    with pytest.raises(
        Trap, match=r"parameter 'q' is 3, expected 2, the value of n by axis 0 of parameter 'x'"
    ) as caught:
        run(main, x=f32(1, 2), y=f32(1, 2, 3))
    assert caught.value.label == "func.T2"


@pytest.mark.row("R37")
def test_a_declared_result_holds_on_return() -> None:
    x, y = var("x", tensor(n)), var("y", tensor(m))
    main = function([x, y], y, tensor(n))
    assert np.array_equal(run(main, x=f32(1, 2), y=f32(3, 4)), f32(3, 4))
    with pytest.raises(Trap, match=r"axis 0 of result is 1, expected 2, the value of n") as caught:
        run(main, x=f32(1, 2), y=f32(3))
    assert caught.value.label == "func.T1"


@pytest.mark.row("R19")
def test_sizes_that_only_a_run_can_tell() -> None:
    """An extern whose result has a size of its own: every call gives a fresh one, and lets bind it."""
    k = Symbol("k")
    x = var("x", tensor(n))
    positive = g.extern("positive", [tensor(n)], tensor(k), pure=True)
    first, second = call(positive, x), call(positive, call("negative", x))
    a, b = var("a", first.type), var("b", second.type)
    assert isinstance(first.type, TensorType) and isinstance(second.type, TensorType)
    assert first.type.shape[0] is not second.type.shape[0]
    (size,) = first.type.shape
    main = function([x], let(a, first, let(b, second, tuple_of(a, b, zeros(size)))))
    kept = {"positive": lambda v: v[v > 0]}
    p, q, z = run(main, externs=kept, x=f32(1, -2, 3, -4, 5))
    assert (p.shape, q.shape, z.shape) == ((3,), (2,), (3,))


@pytest.mark.row("R19")
def test_shapes_are_values() -> None:
    x = var("x", tensor(n, m))
    s = var("s", ShapeType((n, m)))
    main = function([x], let(s, g.shape_of(x), tuple_of(s, g.shape(m * n, 4))))
    assert run(main, x=np.zeros((2, 3), np.float32)) == (Shape((2, 3)), Shape((6, 4)))
    k = Symbol("k")
    v = var("v", ShapeType((k, 3)))
    cast = function([x], let(v, g.match_cast(g.shape_of(x), ShapeType((k, 3))), zeros(k)))
    assert run(cast, x=np.zeros((2, 3), np.float32)).shape == (2,)
    with pytest.raises(Trap, match="axis 1 of the value is 4, expected 3"):
        run(cast, x=np.zeros((2, 4), np.float32))


@pytest.mark.row("R36")
@pytest.mark.parametrize("place", ["attribute", "shape", "cast"])
def test_a_size_has_a_value_where_it_is_used(place: str) -> None:
    x = var("x", tensor(n))
    late: dict[str, Expr] = {
        "attribute": zeros(m),
        "shape": g.shape(m),
        "cast": g.match_cast(x, tensor(m + 1)),
    }
    v = var("v", tensor(m))
    body = tuple_of(late[place], let(v, g.match_cast(x, tensor(m)), v))
    with pytest.raises(Invalid, match="the size m, which has no value") as caught:
        check(Module({"main": function([x], body)}))
    assert caught.value.label == "graph.C8"


def test_branches_may_differ_in_a_size() -> None:
    c, x, y = var("c", BOOL), var("x", tensor(n)), var("y", tensor(m))
    main = function([c, x, y], if_(c, x, y))
    assert run(main, c=np.array(True), x=f32(1), y=f32(1, 2)).shape == (1,)
    assert run(main, c=np.array(False), x=f32(1), y=f32(1, 2)).shape == (2,)
