"""Single decisions of the passes of "simplify": what is one, what is opened, lifted, bound or left, one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from assay.lower.simplify.bind_params import bind_params
from assay.lower.simplify.canonical import canonical_bindings
from assay.lower.simplify.common_subexpressions import common_subexpressions
from assay.lower.simplify.inline import SMALL, inline
from assay.lower.simplify.lambda_lift import lift_functions
from assay.semantics import graph
from assay.semantics.analyses.equality import first_difference
from assay.semantics.builder import tensor
from assay.semantics.builder.prelude import INT
from assay.semantics.dtypes import FLOAT32
from assay.semantics.errors import Invalid
from assay.semantics.graph import Call, Expr, Function, GlobalVar, Let, Tuple, Var
from assay.semantics.graph.limits import LOWER, UPPER
from assay.semantics.module import GROUP, Module
from assay.semantics.rules import check
from assay.semantics.scalar import Var as Symbol
from assay.semantics.types import TensorType, TypeVar
from assay.semantics.walk import post_order
from tests.lower.liveness.liveness_programs import kernel
from tests.lower.simplify.simplify_programs import CHIP, HOST
from tests.observation import observe

X, Y = graph.var("x", INT), graph.var("y", INT)
ONE = {"x": np.int32(3)}
F = tensor(3)
C = np.array([1, 2, 3], "float32")


def main(body: Expr, *params: Var, **definitions: Any) -> Module:
    return Module({"main": graph.function(params or (X,), body), **definitions})


def ops(module: Module, name: str = "main") -> list[str]:
    """The operators and functions that a function calls, operands first."""
    function = module.definitions[name]
    return [getattr(n.op, "name", "?") for n in post_order(function) if isinstance(n, Call)]


def same(before: Module, after: Module, inputs: Any = ONE) -> Module:
    check(before)
    check(after)
    assert observe(before, inputs).difference(observe(after, inputs)) is None
    return after


def twice(v: Expr) -> Expr:
    return graph.call("add", v, v)


def times(v: Expr, count: int) -> Expr:
    for _ in range(count):
        v = graph.call("negative", v)
    return v


# --- bound parameters ------------------------------------------------------------------------------------------------


@pytest.mark.row("R18")
def test_sizes_that_follow_from_others_are_checked_where_parameters_are_bound() -> None:
    n, m = Symbol("n"), Symbol("m")
    v, w = graph.var("v", TensorType((n,), FLOAT32)), graph.var("w", TensorType((n * 2,), FLOAT32))
    module = main(graph.tuple_of(v, w), v, w)
    bound = bind_params(module, {"v": np.zeros(2, "float32"), "w": np.ones(4, "float32")})
    assert bound.main.params == ()
    values = {"v": np.zeros(2, "float32"), "w": np.ones(5, "float32")}
    for names in ("vw", "wv"):
        with pytest.raises(Invalid, match="is .*5.*, expected .*4") as wrong:
            bind_params(module, {n: values[n] for n in names})
        assert wrong.value.label == "bind_params.C3"
    u = graph.var("u", TensorType((n + m,), FLOAT32))  # m is not known: nothing can be said
    module = main(graph.tuple_of(v, u, graph.var("z", TensorType((m,), FLOAT32))), v, u)
    assert bind_params(module, {"v": np.zeros(2, "float32"), "u": np.ones(5, "float32")}).main.params == ()


@pytest.mark.row("R18")
def test_limits_of_symbols_that_are_numbers_now_go_and_the_others_stay() -> None:
    n, m = Symbol("n"), Symbol("m")
    v, w = graph.var("v", TensorType((n,), FLOAT32)), graph.var("w", TensorType((m,), FLOAT32))
    limits = {UPPER: {"n": 4, "m": 5}, LOWER: {"n": 2}, "kept": "yes"}
    module = Module({"main": replace(graph.function([v, w], graph.tuple_of(v, w)), attrs=limits)})
    assert bind_params(module, {"v": np.zeros(2, "float32")}).main.attrs == {UPPER: {"m": 5}, "kept": "yes"}
    assert bind_params(module, {"v": np.zeros(4, "float32")}).main.attrs == {UPPER: {"m": 5}, "kept": "yes"}
    assert bind_params(module, {"w": np.zeros(5, "float32")}).main.attrs == {
        UPPER: {"n": 4},
        LOWER: {"n": 2},
        "kept": "yes",
    }
    assert bind_params(module, {}).main.attrs == limits
    for size in (1, 5):
        with pytest.raises(Invalid, match="at least 2 and at most 4") as wrong:
            bind_params(module, {"v": np.zeros(size, "float32")})
        assert wrong.value.label == "bind_params.C5"
    lower = Module({"main": replace(module.main, attrs={LOWER: {"n": 2}})})
    assert bind_params(lower, {"v": np.zeros(9, "float32")}).main.attrs == {}
    with pytest.raises(Invalid, match="at least 2$|at least 2 \\["):
        bind_params(lower, {"v": np.zeros(1, "float32")})


# --- canonical bindings ----------------------------------------------------------------------------------------------


@pytest.mark.row("R35")
def test_a_field_of_a_tuple_in_place_stands_alone_if_nobody_misses_the_others() -> None:
    def canonical(*fields: Expr) -> Expr:
        return canonical_bindings(main(graph.get(graph.tuple_of(X, *fields), 0))).main.body

    division = graph.call("floor_divide", X, X)
    assert isinstance(canonical(twice(X)), Var)
    for others in (
        [graph.print_(X)],
        [twice(X), graph.print_(X)],
        [graph.print_(X), twice(X)],
        [division],
        [twice(division)],
    ):
        assert not isinstance(canonical(*others), Var)
    acting = graph.function([Y], graph.print_(Y))
    assert isinstance(canonical(acting), Var)  # to make a function is not to run it
    annotated = graph.tuple_of(graph.on_device(twice(X), HOST), graph.get(graph.tuple_of(X, twice(X)), 0))
    made = canonical_bindings(main(annotated)).main.body
    assert isinstance(made.children[1], graph.TupleGetItem)  # what is annotated is not placed yet
    named = graph.var("t", graph.tuple_of(X, X).type)
    kept = main(graph.let(named, graph.tuple_of(twice(X), X), graph.get(named, 0)))
    assert isinstance(
        canonical_bindings(kept).main.body.children[-1], graph.TupleGetItem
    )  # what is computed stays where it is


@pytest.mark.row("R35")
def test_a_field_that_is_said_to_be_elsewhere_is_another_value() -> None:
    pair = graph.tuple_of(X, Y)
    for device in (CHIP, HOST):
        there = replace(graph.get(pair, 0), device=device)
        assert canonical_bindings(main(there, X, Y)).main.body is not X


def test_of_copies_one_that_is_not_named_is_shared_with_one_that_is() -> None:
    x, p = (replace(graph.var(n, F), device=d) for n, d in (("x", HOST), ("p", CHIP)))
    one, other, third = (graph.device_copy(x, CHIP) for _ in range(3))
    body = graph.let(p, one, graph.call("add", graph.call("add", p, other), third))
    assert ops(canonical_bindings(main(body, x))).count("device_copy") == 1
    table = [replace(GlobalVar(F, "w"), device=HOST) for _ in "ab"]
    source = Module(
        {"main": graph.function([X], graph.call("add", *(graph.device_copy(w, CHIP) for w in table)))}, {"w": C}
    )
    assert ops(canonical_bindings(source)).count("device_copy") == 1
    inner = graph.function([Y], graph.tuple_of(graph.device_copy(x, CHIP), Y))
    f = graph.var("f", inner.type)
    source = main(graph.let(f, inner, graph.tuple_of(graph.call(f, X), graph.device_copy(x, CHIP))), x, X)
    assert ops(canonical_bindings(source)).count("device_copy") == 2  # another function


# --- common subexpressions -------------------------------------------------------------------------------------------


def test_names_stay_and_of_two_the_outer_one() -> None:
    a, b = graph.var("a", INT), graph.var("b", INT)
    made = common_subexpressions(main(graph.let(a, twice(X), graph.let(b, twice(X), graph.call("multiply", a, b)))))
    assert made.main.body.children[-1].children == (a, a)
    assert [n.var for n in post_order(made.main) if isinstance(n, Let)] == [a]


def test_attributes_are_one_whatever_their_order_and_dims_by_what_they_are() -> None:
    y = graph.call("broadcast_to", X, shape=(2, 2))
    one = graph.call("sum", y, axis=(0,), keepdims=False)
    other = replace(one, attrs=dict(reversed(one.attrs.items())))
    listed = replace(one, attrs={**one.attrs, "axis": [0]})
    made = common_subexpressions(main(graph.tuple_of(one, other, listed)))
    assert isinstance(made.main.body, Tuple) and len({id(f) for f in made.main.body.fields}) == 1
    n, m = Symbol("n"), Symbol("n")  # two sizes of one name
    v = graph.var("v", TensorType((n, m), FLOAT32))
    made = common_subexpressions(main(graph.tuple_of(graph.shape(n), graph.shape(m), graph.shape(n)), v))
    assert isinstance(made.main.body, Tuple) and len({id(f) for f in made.main.body.fields}) == 2


def test_what_is_annotated_or_marked_is_not_shared() -> None:
    x = graph.var("x", F)
    body = graph.call("add", graph.on_device(twice(x), CHIP), graph.on_device(twice(x), HOST))
    source = main(body, x)
    assert first_difference(source, common_subexpressions(source)) is None
    inner = replace(graph.function([Y], graph.call("add", twice(Y), twice(Y))), attrs={"compiler": "acme"})
    f = graph.var("f", inner.type)
    source = main(graph.let(f, inner, graph.call("multiply", graph.call(f, X), graph.call(f, X))))
    made = common_subexpressions(source)
    marked = next(n for n in post_order(made.main) if isinstance(n, Function) and "compiler" in n.attrs)
    assert marked is inner


def test_calls_of_what_may_act_are_not_one() -> None:
    for pure, left in ((False, 2), (True, 1)):
        a, b = graph.var("a", INT), graph.var("b", INT)
        send = graph.extern("send", [INT], INT, pure=pure)
        body = graph.let(a, graph.call(send, X), graph.let(b, graph.call(send, X), graph.tuple_of(a, b)))
        assert ops(common_subexpressions(main(body))).count("send") == left


def test_a_variable_on_another_device_is_another_value() -> None:
    there = replace(graph.var("there", INT), device=CHIP)
    made = common_subexpressions(main(graph.let(there, twice(X), graph.tuple_of(there, twice(X)))))
    body = made.main.body
    assert isinstance(body, Let) and isinstance(body.body, Tuple) and body.body.fields[1] is not there


# --- inlined calls ---------------------------------------------------------------------------------------------------


def calling(f: Function, *calls: Expr, **definitions: Any) -> Module:
    return main(graph.tuple_of(*calls), f=f, **definitions)


@pytest.mark.parametrize(("nodes", "left"), [(SMALL, 0), (SMALL + 1, 2)])
def test_how_small_a_function_is_that_is_opened_twice(nodes: int, left: int) -> None:
    f = graph.function([Y], times(Y, nodes))
    name = GlobalVar(f.type, "f")
    made = same(source := calling(f, graph.call(name, X), graph.call(name, X)), inline(source))
    assert ops(made).count("f") == left
    local = graph.var("g", f.type)
    body = graph.let(local, f, graph.tuple_of(graph.call(local, X), graph.call(local, X)))
    assert ops(same(main(body), inline(main(body)))).count("g") == left


def test_functions_are_opened_in_whatever_order_they_are_defined() -> None:
    deepest = graph.function([Y], times(Y, 1))
    middle = graph.function([Y], twice(graph.call(GlobalVar(deepest.type, "deepest"), Y)))
    outer = graph.function([Y], twice(graph.call(GlobalVar(middle.type, "middle"), Y)))
    source = main(graph.call(GlobalVar(outer.type, "outer"), X), outer=outer, middle=middle, deepest=deepest)
    assert ops(same(source, inline(source))) == ["negative", "add", "add"]


def test_local_functions_that_call_local_functions() -> None:
    h, g = graph.var("h", graph.function([Y], Y).type), graph.var("g", graph.function([Y], Y).type)
    z = graph.var("z", INT)
    inner, outer = graph.function([z], times(z, 1)), graph.function([Y], twice(graph.call(h, Y)))
    body = graph.let(h, inner, graph.let(g, outer, graph.call(g, X)))
    made = same(main(body), inline(main(body)))
    assert "h" not in ops(made) and "g" not in ops(made)


def test_what_a_group_names_stays_callable_and_plain_kernels_name_none() -> None:
    f = graph.function([Y], times(Y, SMALL + 1))
    call = graph.call(GlobalVar(f.type, "f"), X)
    plain = kernel("k", (4, 4))
    assert ops(inline(calling(f, call, k=plain))).count("f") == 0  # it is called once
    grouped = replace(plain, attrs={**plain.attrs, GROUP: "f"})
    assert ops(inline(calling(f, call, k=grouped))).count("f") == 1


def test_functions_that_are_not_opened() -> None:
    """One with an annotation, one polymorphic in types, one that gives a size its value."""
    annotated = graph.function([Y], graph.on_device(times(Y, 1), HOST))
    a = TypeVar("A")
    p = Var(a, "p")
    identity = graph.function([p], p, type_params=[a])
    n, k = Symbol("n"), Symbol("k")
    v = graph.var("v", TensorType((n,), FLOAT32))
    sized = graph.function([v], graph.shape_of(graph.match_cast(v, TensorType((k,), FLOAT32))))
    x = graph.var("x", F)
    for f, args, type_args in ((annotated, (X,), ()), (identity, (X,), (INT,)), (sized, (x,), ())):
        made = graph.call(GlobalVar(f.type, "f"), *args, **({"type_args": type_args} if type_args else {}))
        source = main(made, *args, f=f)
        check(source)
        assert ops(inline(source)).count("f") == 1, f


def test_a_call_is_opened_only_where_every_value_is_where_the_function_has_it() -> None:
    p = replace(graph.var("p", INT), device=HOST)
    x = replace(X, device=HOST)
    f = graph.function([p], replace(times(p, 1), device=CHIP))
    name = GlobalVar(f.type, "f")
    for argument, device, left in ((x, CHIP, 0), (x, HOST, 1), (replace(x, device=CHIP), CHIP, 1)):
        call = replace(graph.call(name, argument), device=device)
        assert ops(inline(main(call, argument, f=f))).count("f") == left
    plain = graph.function([Y], times(Y, 1))
    body = graph.tuple_of(graph.on_device(twice(X), HOST), graph.call(GlobalVar(plain.type, "g"), X))
    assert ops(inline(main(body, g=plain))).count("g") == 1  # main is not placed yet


def test_a_size_that_caller_and_function_both_know_need_not_be_renamed() -> None:
    n, m, k = Symbol("n"), Symbol("m"), Symbol("k")
    p, q = graph.var("p", TensorType((n,), FLOAT32)), graph.var("q", TensorType((m,), FLOAT32))
    f = graph.function([p, q], graph.tuple_of(graph.call("negative", p), graph.call("negative", q)))
    x, y = graph.var("x", TensorType((k,), FLOAT32)), graph.var("y", TensorType((m,), FLOAT32))
    source = main(graph.call(GlobalVar(f.type, "f"), x, y), x, y, f=f)
    inputs = {"x": np.ones(2, "float32"), "y": np.ones(3, "float32")}
    assert ops(same(source, inline(source), inputs)) == ["negative", "negative"]


# --- lifted functions ------------------------------------------------------------------------------------------------


def closure(inner: Function, *more: Expr) -> Module:
    f = graph.var("f", inner.type)
    return main(graph.let(f, inner, graph.tuple_of(graph.call(f, X), *more)))


@pytest.mark.row("R16")
def test_a_function_that_calls_another_one_otherwise_than_its_own_parameters_is_lifted() -> None:
    g = graph.function([X, Y], graph.call("subtract", X, Y))
    name = GlobalVar(g.type, "g")
    for args, lifted in (((Y, X), True), ((X, Y), False)):
        source = closure(graph.function([Y], graph.call(name, *args))).with_(g=g)
        assert ("main_f" in same(source, lift_functions(source)).definitions) == lifted


@pytest.mark.row("R16")
def test_a_lifted_function_that_hands_itself_on_hands_on_the_lifted_one() -> None:
    f = graph.var("f", graph.function([Y], Y).type)
    inner = graph.function([Y], graph.get(graph.tuple_of(f, Y), 1))
    source = main(graph.let(f, inner, graph.call(f, X)))
    made = same(source, lift_functions(source))
    assert "main_f" in {n.name for n in post_order(made.definitions["main_f"]) if isinstance(n, GlobalVar)}


@pytest.mark.row("R16")
def test_a_function_that_hands_itself_on_with_what_is_around_it_stays() -> None:
    f = graph.var("f", graph.function([Y], Y).type)
    inner = graph.function([Y], graph.get(graph.tuple_of(f, graph.call("add", Y, X)), 1))
    source = main(graph.let(f, inner, graph.call(f, X)))
    assert set(same(source, lift_functions(source)).definitions) == {"main"}


@pytest.mark.row("R16")
def test_a_function_without_a_name_is_lifted() -> None:
    source = main(graph.get(graph.tuple_of(graph.function([Y], twice(Y)), X), 1))
    assert set(same(source, lift_functions(source)).definitions) == {"main", "main_function"}


@pytest.mark.row("R16")
def test_a_function_whose_body_is_evaluated_around_it_stays() -> None:
    shared = graph.call("multiply", X, X)
    source = closure(graph.function([Y], shared), shared)
    assert "main_f" not in same(source, lift_functions(source)).definitions
    deep = graph.function([Y], graph.call(GlobalVar(graph.function([Y], Y).type, "g"), graph.call("add", shared, Y)))
    source = closure(deep, shared).with_(g=graph.function([Y], Y))
    assert "main_f" not in same(source, lift_functions(source)).definitions


@pytest.mark.row("R16")
def test_a_function_that_names_a_size_and_nothing_that_has_it_stays() -> None:
    n = Symbol("n")
    v = graph.var("v", TensorType((n,), FLOAT32))
    zeros = graph.call("full", shape=(n,), fill_value=0, dtype="float32")
    for body, lifted in ((zeros, False), (graph.call("add", zeros, v), True)):
        inner = graph.function([Y], graph.call("sum", body, axis=(0,), keepdims=False))
        f = graph.var("f", inner.type)
        source = main(graph.let(f, inner, graph.call(f, X)), v, X)
        made = same(source, lift_functions(source), {"v": C, **ONE})
        assert ("main_f" in made.definitions) == lifted


@pytest.mark.row("R16")
def test_a_function_of_a_type_from_around_it_stays() -> None:
    a, b = TypeVar("A"), TypeVar("B")
    p, q, r = Var(a, "p"), Var(a, "q"), Var(b, "r")
    own = graph.function([r], r, type_params=[b])
    for inner, lifted in ((graph.function([q], q), False), (graph.function([Y], twice(Y)), True), (own, True)):
        f = graph.var("f", inner.type)
        argument = p if not lifted else Y
        call = graph.call(f, argument, **({"type_args": (INT,)} if inner is own else {}))
        outer = graph.function([p, Y], graph.let(f, inner, graph.tuple_of(call, p)), type_params=[a])
        assert ("outer_f" in lift_functions(Module({"outer": outer})).definitions) == lifted


@pytest.mark.row("R16")
@pytest.mark.parametrize("where", ["module", "inside"])
def test_a_function_that_calls_a_polymorphic_one_is_lifted(where: str) -> None:
    b = TypeVar("B")
    r = Var(b, "r")
    identity = graph.function([r], r, type_params=[b])
    if where == "module":
        source = closure(
            graph.function([Y], twice(graph.call(GlobalVar(identity.type, "same"), Y, type_args=(INT,))))
        ).with_(same=identity)
    else:  # one that stays, for it is for another compiler
        h = graph.var("h", identity.type)
        marked = replace(identity, attrs={"compiler": "acme"})
        source = closure(graph.function([Y], graph.let(h, marked, twice(graph.call(h, Y, type_args=(INT,))))))
    assert "main_f" in same(source, lift_functions(source)).definitions
