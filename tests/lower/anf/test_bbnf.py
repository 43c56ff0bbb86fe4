"""Basic-block normal form and its checker: the cases of the old systems, and order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from assay.lower.anf.bbnf import to_bbnf
from assay.semantics import graph as g
from assay.semantics.errors import Span
from assay.semantics.graph import Expr, Function, GlobalVar, Var, call, constant, function, if_, let, tuple_of, var
from assay.semantics.module import Definition, Module
from assay.semantics.rules import check
from assay.semantics.types import UNIT, FuncType, RefType
from assay.verify.anf.bbnf import why_not_bbnf
from tests.lower.anf.anf_text import same_text
from tests.lower.anf.test_anf_pass import BIT, INT, UNARY, add, div, nat, nat_functions, number
from tests.observation import observe

pytestmark = pytest.mark.row("A9")


def bbnf(main: Function, *runs: dict[str, Any], **others: Definition) -> Function:
    """`main` in the form. Both are well-formed, the result is in the form, and every run tells them the same."""
    module = Module({"main": main, **others})
    check(module)
    target = to_bbnf(module)
    check(target)
    for d in target.definitions.values():
        assert not isinstance(d, Function) or not why_not_bbnf(d)
    for inputs in runs:
        assert observe(module, inputs).difference(observe(target, inputs)) is None
    return target.main


def bits(**others: int) -> list[dict[str, Any]]:
    """Inputs for both values of c, and of d where there is one."""
    numbers = {k: np.int64(v) for k, v in others.items() if k != "d"}
    both = [{"c": np.array(c), "d": np.array(d)} for c in (False, True) for d in (False, True)]
    return [{**numbers, **{k: v for k, v in b.items() if k == "c" or "d" in others}} for b in both]


# --- nothing crosses a block --------------------------------------------------------------------------------------


def test_no_explicit_bind() -> None:
    x = number(1)
    y = add(x, x)
    z = add(y, y)
    main = function([], add(z, z))
    assert bbnf(main, {}) is main


def test_let1() -> None:
    x = var("x", INT)
    main = function([], let(x, number(4), x))
    assert bbnf(main, {}) is main


def test_let1_1() -> None:
    x, y = var("x", INT), var("y", INT)
    main = function([y], let(x, number(4), add(x, y)))
    assert bbnf(main, {"y": np.int64(1)}) is main


def test_let2() -> None:
    """A let as the value of a let: one block."""
    x, y = var("x", INT), var("y", INT)
    main = function([], let(y, let(x, number(4), add(x, x)), add(y, y)))
    assert bbnf(main, {}) is main


def test_let3() -> None:
    """A variable that a branch uses is a variable already; a value that both use is not."""
    x, y, c = var("x", INT), var("y", INT), var("c", BIT)
    main = function([c, y], let(x, add(y, y), if_(c, x, add(x, y))))
    assert bbnf(main, *bits(y=3)) is main
    s = call("negative", y)
    main = function([c, y], let(x, add(y, y), if_(c, add(x, s), s)))
    assert same_text(
        bbnf(main, *bits(y=3)),
        """
        (c, y)
        x = add(y, y)
        lv0 = negative(y)
        -> if c""",
    )


def test_function() -> None:
    x = var("x", INT)
    main = function([], call(function([x], add(x, x)), number(4)))
    assert bbnf(main, {}) is main


def test_recursion() -> None:
    n, f = var("n", INT), GlobalVar(UNARY, "f")
    again = add(call("multiply", n, number(2)), call(f, call("subtract", n, number(1))))
    definition = function([n], if_(call("equal", n, number(0)), number(0), again), INT)
    main = function([], call(f, number(5)))
    assert bbnf(main, {}, f=definition) is main
    assert to_bbnf(Module({"main": main, "f": definition})).definitions["f"] is definition


def test_ref() -> None:
    i, u = var("i", RefType(INT)), var("u", UNIT)
    body = let(i, g.ref(number(1)), let(u, g.write(i, number(2)), call("subtract", g.read(i), g.read(i))))
    main = function([], body)
    assert bbnf(main, {}) is main


def test_nat_add() -> None:
    functions = nat_functions()
    plus, count = functions["plus"], functions["count"]
    body = call(GlobalVar(_type(count), "count"), call(GlobalVar(_type(plus), "plus"), nat(1), nat(1)))
    main = function([], body)
    assert bbnf(main, {}, **functions) is main


def _type(definition: Definition) -> FuncType:
    assert isinstance(definition, Function)
    return definition.func_type


# --- what crosses a block is a variable ---------------------------------------------------------------------------


def test_if() -> None:
    x, c = var("x", INT), var("c", BIT)
    e = add(x, x)
    assert same_text(
        bbnf(function([x, c], if_(c, call("negative", e), e)), *bits(x=3)),
        """
        (x, c)
        lv0 = add(x, x)
        -> if c""",
    )


def test_top_level_nested_if() -> None:
    """Used in inner branches of both arms: bound at the top, although a path does not need it."""
    x, c, d = var("x", INT), var("c", BIT), var("d", BIT)
    e = add(x, x)
    main = function([x, c, d], if_(c, if_(d, e, x), if_(d, x, call("negative", e))))
    assert same_text(
        bbnf(main, *bits(x=3, d=0)),
        """
        (x, c, d)
        lv0 = add(x, x)
        -> if c""",
    )


def test_nested_if() -> None:
    """Bound in the branch that is around all uses, and no further out."""
    x, c, d = var("x", INT), var("c", BIT), var("d", BIT)
    e = add(x, x)
    form = bbnf(function([x, c, d], if_(c, if_(d, e, call("negative", e)), x)), *bits(x=3, d=0))
    assert isinstance(form.body, g.If)
    assert same_text(
        function([x, c, d], form.body.then),
        """
        (x, c, d)
        lv0 = add(x, x)
        -> if d""",
    )


def test_higher_order_return() -> None:
    """The function that is returned uses a value from outside."""
    x, y = var("x", INT), var("y", INT)
    e = add(x, x)
    main = function([x], tuple_of(call(function([y], add(y, e)), x), e))
    assert same_text(
        bbnf(main, {"x": np.int64(3)}),
        """
        (x)
        lv0 = add(x, x)
        -> (fn(y)(x), lv0)""",
    )


def test_higher_order_nested() -> None:
    """A value that an inner function and one inside that use is bound in the outer of the two."""
    x, y, z = var("x", INT), var("y", INT), var("z", INT)
    e = add(y, x)
    inner = function([z], add(z, e))
    main = function([x], call(function([y], add(call(inner, y), e)), x))
    form = bbnf(main, {"x": np.int64(3)})
    assert isinstance(form.body, g.Call) and isinstance(form.body.op, Function)
    assert same_text(
        form.body.op,
        """
        (y)
        lv0 = add(y, x)
        -> add(fn(z)(y), lv0)""",
    )


def test_immutability() -> None:
    x, c = var("x", INT), var("c", BIT)
    e = add(x, x)
    main = function([x, c], if_(c, call("negative", e), e))
    module, fields = Module({"main": main}), dict(vars(main))
    assert to_bbnf(module).main is not main
    assert module.main is main and vars(main) == fields and why_not_bbnf(main)


# --- order --------------------------------------------------------------------------------------------------------


def test_what_can_fail_is_bound_for_the_blocks_inside_and_what_comes_first_stays_first() -> None:
    """The quotient is used after another one, and in a branch: both must be lets, or the wrong one would trap."""
    x, y, z, c = var("x", INT), var("y", INT), var("z", INT), var("c", BIT)
    first = call("floor_divide", x, y, span=Span("model", "first"))
    q = call("floor_divide", x, z, span=Span("model", "q"))
    main = function([x, y, z, c], tuple_of(first, q, if_(c, q, x), call("negative", x)))
    runs = [r for y in (0, 2) for z in (0, 2) for r in bits(x=7, y=y, z=z)]
    assert same_text(
        bbnf(main, *runs),
        """
        (x, y, z, c)
        lv0 = floor_divide(x, y)
        lv1 = floor_divide(x, z)
        -> (lv0, lv1, if c, negative(x))""",
    )


def test_what_fails_inside_the_value_itself_needs_no_let() -> None:
    x, y, c = var("x", INT), var("y", INT), var("c", BIT)
    q = div(div(x, y), y)
    main = function([x, y, c], tuple_of(q, if_(c, q, x)))
    assert same_text(
        bbnf(main, *bits(x=7, y=0), *bits(x=7, y=2)),
        """
        (x, y, c)
        lv1 = floor_divide(floor_divide(x, y), y)
        -> (lv1, if c)""",
    )


def test_branches_that_share_what_can_fail_have_their_own() -> None:
    x, y, c = var("x", INT), var("y", INT), var("c", BIT)
    q = div(x, y)
    main = function([x, y, c], if_(c, q, call("negative", q)))
    form = bbnf(main, *bits(x=7, y=0), *bits(x=7, y=2))
    assert same_text(
        form,
        """
        (x, y, c)
        -> if c""",
    )
    assert isinstance(form.body, g.If) and isinstance(form.body.then, g.Call)
    assert form.body.then is not form.body.otherwise.children[0]


def test_actions_stay_in_order_around_a_let() -> None:
    """The read must stay before the write, which is in the second let."""
    r, u, c, v = var("r", RefType(INT)), var("u", UNIT), var("c", BIT), var("v", INT)
    e = number(5)
    wrote = let(u, g.write(r, e), if_(c, e, g.read(r)))
    body = let(r, g.ref(number(1)), call("subtract", g.read(r), let(v, wrote, add(v, v))))
    assert same_text(
        bbnf(function([c], body), *bits()),
        """
        (c)
        r = ref(1)
        lv1 = read(r)
        lv2 = 5
        u = write(r, lv2)
        v = if c
          then
            -> lv2
          else
            -> read(r)
        -> subtract(lv1, add(v, v))""",
    )


def test_what_depends_on_what_fails_stays_behind_it_and_before_what_fails_later() -> None:
    """The sum is total, but what it is made of fails: it has a let too, before that of the second quotient."""
    x, y, z, c = var("x", INT), var("y", INT), var("z", INT), var("c", BIT)
    first, q = (
        call("floor_divide", x, y, span=Span("model", "first")),
        call("floor_divide", x, z, span=Span("model", "q")),
    )
    main = function([x, y, z, c], tuple_of(add(first, x), q, if_(c, q, x)))
    runs = [r for y in (0, 2) for z in (0, 2) for r in bits(x=7, y=y, z=z)]
    assert same_text(
        bbnf(main, *runs),
        """
        (x, y, z, c)
        lv1 = add(floor_divide(x, y), x)
        lv2 = floor_divide(x, z)
        -> (lv1, lv2, if c)""",
    )


def test_a_choice_in_which_something_fails_stays_before_what_fails_later() -> None:
    """The first if has no let of its own, but the quotient in its branch must be tried before the other one."""
    x, y, z, c = var("x", INT), var("y", INT), var("z", INT), var("c", BIT)
    first, q = (
        call("floor_divide", x, y, span=Span("model", "first")),
        call("floor_divide", x, z, span=Span("model", "q")),
    )
    main = function([x, y, z, c], tuple_of(if_(c, first, x), q, if_(c, q, x)))
    runs = [r for y in (0, 2) for z in (0, 2) for r in bits(x=7, y=y, z=z)]
    assert same_text(
        bbnf(main, *runs),
        """
        (x, y, z, c)
        lv1 = if c
          then
            -> floor_divide(x, y)
          else
            -> x
        lv2 = floor_divide(x, z)
        -> (lv1, lv2, if c)""",
    )


def test_a_let_of_what_neither_fails_nor_acts_holds_nothing_back() -> None:
    """The branches of the let's if are total: the quotient before it stays where it is used."""
    x, y, c, v = var("x", INT), var("y", INT), var("c", BIT), var("v", INT)
    e = call("negative", x)
    main = function([x, y, c], tuple_of(div(x, y), let(v, if_(c, e, add(e, x)), add(v, e))))
    assert same_text(
        bbnf(main, *bits(x=7, y=0), *bits(x=7, y=2)),
        """
        (x, y, c)
        lv1 = negative(x)
        v = if c
          then
            -> lv1
          else
            -> add(lv1, x)
        -> (floor_divide(x, y), add(v, lv1))""",
    )


# --- the checker --------------------------------------------------------------------------------------------------


def test_a_value_shared_across_blocks_is_seen_whichever_block_comes_first() -> None:
    """TVM's checker accepted one of the orders (its issue 7416)."""
    x, c = var("x", INT), var("c", BIT)
    for e in (add(x, x), constant(np.int64(3))):
        inside = if_(c, e, x)
        for body in (tuple_of(e, inside), tuple_of(inside, e)):
            why = why_not_bbnf(function([x, c], body))
            assert why is not None and "is used in two blocks: name it by a let" in why


@pytest.mark.parametrize("kind", ["branches", "functions", "clauses", "body and argument"])
def test_every_kind_of_block_counts(kind: str) -> None:
    x, y, z, c = var("x", INT), var("y", INT), var("z", INT), var("c", BIT)
    e = add(x, x)
    wild = g.Fields((g.Wildcard(), g.Wildcard()))
    faulty: dict[str, Expr] = {
        "branches": if_(c, e, e),
        "functions": tuple_of(function([y], e), function([z], e)),
        "clauses": g.match(tuple_of(x, x), (wild, e), (wild, e)),
        "body and argument": call(function([y], e), e),
    }
    main = function([x, c], faulty[kind])
    assert why_not_bbnf(main)
    assert not why_not_bbnf(to_bbnf(Module({"main": main})).main)


def test_a_marked_function_is_not_looked_into() -> None:
    x, y = var("x", INT), var("y", INT)
    e = add(x, x)
    main = function([x], tuple_of(function([y], add(y, e), None, primitive=True), e))
    assert not why_not_bbnf(main) and to_bbnf(Module({"main": main})).main is main


def test_the_place_of_what_is_shared_is_named() -> None:
    x, c = var("x", INT), var("c", BIT)
    e = call("add", x, x, span=Span("model.onnx", "node 7"))
    assert "(model.onnx (node 7))" in (why_not_bbnf(function([x, c], if_(c, e, e))) or "")


def test_a_variable_may_be_used_everywhere() -> None:
    x, c = var("x", INT), var("c", BIT)
    v: Var = var("v", INT)
    assert not why_not_bbnf(function([x, c], let(v, add(x, x), if_(c, v, call("negative", v)))))
