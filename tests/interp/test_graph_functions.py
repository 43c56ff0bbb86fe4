"""The evaluator of the graph IR: functions, data types and scopes, by rules M2 and M3."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from assay.semantics import graph as g
from assay.semantics.errors import Invalid, Trap
from assay.semantics.graph import Expr, Function, GlobalVar, call, constant, function, if_, let, tuple_of, var
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.scalar import Var as Symbol
from assay.semantics.types import DataDef, DataType, FuncType, TypeVar
from tests.interp.small import BOOL, SCALAR, f32, n, number, run, run_module, tensor
from tests.scale import MANY

# --- functions ----------------------------------------------------------------------------------------------------


@pytest.mark.row("R16", "J18")
def test_closures_and_functions_of_functions() -> None:
    x, y = var("x", SCALAR), var("y", SCALAR)
    unary = FuncType((SCALAR,), SCALAR)
    f, p, q = var("f", unary), var("p", SCALAR), var("q", SCALAR)
    twice = function([f], function([p], call(f, call(f, p))))
    add_y = function([q], call("add", q, y))
    assert run(function([x, y], call(call(twice, add_y), x)), x=np.float32(1), y=np.float32(10)) == 21.0


@pytest.mark.row("A4", "R16")
def test_a_local_function_calls_itself() -> None:
    """sum 0..i by a let-bound function."""
    i, total = var("i", tensor(of="int32")), var("total", tensor(of="int32"))
    of = FuncType((i.type, total.type), total.type)
    loop = var("loop", of)
    one, zero = constant(np.int32(1)), constant(np.int32(0))
    body = if_(call("equal", i, zero), total, call(loop, call("subtract", i, one), call("add", total, i)))
    x = var("x", i.type)
    main = function([x], let(loop, function([i, total], body, total.type), call(loop, x, zero)))
    for count, want in ((0, 0), (1, 1), (10, 55), (1000, 500500)):
        assert run(main, x=np.int32(count)) == want


@pytest.mark.row("R17")
def test_functions_of_the_module_call_each_other() -> None:
    """Parity by mutual recursion."""
    of = FuncType((tensor(of="int32"),), BOOL)
    one, zero = constant(np.int32(1)), constant(np.int32(0))

    def parity(name: str, other: str, at_zero: bool) -> Function:
        i = var("i", tensor(of="int32"))
        rest = call(GlobalVar(of, other), call("subtract", i, one))
        return function([i], if_(call("equal", i, zero), constant(np.array(at_zero)), rest), BOOL)

    x = var("x", tensor(of="int32"))
    module = Module({
        "even": parity("even", "odd", True),
        "odd": parity("odd", "even", False),
        "main": function([x], call(GlobalVar(of, "even"), x)),
    })  # fmt: skip
    for i in (0, 1, 2, 7, 200):
        assert bool(run_module(module, x=np.int32(i))) is (i % 2 == 0)


@pytest.mark.row("J15")
def test_a_loop_whose_state_grows() -> None:
    """recursive_concat of the old systems: (1, 1) grows to (11, 1)."""
    state = var("state", tensor(n, 1))
    i = var("i", tensor(of="int32"))
    result = tensor(Symbol("k"), 1)
    of = FuncType((i.type, state.type), result)
    loop = var("loop", of)
    grown = call("concat", state, constant(np.ones((1, 1), np.float32)), axis=0)
    body = if_(
        call("equal", i, constant(np.int32(0))), state, call(loop, call("subtract", i, constant(np.int32(1))), grown)
    )
    x = var("x", tensor(1, 1))
    main = function([x], let(loop, function([i, state], body, result), call(loop, constant(np.int32(10)), x)))
    assert run(main, x=np.ones((1, 1), np.float32)).shape == (11, 1)


def test_the_type_of_a_growing_loop_is_checked() -> None:
    """recursive_concat_with_wrong_annotation: the state is annotated (1, 1)."""
    state, i = var("state", tensor(1, 1)), var("i", tensor(of="int32"))
    loop = var("loop", FuncType((i.type, state.type), tensor(1, 1)))
    grown = call("concat", state, constant(np.ones((1, 1), np.float32)), axis=0)
    with pytest.raises(
        Invalid, match=r"argument 1 is Tensor\(\(2, 1\), float32\), expected Tensor\(\(1, 1\)"
    ) as caught:
        call(loop, i, grown)
    assert caught.value.label == "call.C7"


def test_functions_of_any_type() -> None:
    t = TypeVar("t")
    p = var("p", t)
    identity = function([p], p, type_params=[t])
    x = var("x", tensor(n))
    f = var("f", identity.type)
    pair = tuple_of(call(f, x), call(f, constant(np.int32(3))))
    a, b = run(function([x], let(f, identity, pair)), x=f32(1, 2))
    assert np.array_equal(a, f32(1, 2)) and b == 3


def test_recursion_is_as_deep_as_it_is() -> None:
    i = var("i", tensor(of="int32"))
    loop = var("loop", FuncType((i.type,), i.type))
    one = constant(np.int32(1))
    down = call("add", call(loop, call("subtract", i, one)), one)
    body = if_(call("equal", i, constant(np.int32(0))), i, down)
    x = var("x", i.type)
    main = function([x], let(loop, function([i], body, i.type), call(loop, x)))
    assert run(main, x=np.int32(MANY)) == MANY


# --- data types ---------------------------------------------------------------------------------------------------

A = TypeVar("A")
LIST = DataDef("List", (A,), {"nil": (), "cons": (A, DataType("List", (A,)))})
NUMBERS = DataType("List", (SCALAR,))
NIL, CONS = g.constructor(LIST, "nil"), g.constructor(LIST, "cons")


def numbers(*values: float) -> Expr:
    found: Expr = call(NIL, type_args=(SCALAR,))
    for v in reversed(values):
        found = call(CONS, number(v), found)
    return found


def python_list(value: Any) -> list[float]:
    out = []
    while value.constructor == "cons":
        out.append(float(value.fields[0]))
        value = value.fields[1]
    return out


def doubled() -> Function:
    """Every element of a list, doubled; recursive."""
    xs = var("xs", NUMBERS)
    h, t = var("h", SCALAR), var("t", NUMBERS)
    rest = call(GlobalVar(FuncType((NUMBERS,), NUMBERS), "doubled"), t)
    some = call(CONS, call("add", h, h), rest)
    cons = g.Made(CONS, (g.Bind(h), g.Bind(t)))
    return function([xs], g.match(xs, (g.Made(NIL, ()), xs), (cons, some)), NUMBERS)


@pytest.mark.row("A8", "J18")
def test_data_is_made_and_matched() -> None:
    of = FuncType((NUMBERS,), NUMBERS)
    main = function([], call(GlobalVar(of, "doubled"), numbers(1, 2, 3)))
    module = Module({"List": LIST, "doubled": doubled(), "main": main})
    assert python_list(run_module(module)) == [2, 4, 6]


def test_the_first_clause_that_matches_is_taken() -> None:
    xs, x = var("xs", NUMBERS), var("x", SCALAR)
    one = g.Made(CONS, (g.Bind(x), g.Made(NIL, ())))
    body = g.match(xs, (one, x), (g.Wildcard(), number(-1)))
    for values, want in (((5.0,), 5.0), ((5.0, 6.0), -1.0), ((), -1.0)):
        main = function([], let(xs, numbers(*values), body))
        assert run_module(Module({"List": LIST, "main": main})) == want


def test_tuples_are_matched() -> None:
    x, y, a, b = (var(name, SCALAR) for name in "xyab")
    pair = tuple_of(x, y)
    main = function([x, y], g.match(pair, (g.Fields((g.Bind(a), g.Bind(b))), call("subtract", b, a))))
    assert run(main, x=np.float32(1), y=np.float32(5)) == 4.0


def test_a_match_covers_every_value_or_says_that_it_is_partial() -> None:
    xs, h = var("xs", NUMBERS), var("h", SCALAR)
    cons = g.Made(CONS, (g.Bind(h), g.Wildcard()))
    for partial in (False, True):
        body = g.match(xs, (cons, h), partial=partial)
        module = Module({"List": LIST, "main": function([], let(xs, numbers(), body))})
        if partial:
            with pytest.raises(Trap) as trapped:
                run_module(module)
            assert trapped.value.kind == "match" and trapped.value.label == "match.T1"
        else:
            with pytest.raises(Invalid) as caught:
                check(module)
            assert caught.value.label == "match.C5"


def test_only_the_clause_that_matches_is_evaluated() -> None:
    xs = var("xs", NUMBERS)
    fails = call("take", constant(f32(1)), constant(np.int64(7)), axis=0)
    body = g.match(xs, (g.Made(NIL, ()), number(0)), (g.Wildcard(), fails))
    module = Module({"List": LIST, "main": function([], let(xs, numbers(), body))})
    assert run_module(module) == 0.0


@pytest.mark.parametrize(
    ("label", "data"),
    [
        ("module.C4", DataDef("D", (), {"c": (DataType("E"),)})),
        ("data.C2", DataDef("D", (A,), {"c": (DataType("D", ()),)})),
        ("data.C3", DataDef("D", (), {"c": (A,)})),
    ],
)
def test_ill_formed_data_types(label: str, data: DataDef) -> None:
    with pytest.raises(Invalid) as caught:
        check(Module({"D": data, "main": function([], number(1))}))
    assert caught.value.label == label


# --- scopes -------------------------------------------------------------------------------------------------------


def outside_its_let() -> Expr:
    v = var("v", SCALAR)
    return tuple_of(let(v, number(1), v), v)


def outside_its_function() -> Expr:
    p = var("p", SCALAR)
    return tuple_of(function([p], p), p)


def outside_its_clause() -> Expr:
    a = var("a", SCALAR)
    return tuple_of(g.match(tuple_of(number(1)), (g.Fields((g.Bind(a),)), a)), a)


def in_its_own_value() -> Expr:
    v = var("v", SCALAR)
    return let(v, call("add", v, v), v)


def shared_body() -> Expr:
    v = var("v", SCALAR)
    inside = call("add", v, v)
    return tuple_of(let(v, number(1), inside), inside)


@pytest.mark.parametrize(
    "make", [outside_its_let, outside_its_function, outside_its_clause, in_its_own_value, shared_body]
)
def test_a_variable_is_used_where_it_is_bound(make: Any) -> None:
    with pytest.raises(Invalid) as caught:
        check(Module({"main": function([], make())}))
    assert caught.value.label == "graph.C1"


def test_a_variable_is_bound_once() -> None:
    v = var("v", SCALAR)
    with pytest.raises(Invalid, match="bound twice") as caught:
        check(Module({"main": function([], let(v, number(1), let(v, number(2), v)))}))
    assert caught.value.label == "graph.C6"


@pytest.mark.row("R22")
def test_every_broken_rule_has_its_message() -> None:
    from assay.semantics.rules import broken

    v, w = var("v", SCALAR), var("w", SCALAR)
    both = tuple_of(v, let(w, number(1), w), w, g.GlobalVar(SCALAR, "nowhere"))
    found = [wrong.label for wrong in broken(Module({"main": function([], both)}))]
    assert found == ["graph.C2", "graph.C1", "graph.C1"]
