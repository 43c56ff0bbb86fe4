"""A-normal form: what can fail stays on the paths that demand it, with the exact bindings (rule N2)."""

from __future__ import annotations

import numpy as np
import pytest

from assay.lower.anf import to_anf
from assay.semantics import graph as g
from assay.semantics.dtypes import INT64
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.graph import Expr, Let, call, function, get, if_, let, tuple_of, var
from assay.semantics.module import Module
from assay.semantics.scalar import Var as Symbol
from assay.semantics.types import TensorType
from tests.lower.anf.anf_text import same_text
from tests.lower.anf.test_anf_pass import BIT, INT, add, anf, div, number


def test_what_can_fail_is_bound_in_each_branch_that_demands_it() -> None:
    x, y, c = var("x", INT), var("y", INT), var("c", BIT)
    q = div(x, y)
    runs = [{"x": np.int64(7), "y": np.int64(y), "c": np.array(c)} for y in (0, 2) for c in (False, True)]
    main = anf(function([x, y, c], if_(c, add(q, q), if_(c, q, x))), *runs)
    assert same_text(
        main,
        """
        (x, y, c)
        lv4 = if c
          then
            lv0 = floor_divide(x, y)
            lv1 = add(lv0, lv0)
            -> lv1
          else
            lv3 = if c
              then
                lv2 = floor_divide(x, y)
                -> lv2
              else
                -> x
            -> lv3
        -> lv4""",
    )


def test_a_later_demand_sees_a_binding_around_it() -> None:
    """The quotient is demanded by the first operand; both branches of the second see it."""
    x, y, c = var("x", INT), var("y", INT), var("c", BIT)
    q = div(x, y)
    runs = [{"x": np.int64(7), "y": np.int64(y), "c": np.array(c)} for y in (0, 2) for c in (False, True)]
    main = anf(function([x, y, c], tuple_of(q, if_(c, q, add(q, q)))), *runs)
    assert same_text(
        main,
        """
        (x, y, c)
        lv0 = floor_divide(x, y)
        lv2 = if c
          then
            -> lv0
          else
            lv1 = add(lv0, lv0)
            -> lv1
        lv3 = (lv0, lv2)
        -> lv3""",
    )


def test_an_earlier_branch_has_its_own() -> None:
    x, y, c = var("x", INT), var("y", INT), var("c", BIT)
    q = div(x, y)
    runs = [{"x": np.int64(7), "y": np.int64(y), "c": np.array(c)} for y in (0, 2) for c in (False, True)]
    main = anf(function([x, y, c], tuple_of(if_(c, q, x), q)), *runs)
    assert same_text(
        main,
        """
        (x, y, c)
        lv1 = if c
          then
            lv0 = floor_divide(x, y)
            -> lv0
          else
            -> x
        lv2 = floor_divide(x, y)
        lv3 = (lv1, lv2)
        -> lv3""",
    )


def test_failure_is_inherited_and_total_parts_are_still_shared() -> None:
    """The product may fail by its operand; the sum may not, and is bound once."""
    x, y, c = var("x", INT), var("y", INT), var("c", BIT)
    s = add(x, x)
    p = call("multiply", s, div(x, y))
    main = anf(
        function([x, y, c], if_(c, p, call("negative", p))), {"x": np.int64(7), "y": np.int64(0), "c": np.array(True)}
    )
    assert same_text(
        main,
        """
        (x, y, c)
        lv0 = add(x, x)
        lv6 = if c
          then
            lv1 = floor_divide(x, y)
            lv2 = multiply(lv0, lv1)
            -> lv2
          else
            lv3 = floor_divide(x, y)
            lv4 = multiply(lv0, lv3)
            lv5 = negative(lv4)
            -> lv5
        -> lv6""",
    )


def test_a_shared_let_that_can_fail_is_renamed_where_it_is_bound_again() -> None:
    x, y, c, v = var("x", INT), var("y", INT), var("c", BIT), var("v", INT)
    w = let(v, div(x, y), add(v, v))
    main = anf(
        function([x, y, c], if_(c, w, call("negative", w))), {"x": np.int64(7), "y": np.int64(2), "c": np.array(True)}
    )
    assert same_text(
        main,
        """
        (x, y, c)
        lv3 = if c
          then
            v = floor_divide(x, y)
            lv0 = add(v, v)
            -> lv0
          else
            v_1 = floor_divide(x, y)
            lv1 = add(v_1, v_1)
            lv2 = negative(lv1)
            -> lv2
        -> lv3""",
    )


def test_a_function_that_needs_a_value_that_can_fail_goes_with_it() -> None:
    """The function literal itself cannot fail, but its variable is bound in each branch."""
    x, y, c, v, p = var("x", INT), var("y", INT), var("c", BIT), var("v", INT), var("p", INT)
    w = let(v, div(x, y), tuple_of(function([p], add(p, v)), v))
    body = if_(c, call(get(w, 0), x), get(w, 1))
    main = anf(
        function([x, y, c], body), *({"x": np.int64(7), "y": np.int64(2), "c": np.array(c)} for c in (False, True))
    )
    assert same_text(
        main,
        """
        (x, y, c)
        lv9 = if c
          then
            v = floor_divide(x, y)
            lv1 = fn(p)
              body
                lv0 = add(p, v)
                -> lv0
            lv2 = (lv1, v)
            lv3 = lv2.0
            lv4 = lv3(x)
            -> lv4
          else
            v_1 = floor_divide(x, y)
            lv6 = fn(p_1)
              body
                lv5 = add(p_1, v_1)
                -> lv5
            lv7 = (lv6, v_1)
            lv8 = lv7.1
            -> lv8
        -> lv9""",
    )


def test_a_size_is_not_used_before_the_match_cast_that_binds_it() -> None:
    """A zero of that size is total, but the branches must not share one before the cast (TVM's 20195)."""
    k = Symbol("k")
    x, c = var("x", TensorType((Symbol("n"),), INT64)), var("c", BIT)
    v = var("v", TensorType((k,), INT64))
    shaped = let(v, g.match_cast(x, v.type), add(v, call("full", shape=(k,), fill_value=1, dtype="int64")))
    total = call("sum", shaped, axis=(0,))
    main = anf(function([x, c], if_(c, total, call("negative", total))), {"x": np.arange(3), "c": np.array(False)})
    assert same_text(
        main,
        """
        (x, c)
        lv7 = if c
          then
            v = matchcast(x)
            lv0 = full()
            lv1 = add(v, lv0)
            lv2 = sum(lv1)
            -> lv2
          else
            v_1 = matchcast(x)
            lv3 = full()
            lv4 = add(v_1, lv3)
            lv5 = sum(lv4)
            lv6 = negative(lv5)
            -> lv6
        -> lv7""",
    )


def test_two_bindings_of_one_node_are_two_nodes() -> None:
    """What has no operands must be copied too: a node that two places share would be one evaluation."""
    x, y, c = var("x", INT), var("y", INT), var("c", BIT)
    q = div(x, y)
    main = anf(function([x, y, c], if_(c, q, call("negative", q))))
    assert isinstance(main.body, Let) and isinstance(main.body.value, g.If)
    then, otherwise = main.body.value.then, main.body.value.otherwise
    assert isinstance(then, Let) and isinstance(otherwise, Let)
    assert then.value is not otherwise.value
    assert then.value is q, "the first is the source's own: nothing about it changed"


def test_what_needs_an_inner_and_an_outer_name_goes_with_the_outer() -> None:
    """The inner let is total, but it needs a quotient that each branch binds for itself."""
    x, y, c, v, w = var("x", INT), var("y", INT), var("c", BIT), var("v", INT), var("w", INT)
    inner = let(w, add(v, x), add(w, v))
    pair = let(v, div(x, y), tuple_of(inner, v))
    runs = [{"x": np.int64(7), "y": np.int64(y), "c": np.array(c)} for y in (0, 2) for c in (False, True)]
    assert same_text(
        anf(function([x, y, c], if_(c, get(pair, 0), get(pair, 1))), *runs),
        """
        (x, y, c)
        lv6 = if c
          then
            v = floor_divide(x, y)
            w = add(v, x)
            lv0 = add(w, v)
            lv1 = (lv0, v)
            lv2 = lv1.0
            -> lv2
          else
            v_1 = floor_divide(x, y)
            w_1 = add(v_1, x)
            lv3 = add(w_1, v_1)
            lv4 = (lv3, v_1)
            lv5 = lv4.1
            -> lv5
        -> lv6""",
    )


def test_another_name_that_nobody_uses_for_what_can_fail() -> None:
    x, y, w = var("x", INT), var("y", INT), var("w", INT)
    q = div(x, y)
    assert same_text(
        anf(function([x, y], tuple_of(q, let(w, q, x))), {"x": np.int64(7), "y": np.int64(2)}),
        """
        (x, y)
        lv0 = floor_divide(x, y)
        w = lv0
        lv1 = (lv0, x)
        -> lv1""",
    )


def test_names_of_names_of_what_can_fail_go_with_it() -> None:
    """Both branches share lets that name the quotient's name and use it: each branch has its own."""
    x, y, c = var("x", INT), var("y", INT), var("c", BIT)
    q, same, again, total = var("q", INT), var("same", INT), var("again", INT), var("total", INT)
    shared = let(same, q, let(again, same, let(total, add(y, again), total)))
    runs = [{"x": np.int64(7), "y": np.int64(y), "c": np.array(c)} for y in (0, 2) for c in (False, True)]
    main = anf(function([x, y, c], if_(c, let(q, div(x, y), if_(c, shared, add(shared, shared))), x)), *runs)
    assert same_text(
        main,
        """
        (x, y, c)
        lv2 = if c
          then
            q = floor_divide(x, y)
            lv1 = if c
              then
                same = q
                again = same
                total = add(y, again)
                -> total
              else
                same_1 = q
                again_1 = same_1
                total_1 = add(y, again_1)
                lv0 = add(total_1, total_1)
                -> lv0
            -> lv1
          else
            -> x
        -> lv2""",
    )


def test_a_large_source_may_have_a_large_form() -> None:
    """12,285 bindings of some fifty expressions: sixty-four for each of them are allowed besides the first 10,000."""
    x, y, c = var("x", INT), var("y", INT), var("c", BIT)

    def doubled(e: Expr) -> Expr:
        for _ in range(11):
            e = if_(c, e, call("negative", e))
        return e

    assert to_anf(Module({"main": function([x, y, c], tuple_of(doubled(div(x, y)), doubled(div(y, x))))}))


def test_too_much_output_is_refused_and_says_what_helps() -> None:
    x, y, c = var("x", INT), var("y", INT), var("c", BIT)
    e: Expr = div(x, y)
    for _ in range(40):
        e = if_(c, e, call("negative", e))
    with pytest.raises(Unsupported, match="name one of them by a let before the branches") as refused:
        to_anf(Module({"main": function([x, y, c], e)}))
    assert refused.value.label == "anf.C1"
    v = var("v", INT)
    named = let(v, div(x, y), v)
    assert to_anf(Module({"main": function([x, y, c], if_(c, named, x))}))


def test_an_unbound_variable_is_named() -> None:
    with pytest.raises(Invalid, match="variable free is not bound"):
        to_anf(Module({"main": function([], add(var("free", INT), number(1)))}))
