"""Patterns over graphs: they look through variables, and what they replace means the same."""

from __future__ import annotations

import numpy as np
import pytest

from assay.lower.anf import to_anf
from assay.lower.rewriting import extract, rewrite_matches
from assay.lower.rewriting.pattern import Found, Pattern, anything, constant, field, fields, match, op
from assay.semantics import graph as g
from assay.semantics.dtypes import FLOAT32
from assay.semantics.errors import Invalid
from assay.semantics.graph import Call, Expr, Function, call, function, let, tuple_of, var
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.rules import check
from assay.semantics.types import TensorType
from assay.semantics.walk import post_order
from tests.observation import observe
from tests.scale import MANY

T = TensorType((2, 2), FLOAT32)
X, Y, Z = var("x", T), var("y", T), var("z", T)
ONES = g.constant(np.ones((2, 2), np.float32))
INPUTS = {n: np.float32([[i, -1.5], [2.25, -i]]) for i, n in enumerate("xyz")}


def same(before: Function, after: Function) -> None:
    for f in (before, after):
        check(Module({"main": f}))
    one, two = (observe(Module({"main": f}), {p.name: INPUTS[p.name] for p in f.params}) for f in (before, after))
    assert one.difference(two) is None


def names(f: Function) -> list[str]:
    return [n.op.name for n in post_order(f) if isinstance(n, Call) and isinstance(n.op, Operator)]


# --- what matches -------------------------------------------------------------------------------------------------


@pytest.mark.row("R32")
def test_a_pattern_says_what_each_part_met() -> None:
    a, b = anything(), anything()
    inner = op("multiply")(a, b)
    e = call("add", call("multiply", X, Y), Z)
    found = match(op("add")(inner, anything()), e)
    assert found is not None and found[a] is X and found[b] is Y and found[inner] is e.args[0]


@pytest.mark.row("R32")
@pytest.mark.parametrize(
    ("pattern", "expr", "matches"),
    [
        (op("add"), call("add", X, Y), True),
        (op("add"), call("multiply", X, Y), False),
        (op("add", "multiply"), call("multiply", X, Y), True),
        (op("add")(anything()), call("add", X, Y), False),
        (op("add")(anything(), constant()), call("add", X, ONES), True),
        (op("add")(anything(), constant()), call("add", X, Y), False),
        (op("add")(constant(), anything()) | op("add")(anything(), constant()), call("add", X, ONES), True),
        (op("nn.softmax").with_attrs(axis=1), call("nn.softmax", X, axis=1), True),
        (op("nn.softmax").with_attrs(axis=1), call("nn.softmax", X, axis=0), False),
        (anything().of_type(T), X, True),
        (anything().of_type(TensorType((2,), FLOAT32)), X, False),
        (fields(anything(), op("add")), tuple_of(X, call("add", X, Y)), True),
        (fields(anything()), tuple_of(X, Y), False),
        (field(anything(), 1), g.get(tuple_of(X, Y), 1), True),
        (field(anything(), 1), g.get(tuple_of(X, Y), 0), False),
        (field(anything()), g.get(tuple_of(X, Y), 0), True),
    ],
)
def test_what_matches(pattern: Pattern, expr: Expr, matches: bool) -> None:
    assert (match(pattern, expr) is not None) is matches


def test_one_pattern_at_two_places_wants_one_expression() -> None:
    a = anything()
    assert match(op("add")(a, a), call("add", X, X)) is not None
    assert match(op("add")(a, a), call("add", X, Y)) is None
    assert match(op("add")(anything(), anything()), call("add", X, Y)) is not None


# --- rewriting ----------------------------------------------------------------------------------------------------


def negated_twice(anf: bool) -> Function:
    f = function([X, Y], call("add", call("negative", call("negative", X)), Y))
    return to_anf(Module({"main": f})).main if anf else f


@pytest.mark.row("A24", "R33")
@pytest.mark.parametrize("anf", [False, True])
def test_a_rewrite_looks_through_variables(anf: bool) -> None:
    before = negated_twice(anf)
    a = anything()
    after = rewrite_matches(before, op("negative")(op("negative")(a)), lambda found, at: found[a])
    same(before, after)
    assert before is not after and names(before) == ["negative", "negative", "add"], "the input stays as it was"
    assert names(after) == (["add"] if not anf else ["negative", "add"]), "what was bound stays bound"


@pytest.mark.row("R9")
def test_multiply_and_add_become_one_call() -> None:
    """The rewriting pass that the tutorial of the old system shows, with the fused call as a function of its own."""
    a, b, c = anything(), anything(), anything()
    p, q, r = (var(n, T) for n in "pqr")
    fma = function([p, q, r], call("add", call("multiply", p, q), r), primitive=1)
    before = function([X, Y, Z], call("add", call("multiply", X, Y), call("add", call("multiply", Y, Z), X)))
    pattern = op("add")(op("multiply")(a, b), c)
    after = rewrite_matches(before, pattern, lambda found, at: call(fma, found[a], found[b], found[c]))
    same(before, after)
    assert sum(isinstance(n, Call) and n.op is fma for n in post_order(after)) == 2


@pytest.mark.parametrize("anf", [False, True])
def test_what_a_pattern_of_a_constant_met_is_the_constant(anf: bool) -> None:
    module = Module({"main": function([X], call("add", X, call("add", ONES, ONES)))})
    before = to_anf(module).main if anf else module.main
    a, b = constant(), constant()

    def folded(found: Found, at: Expr) -> Expr:
        one, two = found[a], found[b]
        assert isinstance(one, g.Constant) and isinstance(two, g.Constant)
        return g.constant(one.data + two.data)

    after = rewrite_matches(before, op("add")(a, b), folded)
    same(before, after)
    assert names(after) == ["add"]


def test_a_rewrite_of_another_type_is_refused() -> None:
    before = function([X], call("negative", X))
    with pytest.raises(Invalid) as caught:
        rewrite_matches(before, op("negative"), lambda found, at: g.constant(np.float32(1)))
    assert caught.value.label == "rewrite.C1"


def test_a_rewrite_under_branches_and_functions() -> None:
    yes = g.constant(np.array(True))
    p, f = var("p", T), var("f", function([X], X).type)
    inner = function([p], call("negative", call("negative", p)))
    body = g.if_(yes, call("negative", call("negative", X)), call(f, Y))
    before = function([X, Y], let(f, inner, body))
    a = anything()
    after = rewrite_matches(before, op("negative")(op("negative")(a)), lambda found, at: found[a])
    same(before, after)
    assert names(after) == []


def test_a_chain_of_matches_is_rewritten_whatever_its_length() -> None:
    e: Expr = X
    for _ in range(MANY):
        e = call("negative", e)
    a = anything()
    after = rewrite_matches(function([X], e), op("negative")(op("negative")(a)), lambda found, at: found[a])
    assert names(after) == []


# --- extraction ---------------------------------------------------------------------------------------------------


@pytest.mark.row("A21")
@pytest.mark.parametrize("anf", [False, True])
def test_parts_for_another_compiler_are_found_through_lets(anf: bool) -> None:
    product = call("matmul", X, Y)
    before = function([X, Y, Z], call("add", call("nn.relu", call("add", product, ONES)), Z))
    if anf:
        before = to_anf(Module({"main": before})).main
    pattern = op("nn.relu")(op("add")(op("matmul")(anything(), anything()), constant()))
    after = extract(before, pattern, "npu")
    same(before, after)
    (moved,) = (n for n in post_order(after) if isinstance(n, Function) and n.attrs.get("compiler") == "npu")
    assert names(moved) == ["matmul", "add", "nn.relu"] and len(moved.params) == 2
    assert any(isinstance(n, g.Constant) for n in post_order(moved)), "the constant went along"
    kept = to_anf(Module({"main": after})).main
    assert any(isinstance(n, Function) and n is moved for n in post_order(kept)), (
        "A-normal form keeps it whole (row A6)"
    )
    same(before, kept)
