"""A-normal form: names, local functions, effects, marks, devices, and functions that are not entered."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from assay.lower.anf import to_anf
from assay.lower.anf.names import FreshNames
from assay.semantics import graph as g
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.errors import Span
from assay.semantics.graph import (
    Call,
    Dataflow,
    Expr,
    Function,
    If,
    Let,
    Var,
    call,
    function,
    get,
    if_,
    let,
    tuple_of,
    var,
)
from assay.semantics.module import Module
from assay.semantics.types import UNIT, RefType
from assay.semantics.walk import post_order
from tests.lower.anf.anf_text import same_text, text
from tests.lower.anf.test_anf_pass import BIT, INT, UNARY, add, anf, div, number


def lets(body: Expr) -> list[Let]:
    found = []
    while isinstance(body, Let):
        found.append(body)
        body = body.body
    return found


# --- names --------------------------------------------------------------------------------------------------------


@pytest.mark.row("A10")
def test_names_are_unique_in_the_whole_function() -> None:
    """Parameters of inner functions, pattern variables and lets that share a name."""
    x, y, again, inner = var("x", INT), var("x", INT), var("x", INT), var("x", INT)
    f = function([y], let(again, add(y, y), again))
    matched = g.match(tuple_of(x, x), (g.Fields((g.Bind(inner), g.Wildcard())), add(inner, inner)))
    main = anf(function([x], add(call(f, x), matched)), {"x": np.int64(3)})
    assert same_text(
        main,
        """
        (x)
        lv0 = fn(x_1)
          body
            x_2 = add(x_1, x_1)
            -> x_2
        lv1 = lv0(x)
        lv2 = (x, x)
        lv4 = match lv2
          case x_3
            lv3 = add(x_3, x_3)
            -> lv3
        lv5 = add(lv1, lv4)
        -> lv5""",
    )


@pytest.mark.row("A10")
def test_made_names_avoid_those_of_the_source() -> None:
    x, lv0, later = var("x", INT), var("lv0", INT), var("lv1", INT)
    body = let(lv0, add(add(x, x), x), let(later, add(lv0, call("negative", lv0)), later))
    main = anf(function([x], body), {"x": np.int64(3)})
    assert [b.var.name for b in lets(main.body)] == ["lv2", "lv0", "lv3", "lv1"]


@pytest.mark.row("A10")
def test_a_generator_of_names() -> None:
    names = FreshNames(["a", "a_1", "lv1"])
    assert [names.claim("a"), names.claim("a"), names.claim("a"), names.claim("b")] == ["a", "a_2", "a_3", "b"]
    assert [names.fresh(), names.fresh(), names.claim("lv2"), names.fresh()] == ["lv0", "lv2", "lv2_1", "lv3"]
    assert FreshNames().claim("") == "lv_1"


@pytest.mark.row("A3")
def test_a_name_for_what_has_one_is_an_alias() -> None:
    x, v, w = var("x", INT), var("v", INT), var("w", INT)
    s = add(x, x)
    main = anf(function([x], tuple_of(let(v, s, v), let(w, s, add(w, w)), s)), {"x": np.int64(3)})
    assert same_text(
        main,
        """
        (x)
        v = add(x, x)
        w = v
        lv0 = add(w, w)
        lv1 = (v, lv0, v)
        -> lv1""",
    )


def test_an_alias_stands_where_its_uses_can_see_it() -> None:
    """The let can fail and is bound twice; its value cannot, and neither can the sum that needs the alias."""
    x, y, c, v = var("x", INT), var("y", INT), var("c", BIT), var("v", INT)
    s = call("negative", x)
    shared = let(v, s, div(add(v, v), y))
    main = function([x, y, c], add(s, if_(c, shared, call("negative", shared))))
    runs = [{"x": np.int64(3), "y": np.int64(y), "c": np.array(c)} for y in (0, 2) for c in (False, True)]
    assert same_text(
        anf(main, *runs),
        """
        (x, y, c)
        lv0 = negative(x)
        v = lv0
        lv1 = add(v, v)
        lv5 = if c
          then
            lv2 = floor_divide(lv1, y)
            -> lv2
          else
            lv3 = floor_divide(lv1, y)
            lv4 = negative(lv3)
            -> lv4
        lv6 = add(lv0, lv5)
        -> lv6""",
    )


@pytest.mark.row("A3")
def test_a_form_that_is_normal_stays_as_it_is() -> None:
    x, y, c, v = var("x", INT), var("y", INT), var("c", BIT), var("v", INT)
    once = anf(function([x, y, c], if_(c, let(v, div(x, y), add(v, number(2))), call("negative", add(x, x)))))
    twice = anf(once)
    assert text(once) == text(twice)


# --- local functions ----------------------------------------------------------------------------------------------


@pytest.mark.row("A4")
def test_a_local_function_calls_itself_by_the_name_of_its_let() -> None:
    n, k, r, f = var("n", INT), var("k", INT), var("r", INT), var("f", g.FuncType((INT, INT), INT))
    one = number(1)
    again = call(f, call("subtract", k, one), call("multiply", r, k))
    body = function([k, r], if_(call("less_equal", k, one), r, again))
    main = anf(function([n], let(f, body, call(f, n, one))), {"n": np.int64(10)})
    assert same_text(
        main,
        """
        (n)
        lv0 = 1
        f = fn(k, r)
          body
            lv1 = less_equal(k, lv0)
            lv5 = if lv1
              then
                -> r
              else
                lv2 = subtract(k, lv0)
                lv3 = multiply(r, k)
                lv4 = f(lv2, lv3)
                -> lv4
            -> lv5
        lv6 = f(n, lv0)
        -> lv6""",
    )


def test_what_names_a_function_inside_and_outside_of_it_is_bound_twice() -> None:
    """The pair needs f, and f's body needs the pair: no one place is after f and before its body."""
    n, k, f = var("n", INT), var("k", INT), var("f", UNARY)
    pair = tuple_of(f, n)
    body = function([k], if_(call("less", k, n), k, call(get(pair, 0), call("subtract", k, get(pair, 1)))), INT)
    main = anf(function([n], let(f, body, call(get(pair, 0), number(7)))), {"n": np.int64(3)})
    assert same_text(
        main,
        """
        (n)
        f = fn(k)
          body
            lv0 = less(k, n)
            lv6 = if lv0
              then
                -> k
              else
                lv1 = (f, n)
                lv2 = lv1.0
                lv3 = lv1.1
                lv4 = subtract(k, lv3)
                lv5 = lv2(lv4)
                -> lv5
            -> lv6
        lv7 = (f, n)
        lv8 = lv7.0
        lv9 = 7
        lv10 = lv8(lv9)
        -> lv10""",
    )


# --- actions ------------------------------------------------------------------------------------------------------


@pytest.mark.row("A8")
def test_actions_keep_their_places_and_operands_go_left_to_right() -> None:
    """What C++ leaves open in TVM: the order inside an If's parts and inside a write."""
    r, c, u = var("r", RefType(INT)), var("c", BIT), var("u", UNIT)
    wrote = let(u, g.write(r, add(g.read(r), number(5))), g.read(r))
    body = let(r, g.ref(number(1)), call("subtract", g.read(r), if_(c, wrote, g.read(r))))
    main = anf(function([c], body), {"c": np.array(True)}, {"c": np.array(False)})
    assert same_text(
        main,
        """
        (c)
        lv0 = 1
        r = ref(lv0)
        lv1 = read(r)
        lv7 = if c
          then
            lv2 = read(r)
            lv3 = 5
            lv4 = add(lv2, lv3)
            u = write(r, lv4)
            lv5 = read(r)
            -> lv5
          else
            lv6 = read(r)
            -> lv6
        lv8 = subtract(lv1, lv7)
        -> lv8""",
    )


@pytest.mark.row("A8")
def test_an_effect_that_nobody_uses_stays_and_total_values_may_come_before_it() -> None:
    x, c, u = var("x", INT), var("c", BIT), var("u", UNIT)
    e = add(x, x)
    main = function([x, c], if_(c, let(u, g.print_(x), e), e))
    assert same_text(
        anf(main, *({"x": np.int64(3), "c": np.array(c)} for c in (False, True))),
        """
        (x, c)
        lv0 = add(x, x)
        lv1 = if c
          then
            u = print(x)
            -> lv0
          else
            -> lv0
        -> lv1""",
    )


@pytest.mark.row("A8")
def test_each_clause_is_a_block() -> None:
    x, y, p, q = var("x", INT), var("y", INT), var("p", INT), var("q", INT)
    e = div(x, y)
    first = (g.Fields((g.Bind(p), g.Wildcard())), add(p, e))
    second = (g.Fields((g.Wildcard(), g.Bind(q))), call("multiply", e, q))
    main = anf(function([x, y], g.match(tuple_of(x, y), first, second)), {"x": np.int64(3), "y": np.int64(0)})
    assert same_text(
        main,
        """
        (x, y)
        lv0 = (x, y)
        lv5 = match lv0
          case p
            lv1 = floor_divide(x, y)
            lv2 = add(p, lv1)
            -> lv2
          case q
            lv3 = floor_divide(x, y)
            lv4 = multiply(lv3, q)
            -> lv4
        -> lv5""",
    )


# --- marks, devices, places ---------------------------------------------------------------------------------------


def test_a_dataflow_block_takes_what_its_lets_are_made_of() -> None:
    x, a, b, c = (var(n, INT) for n in "xabc")
    block = Dataflow()
    body = let(
        a, add(add(x, x), x), let(b, call("negative", call("negative", a)), let(c, add(a, b), c)), dataflow=block
    )
    assert isinstance(body.body, Let)
    marked = let(a, body.value, let(b, body.body.value, body.body.body, dataflow=block), dataflow=block)
    main = anf(function([x], marked))
    assert same_text(
        main,
        """
        (x)
        lv0* = add(x, x)
        a* = add(lv0, x)
        lv1* = negative(a)
        b* = negative(lv1)
        c = add(a, b)
        -> c""",
    )
    assert {b.dataflow for b in lets(main.body)} == {block, None}


def test_a_dataflow_block_that_is_bound_twice_is_two() -> None:
    x, y, c, a = var("x", INT), var("y", INT), var("c", BIT), var("a", INT)
    shared = let(a, div(x, y), add(a, a), dataflow=Dataflow())
    main = anf(function([x, y, c], if_(c, shared, call("negative", shared))))
    assert isinstance(main.body, Let) and isinstance(main.body.value, If)
    then, otherwise = lets(main.body.value.then), lets(main.body.value.otherwise)
    assert then[0].dataflow and otherwise[0].dataflow and then[0].dataflow is not otherwise[0].dataflow
    assert [b.dataflow is None for b in then] == [False, True]


@pytest.mark.row("A7")
def test_devices_and_places_stay_on_the_variable_and_the_value() -> None:
    x, v = var("x", INT), Var(INT, "v", device=VirtualDevice(type="cpu"), span=Span("model", "v"))
    at, gpu = Span("model", "node 3"), VirtualDevice(type="cuda", id=1)
    e = add(x, x)
    placed = Call(e.type, e.op, e.args, e.attrs, device=gpu, span=at)
    f = call("negative", placed)
    named = Call(f.type, f.op, f.args, f.attrs, span=Span("model", "f"))
    first, second = lets(anf(function([x], let(v, named, v))).body)
    assert (first.var.device, first.value.device, first.var.span, first.value.span) == (gpu, gpu, at, at)
    assert (second.var.device.type, second.value.device) == ("cpu", ANYWHERE)
    assert (second.var.span, second.value.span) == (Span("model", "v"), Span("model", "f"))
    # a variable that says nothing lives where its value does
    free = var("v", INT)
    (only,) = lets(anf(function([x], let(free, placed, free))).body)
    assert only.var.device == gpu and only.var.name == "v"


# --- functions that are not entered -------------------------------------------------------------------------------


@pytest.mark.row("A6")
@pytest.mark.parametrize("mark", ["primitive", "compiler"])
def test_a_marked_function_is_bound_and_stays_whole(mark: str) -> None:
    x, y, v = var("x", INT), var("y", INT), var("v", INT)
    shared = add(x, x)
    inner = add(add(y, shared), v)
    body = let(v, call("negative", x), tuple_of(call(function([y], inner, None, **{mark: "yes"}), x), shared))
    main = anf(function([x], body), {"x": np.int64(3)})
    assert same_text(
        main,
        """
        (x)
        v = negative(x)
        lv0 = fn(y)
        lv1 = lv0(x)
        lv2 = add(x, x)
        lv3 = (lv1, lv2)
        -> lv3""",
    )
    (kept,) = [b.value for b in lets(main.body) if isinstance(b.value, Function)]
    assert kept.body is inner
    assert all(b.value is not shared for b in lets(main.body)), "two places share no node"
    root = function([y], add(y, y), None, **{mark: "yes"})
    assert to_anf(Module({"main": root})).main is root


@pytest.mark.row("A6")
def test_a_marked_function_that_is_bound_twice_is_copied() -> None:
    """Its variable from outside is another one in the second branch, and its own variables are others too."""
    x, y, c, v, p, w = var("x", INT), var("y", INT), var("c", BIT), var("v", INT), var("p", INT), var("w", INT)
    whole = function([p], let(w, add(p, v), add(w, w)), None, primitive=True)
    shared = let(v, div(x, y), call(whole, x))
    runs = [{"x": np.int64(3), "y": np.int64(y), "c": np.array(c)} for y in (0, 2) for c in (False, True)]
    main = anf(function([x, y, c], if_(c, shared, call("negative", shared))), *runs)
    assert isinstance(main.body, Let) and isinstance(main.body.value, If)
    first, second = (
        next(b.value for b in lets(body) if isinstance(b.value, Function))
        for body in (main.body.value.then, main.body.value.otherwise)
    )
    assert first is whole and second.params[0] is not p and second.params[0].name == "p"
    assert [u.name for u in g.free_variables(first)] == ["v"] and [u.name for u in g.free_variables(second)] == ["v_1"]


@pytest.mark.row("A6")
def test_a_marked_function_is_copied_where_one_of_its_variables_has_another_name() -> None:
    """Of two variables from outside the second is bound again; the first is what it was."""
    x, y, c, v, p, q = (var(n, INT if n != "c" else BIT) for n in "xycvpq")
    whole = function([p], add(add(p, x), v), None, primitive=True)
    twice = function([q], add(add(q, x), v), None, primitive=True)
    shared = let(v, div(x, y), tuple_of(call(whole, x), call(twice, x)))
    runs = [{"x": np.int64(3), "y": np.int64(y), "c": np.array(c)} for y in (0, 2) for c in (False, True)]
    main = anf(function([x, y, c], get(if_(c, shared, tuple_of(get(shared, 1), get(shared, 0))), 0)), *runs)
    found = lets(main.body)
    assert isinstance(found[0].value, If)
    outside = [
        [[u.name for u in g.free_variables(b.value)] for b in lets(body) if isinstance(b.value, Function)]
        for body in (found[0].value.then, found[0].value.otherwise)
    ]
    assert outside == [[["x", "v"], ["x", "v"]], [["x", "v_1"], ["x", "v_1"]]]


@pytest.mark.row("A6")
def test_a_marked_function_sees_the_new_name_of_one_of_its_variables() -> None:
    x, v, w, p = var("x", INT), var("v", INT), var("v", INT), var("p", INT)
    whole = function([p], add(add(p, x), w), None, primitive=True)
    main = anf(function([x], let(v, call("negative", x), let(w, add(v, x), call(whole, v)))), {"x": np.int64(3)})
    (kept,) = [b.value for b in lets(main.body) if isinstance(b.value, Function)]
    assert [u.name for u in g.free_variables(kept)] == ["x", "v_1"]


@pytest.mark.row("A7")
def test_a_let_is_where_its_body_is_now_and_not_where_its_old_body_was() -> None:
    """A let as the value of another: its own body was on the cpu, what follows it now is on the gpu."""
    cpu, gpu = VirtualDevice(type="cpu"), VirtualDevice(type="cuda", id=1)
    x, v, w = var("x", INT), var("v", INT), var("w", INT)

    def at(device: VirtualDevice, e: Expr) -> Expr:
        return replace(e, device=device)

    inner = at(cpu, let(v, at(cpu, add(x, x)), at(cpu, call("negative", v))))
    main = anf(function([x], at(gpu, let(w, inner, at(gpu, call("negative", w))))))
    assert [(b.var.name, b.device) for b in lets(main.body)] == [("v", gpu), ("w", gpu), ("lv0", gpu)]
    # where the body says nothing, a let of the source says it itself, and so does what is made for it
    silent = anf(function([x], at(cpu, let(v, add(add(x, x), x), v))))
    assert [b.device for b in lets(silent.body)] == [cpu, cpu]


def test_a_dataflow_block_inside_a_marked_function_is_another_one() -> None:
    """It is bound twice, and copied: three blocks that are alike are three."""
    x, y, c, v, w, p = (var(n, INT if n != "c" else BIT) for n in "xycvwp")
    block = Dataflow()
    whole = function([p], let(w, add(p, v), add(w, w), dataflow=block), None, primitive=True)
    shared = let(v, div(x, y), call(whole, x))
    main = anf(function([x, y, c], if_(c, shared, call("negative", shared))))
    found = [n.dataflow for n in post_order(main) if isinstance(n, Let) and n.dataflow is not None]
    assert len(found) == 2 and found[0] is not found[1]
