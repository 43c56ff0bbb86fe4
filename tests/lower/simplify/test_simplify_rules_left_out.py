"""Rules of the simplifying passes: dead code and folded constants."""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from assay.interp.graph import evaluate
from assay.lower.simplify.dead_code import DeadCode, remove_unreachable
from assay.lower.simplify.fold import fold_constants
from assay.semantics import graph
from assay.semantics.analyses.equality import first_difference
from assay.semantics.builder import tensor
from assay.semantics.dtypes import FLOAT32
from assay.semantics.graph import Call, Constant, Expr, GlobalVar, If, Var
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.scalar import Var as Symbol
from assay.semantics.types import TensorType
from assay.semantics.walk import post_order
from assay.verify.simplify import check_simplified
from tests.lower.simplify.simplify_programs import CHIP, HOST
from tests.lower.simplify.test_simplify_rules import C, F, X, main, times, twice

# --- dead code -------------------------------------------------------------------------------------------------------


@pytest.mark.row("R24")
def test_tables_that_are_used_stay_with_their_offsets() -> None:
    weight = GlobalVar(F, "weight")
    x = graph.var("x", F)
    source = Module(
        {"main": graph.function([x], graph.call("add", x, weight))},
        {"weight": C, "other": C},
        {"weight": 64, "other": 0},
    )
    made = remove_unreachable(source)
    assert set(made.constants) == {"weight"} and dict(made.offsets) == {"weight": 64}


@pytest.mark.row("R24")
def test_what_is_shared_is_looked_at_once() -> None:
    class Counted(DeadCode):
        asked = 0

        def uses(self, node: Expr) -> Any:
            self.asked += 1
            return super().uses(node)

    v: Expr = X
    for _ in range(12):
        v = twice(v)
    passed = Counted(main(v))
    passed.run()
    assert passed.asked <= 14


# --- folded constants ------------------------------------------------------------------------------------------------


def folded(body: Expr, *params: Var) -> Expr:
    source = main(body, *params)
    made = fold_constants(source, evaluate)
    check(made)
    assert check_simplified(source, made).holds
    return made.main.body


def test_what_is_marked_is_not_folded() -> None:
    c = graph.constant(C)
    f = replace(graph.function([], twice(c)), attrs={"compiler": "acme"})
    source = Module({"main": graph.function([X], X), "f": f})
    assert first_difference(source, fold_constants(source, evaluate)) is None
    v = graph.var("v", f.type)
    body = folded(graph.let(v, f, graph.tuple_of(v, X)))
    assert any(isinstance(n, Call) for n in post_order(body))


def test_a_constant_that_is_used_twice_is_one() -> None:
    x, c = graph.var("x", F), twice(graph.constant(C))
    body = folded(graph.tuple_of(graph.call("add", x, c), graph.call("multiply", x, c)), x)
    assert len({id(n) for n in post_order(body) if isinstance(n, Constant)}) == 1


def test_a_choice_that_is_known_to_be_a_constant_is_one() -> None:
    yes, c, x = graph.constant(np.bool_(True)), graph.constant(C), graph.var("x", F)
    body = folded(graph.call("add", x, twice(graph.if_(yes, twice(c), x))), x)
    assert [n.data.tolist() for n in post_order(body) if isinstance(n, Constant)] == [[4, 8, 12]]


def test_a_branch_that_says_more_or_is_annotated_does_not_stand_for_the_choice() -> None:
    yes = graph.constant(np.bool_(True))
    v, w = (graph.var(name, TensorType((Symbol(name),), FLOAT32)) for name in "vw")
    assert isinstance(folded(graph.if_(yes, v, w), v, w), If)
    x, z = graph.var("x", F), graph.var("z", F)
    assert isinstance(folded(graph.if_(yes, graph.on_device(x, CHIP), z), x, z), If)
    there = replace(graph.if_(yes, replace(x, device=HOST), z), device=CHIP)
    made = fold_constants(main(there, replace(x, device=HOST), z), evaluate).main.body
    assert isinstance(made, If)


def test_constants_that_nobody_needs_any_more_are_let_go_while_others_are_made() -> None:
    """Of a chain of calls, two values are there at once."""
    made: list[weakref.ref[Any]] = []
    most = 0

    def noted(node: Expr, module: Module) -> Any:
        nonlocal most
        most = max(most, sum(r() is not None for r in made))
        value = np.array(evaluate(node, module))
        made.append(weakref.ref(value))
        return value

    body = fold_constants(main(times(graph.constant(C), 12)), noted).main.body
    assert isinstance(body, Constant) and len(made) == 12 and most <= 3


def test_a_call_that_gives_a_tuple_stays_and_its_fields_are_constants() -> None:
    halves = graph.call("split", graph.constant(np.arange(4, dtype="float32")), sections=(2, 2), axis=0)
    assert isinstance(folded(halves), Call)
    field = folded(graph.get(halves, 1))
    assert isinstance(field, Constant) and field.data.tolist() == [2, 3]


def test_a_constant_is_seen_through_names_and_bindings() -> None:
    x, c = graph.var("x", F), graph.constant(C)
    a, b, v = (graph.var(n, F) for n in "abv")
    named = graph.let(a, c, graph.let(b, a, graph.call("add", x, graph.call("negative", b))))
    assert [n.op.name for n in post_order(folded(named, x)) if isinstance(n, Call) and not isinstance(n.op, Expr)] == [
        "add"
    ]
    value = folded(graph.call("negative", graph.let(v, twice(x), c)), x)
    assert isinstance(value, Constant) and value.data.tolist() == [-1, -2, -3]
    acting = graph.let(Var(graph.print_().type, "u"), graph.print_(x), c)
    assert isinstance(folded(graph.call("negative", acting), x), Call)


def test_the_size_of_what_cannot_fail_is_known() -> None:
    x, i = graph.var("x", F), graph.var("i", tensor(3, of="int32"))
    assert isinstance(folded(graph.call("shape_of", twice(x)), x), Constant)
    assert isinstance(folded(graph.shape_of(twice(x)), x), graph.ShapeExpr)
    assert isinstance(folded(graph.shape_of(graph.call("floor_divide", i, i)), i), graph.ShapeOf)


def test_a_field_of_constants_is_where_they_are() -> None:
    one, two = (replace(graph.constant(C * k), device=CHIP) for k in (1, 2))
    field = folded(graph.get(replace(graph.tuple_of(one, two), device=CHIP), 1))
    assert isinstance(field, Constant) and field.device == CHIP and field.data.tolist() == [2, 4, 6]
