"""A-normal form: the cases of the old systems, each rule of "anf" in specs/lower.md, with the exact bindings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from assay.lower.anf import to_anf
from assay.semantics import graph as g
from assay.semantics.devices import VirtualDevice
from assay.semantics.dtypes import BOOL, INT64
from assay.semantics.graph import (
    Call,
    Expr,
    Function,
    GlobalVar,
    Let,
    call,
    constant,
    function,
    if_,
    let,
    tuple_of,
    var,
)
from assay.semantics.module import Definition, Module
from assay.semantics.rules import check
from assay.semantics.types import UNIT, DataDef, DataType, FuncType, RefType, TensorType
from tests.lower.anf.anf_text import same_text
from tests.observation import observe

INT, BIT = TensorType((), INT64), TensorType((), BOOL)
UNARY = FuncType((INT,), INT)
NAT = DataDef("Nat", (), {"z": (), "s": (DataType("Nat"),)})


def number(value: int) -> Expr:
    return constant(np.int64(value))


def add(a: Expr, b: Expr) -> Call:
    return call("add", a, b)


def div(a: Expr, b: Expr) -> Call:
    """It traps where b is 0."""
    return call("floor_divide", a, b)


def anf(main: Function, *runs: dict[str, Any], **others: Definition) -> Function:
    """`main` in A-normal form. Source and target are well-formed, and every run tells them the same."""
    module = Module({"main": main, **others})
    check(module)
    target = to_anf(module)
    check(target)
    for inputs in runs:
        assert observe(module, inputs).difference(observe(target, inputs)) is None
    return target.main


def result(main: Function, **others: Definition) -> Any:
    """The value of a function without parameters, the same before and after."""
    module = Module({"main": main, **others})
    before, after = observe(module, {}), observe(to_anf(module), {})
    assert before.difference(after) is None
    assert before.values is not None
    return before.values["output_0"]


# --- the cases of the old systems ---------------------------------------------------------------------------------


@pytest.mark.row("A1", "A5")
def test_explicit_bound() -> None:
    x = number(1)
    y = add(x, x)
    z = add(y, y)
    main = function([], add(z, z))
    assert result(main) == 8
    assert same_text(
        anf(main),
        """
        ()
        lv0 = 1
        lv1 = add(lv0, lv0)
        lv2 = add(lv1, lv1)
        lv3 = add(lv2, lv2)
        -> lv3""",
    )


@pytest.mark.row("A2")
def test_order() -> None:
    main = function([], add(number(1), call("multiply", number(2), number(3))))
    assert result(main) == 7
    assert same_text(
        anf(main),
        """
        ()
        lv0 = 1
        lv1 = 2
        lv2 = 3
        lv3 = multiply(lv1, lv2)
        lv4 = add(lv0, lv3)
        -> lv4""",
    )


@pytest.mark.row("A1")
def test_if() -> None:
    c = constant(np.array(True))
    main = function([], tuple_of(if_(c, add(number(2), number(3)), number(4)), c))
    assert same_text(
        anf(main, {}),
        """
        ()
        lv0 = True
        lv5 = if lv0
          then
            lv1 = 2
            lv2 = 3
            lv3 = add(lv1, lv2)
            -> lv3
          else
            lv4 = 4
            -> lv4
        lv6 = (lv5, lv0)
        -> lv6""",
    )


@pytest.mark.row("A3", "A7")
def test_let_as_subexpr() -> None:
    cpu = VirtualDevice(type="cpu", id=0)
    c = number(2)
    total = add(c, c)
    placed = Call(total.type, total.op, total.args, total.attrs, device=cpu)
    x = var("x", INT)
    inner = let(x, placed, x)
    main = anf(function([], call("multiply", inner, inner)), {})
    assert same_text(
        main,
        """
        ()
        lv0 = 2
        x = add(lv0, lv0)
        lv1 = multiply(x, x)
        -> lv1""",
    )
    assert isinstance(main.body, Let) and isinstance(main.body.body, Let)
    bound = main.body.body
    assert bound.var.device == cpu and bound.value.device == cpu and main.body.var.device != cpu


@pytest.mark.row("A4")
def test_recursion() -> None:
    """f(n) = 0 if n is 0, else 2 n + f(n - 1)."""
    n = var("n", INT)
    f = GlobalVar(UNARY, "f")
    again = add(call("multiply", n, number(2)), call(f, call("subtract", n, number(1))))
    definition = function([n], if_(call("equal", n, number(0)), number(0), again), INT)
    assert result(function([], call(f, number(5))), f=definition) == 30
    target = to_anf(Module({"f": definition, "main": function([], call(f, number(5)))}))
    body = target.definitions["f"]
    assert isinstance(body, Function)
    assert same_text(
        body,
        """
        (n)
        lv0 = 0
        lv1 = equal(n, lv0)
        lv9 = if lv1
          then
            lv2 = 0
            -> lv2
          else
            lv3 = 2
            lv4 = multiply(n, lv3)
            lv5 = 1
            lv6 = subtract(n, lv5)
            lv7 = f(lv6)
            lv8 = add(lv4, lv7)
            -> lv8
        -> lv9""",
    )


@pytest.mark.row("A8")
def test_ref() -> None:
    i, iv, u = var("i", RefType(INT)), var("iv", INT), var("u", UNIT)
    body = let(i, g.ref(number(1)), let(iv, g.read(i), let(u, g.write(i, number(2)), add(iv, g.read(i)))))
    main = function([], body)
    assert result(main) == 3
    assert same_text(
        anf(main),
        """
        ()
        lv0 = 1
        i = ref(lv0)
        iv = read(i)
        lv1 = 2
        u = write(i, lv1)
        lv2 = read(i)
        lv3 = add(iv, lv2)
        -> lv3""",
    )


def nat(count: int) -> Expr:
    made: Expr = call(g.constructor(NAT, "z"))
    for _ in range(count):
        made = call(g.constructor(NAT, "s"), made)
    return made


def nat_functions() -> dict[str, Definition]:
    """Addition of Peano numbers, and what number one is."""
    x, y, k, m, j = (var(v, NAT.type) for v in "xykmj")
    plus = GlobalVar(FuncType((NAT.type, NAT.type), NAT.type), "plus")
    count = GlobalVar(FuncType((NAT.type,), INT), "count")
    z, s = g.constructor(NAT, "z"), g.constructor(NAT, "s")
    added = g.match(x, (g.Made(z, ()), y), (g.Made(s, (g.Bind(k),)), call(s, call(plus, k, y))))
    counted = g.match(m, (g.Made(z, ()), number(0)), (g.Made(s, (g.Bind(j),)), add(number(1), call(count, j))))
    return {"Nat": NAT, "plus": function([x, y], added, NAT.type), "count": function([m], counted, INT)}


@pytest.mark.row("A8")
def test_nat_add() -> None:
    functions = nat_functions()
    plus, count = functions["plus"], functions["count"]
    assert isinstance(plus, Function) and isinstance(count, Function)
    body = call(GlobalVar(count.type, "count"), call(GlobalVar(plus.type, "plus"), nat(1), nat(1)))
    assert result(function([], body), **functions) == 2
    target = to_anf(Module({"main": function([], body), **functions})).definitions["plus"]
    assert isinstance(target, Function)
    assert same_text(
        target,
        """
        (x, y)
        lv2 = match x
          case
            -> y
          case k
            lv0 = plus(k, y)
            lv1 = s(lv0)
            -> lv1
        -> lv2""",
    )


@pytest.mark.row("A3")
def test_let() -> None:
    x, y = var("x", INT), var("y", INT)
    body = let(x, number(4), let(y, x, add(x, y)))
    assert result(function([], body)) == 8
    assert same_text(
        anf(function([], body)),
        """
        ()
        x = 4
        y = x
        lv0 = add(x, y)
        -> lv0""",
    )


def test_function() -> None:
    x = var("x", INT)
    main = function([], call(function([x], add(x, x)), number(4)))
    assert result(main) == 8
    assert same_text(
        anf(main),
        """
        ()
        lv1 = fn(x)
          body
            lv0 = add(x, x)
            -> lv0
        lv2 = 4
        lv3 = lv1(lv2)
        -> lv3""",
    )


# --- total values: the lowest block around all uses ----------------------------------------------------------------


@pytest.mark.row("A1")
def test_what_both_branches_share_is_bound_before_the_if_when_it_is_demanded_first() -> None:
    x, c = var("x", INT), var("c", BIT)
    e, other = add(x, x), call("negative", x)
    main = function([x, c], tuple_of(if_(c, add(e, other), e), other))
    assert same_text(
        anf(main, *({"x": np.int64(3), "c": np.array(c)} for c in (False, True))),
        """
        (x, c)
        lv0 = add(x, x)
        lv1 = negative(x)
        lv3 = if c
          then
            lv2 = add(lv0, lv1)
            -> lv2
          else
            -> lv0
        lv4 = (lv3, lv1)
        -> lv4""",
    )


@pytest.mark.row("A1")
def test_what_one_branch_needs_stays_there() -> None:
    """The first definition of TVM hoisted it (its issue 2253)."""
    x, c, d = var("x", INT), var("c", BIT), var("d", BIT)
    e = add(x, x)
    main = function([x, c, d], if_(c, if_(d, e, call("negative", e)), x))
    assert same_text(
        anf(main),
        """
        (x, c, d)
        lv3 = if c
          then
            lv0 = add(x, x)
            lv2 = if d
              then
                -> lv0
              else
                lv1 = negative(lv0)
                -> lv1
            -> lv2
          else
            -> x
        -> lv3""",
    )


@pytest.mark.row("A1")
def test_a_value_shared_by_two_function_bodies_is_evaluated_outside_once() -> None:
    x, y, z = var("x", INT), var("y", INT), var("z", INT)
    e = call("negative", x)
    main = function([x], add(call(function([y], add(y, e)), x), call(function([z], add(e, z)), x)))
    assert same_text(
        anf(main, {"x": np.int64(2)}),
        """
        (x)
        lv0 = negative(x)
        lv2 = fn(y)
          body
            lv1 = add(y, lv0)
            -> lv1
        lv3 = lv2(x)
        lv5 = fn(z)
          body
            lv4 = add(lv0, z)
            -> lv4
        lv6 = lv5(x)
        lv7 = add(lv3, lv6)
        -> lv7""",
    )


def test_a_function_that_branches_share_is_one_function() -> None:
    x, c, y = var("x", INT), var("c", BIT), var("y", INT)
    f = function([y], div(y, x))
    main = function([x, c], if_(c, call(f, x), call(f, add(x, x))))
    assert same_text(
        anf(main, {"x": np.int64(0), "c": np.array(True)}),
        """
        (x, c)
        lv1 = fn(y)
          body
            lv0 = floor_divide(y, x)
            -> lv0
        lv5 = if c
          then
            lv2 = lv1(x)
            -> lv2
          else
            lv3 = add(x, x)
            lv4 = lv1(lv3)
            -> lv4
        -> lv5""",
    )
