"""Each rejection of the proof of A-normal forms, by a fault that gets just it (specs/verify.md, "anf")."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from assay.lower.anf import to_anf
from assay.semantics.devices import VirtualDevice
from assay.semantics.dtypes import BOOL, FLOAT32, INT64
from assay.semantics.graph import (
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
    print_,
    tuple_of,
    var,
)
from assay.semantics.module import Module
from assay.semantics.types import TensorType
from assay.semantics.walk import rewrite
from assay.verify.anf import check_anf
from assay.verify.evidence import Evidence

F = TensorType((2, 3), FLOAT32)
B = TensorType((), BOOL)
CPU, GPU = VirtualDevice("cpu", 0, "c", "global"), VirtualDevice("cuda", 0, "cuda", "global")
Step = tuple[Var, Expr]


def chain(*steps: Step, result: Expr | None = None) -> Expr:
    body = result if result is not None else steps[-1][0]
    for v, e in reversed(steps):
        body = let(v, e, body)
    return body


def refuse(before: Module, after: Module, said: str) -> Evidence:
    right = check_anf(before, to_anf(before))
    assert right.holds, right.detail
    wrong = check_anf(before, after)
    assert not wrong.holds and said in wrong.detail, wrong.detail
    return wrong


def module(*params: Var, body: Expr) -> Module:
    return Module({"main": function(params, body)})


# --- the module around -----------------------------------------------------------------------------------------------


def with_others() -> Module:
    """main, a primitive function, and a table."""
    x, y = var("x", F), var("y", F)
    whole = replace(function([y], call("exp", call("exp", y))), attrs={"primitive": 1})
    w = np.ones(3, np.float32)
    return Module({"main": function([x], call("nn.relu", call("exp", x))), "f": whole}, {"w": w}, {"w": 0})


OTHERS: dict[str, tuple[Callable[[Module], Module], str]] = {
    "a definition more": (lambda m: m.with_(g=m.main), "definition g is not in the source"),
    "a function less": (lambda m: replace(m, definitions={"main": m.main}), "function f is gone"),
    "another constant": (lambda m: replace(m, constants={"w": np.zeros(3, np.float32)}),
        "the table of constants is changed"),
    "one constant more": (lambda m: replace(m, constants={**m.constants, "v": m.constants["w"]}),
        "the table of constants is changed"),
    "another offset": (lambda m: replace(m, offsets={"w": 64}), "the table of constants is changed"),
    "a primitive function is entered": (
        lambda m: m.with_(
            f=m.definitions["f"].with_children(
            [to_anf(Module(
            {"main": replace(m.definitions["f"], attrs={})})).main.body])),  # type: ignore[union-attr, arg-type]
        "is changed; what is primitive stays as it is",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_around_stays(name: str) -> None:
    damage, said = OTHERS[name]
    refuse(with_others(), damage(to_anf(with_others())), said)


def test_an_equal_table_is_the_same() -> None:
    before = with_others()
    copied = replace(to_anf(before), constants={"w": before.constants["w"].copy()})
    assert check_anf(before, copied).holds


# --- shape -----------------------------------------------------------------------------------------------------------


def two_steps() -> tuple[Module, Var, Step, Step]:
    """relu(exp(x)), with the two bindings of its form."""
    x, a, b = var("x", F), var("a", F), var("b", F)
    return module(x, body=call("nn.relu", call("exp", x))), x, (a, call("exp", x)), (b, call("nn.relu", a))


def test_a_name_is_bound_before_it_is_used() -> None:
    before, x, one, two = two_steps()
    assert check_anf(before, module(x, body=chain(one, two))).holds
    refuse(
        before, module(x, body=chain(two, one, result=two[0])), "variable a is used before it is bound, by nn.relu()"
    )
    refuse(before, module(x, body=chain(one, result=two[0])), "variable b is used before it is bound, as a result")


def test_each_step_has_a_name() -> None:
    before, x, (a, e), _ = two_steps()
    refuse(before, module(x, body=chain((a, e), result=call("nn.relu", a))), "the result nn.relu()")
    refuse(before, module(x, body=chain((var("b", F), call("nn.relu", e)))), "operand exp()")
    inner = let(a, e, a)
    refuse(before, module(x, body=chain((var("c", F), inner))), "a let as an operand: the value of c binds a")


def test_a_name_is_of_the_type_of_its_value() -> None:
    before, x, (a, e), (b, _) = two_steps()
    wrong = Let(F, var("a", TensorType((3, 2), FLOAT32)), e, let(b, call("nn.relu", a), b))
    refuse(before, module(x, body=wrong), "a is Tensor((3, 2), float32), its value is exp()")


def test_what_is_one_object_is_bound_once() -> None:
    before, x, (a, e), (b, f) = two_steps()
    refuse(before, module(x, body=chain((a, e), (var("again", F), e), (b, f))), "is bound twice, by a and by again")


def test_a_dataflow_block_is_one_run() -> None:
    before, x, (a, e), (b, f) = two_steps()
    block = Dataflow()
    c = var("c", F)
    inside = replace(let(c, b, c), dataflow=block)
    broken = replace(let(a, e, let(b, f, inside)), dataflow=block)
    wrong = check_anf(before, module(x, body=broken))
    assert "the dataflow block of c is broken: other bindings stand inside it" in wrong.detail
    whole = replace(let(a, e, replace(let(b, f, b), dataflow=block)), dataflow=block)
    assert check_anf(before, module(x, body=whole)).holds
    other = replace(let(a, e, replace(let(b, f, b), dataflow=Dataflow())), dataflow=block)
    assert check_anf(before, module(x, body=other)).holds, "two blocks side by side"


def test_a_primitive_function_names_what_is_bound() -> None:
    x, y, a, f, r = (
        var("x", F),
        var("y", F),
        var("a", F),
        var("f", function([var("y", F)], var("y", F)).type),
        var("r", F),
    )
    whole = replace(function([y], call("add", a, y)), attrs={"primitive": 1})
    before = module(x, body=chain((a, call("exp", x)), (f, whole), (r, call(f, x))))
    early = module(x, body=chain((f, whole), (a, call("exp", x)), (r, call(f, x))))
    refuse(before, early, "variable a is used before it is bound, by function")


def test_one_action_is_not_bound_in_two_branches() -> None:
    """Each branch has an action of its own, which is one object each; what is computed may be shared."""
    x, c = var("x", F), var("c", B)

    def choice(first: Expr, second: Expr) -> Module:
        one, two = var("one", first.type), var("two", second.type)
        r = var("r", F)
        return module(x, c, body=chain((r, if_(c, let(one, first, x), let(two, second, x)))))

    before = choice(print_(x), print_(x))
    said = print_(x)
    refuse(before, choice(said, said), "is bound twice, by one and by two")


# --- values, types and devices ---------------------------------------------------------------------------------------


def test_an_action_of_nobody() -> None:
    before, x, one, two = two_steps()
    said = var("said", print_(x).type)
    refuse(
        before,
        module(x, body=chain(one, (said, print_(x)), two)),
        "print: Tuple() is done by the target, not by the source",
    )


def test_a_failure_of_nobody() -> None:
    x, i = var("x", F), var("i", TensorType((2,), INT64))
    a, t = var("a", F), var("t", F)
    before = module(x, i, body=call("exp", x))
    wrong = module(x, i, body=chain((t, call("take", x, i, axis=0)), (a, call("exp", x)), result=a))
    refuse(before, wrong, "which can fail, is demanded by the target, not by the source")


def test_another_value_is_no_result() -> None:
    before, x, one, two = two_steps()
    wrong = refuse(before, module(x, body=chain(one, two, result=one[0])), "")
    assert (
        wrong.detail == "in main: the result is not nn.relu(): Tensor((2, 3), float32), but another value of the source"
    )


def test_functions_and_parameters_keep_their_devices() -> None:
    before, x, one, two = two_steps()
    right = to_anf(before)
    refuse(before, right.with_(main=replace(right.main, device=GPU)), "or a parameter is on another device")
    there = replace(x, device=GPU)
    root: Expr = right.main
    moved = rewrite(root, lambda n: there if n is right.main.params[0] else n)
    assert isinstance(moved, Function)
    refuse(before, right.with_(main=replace(moved, params=(there,))), "or a parameter is on another device")


def test_names_are_where_their_values_are() -> None:
    x, a = replace(var("x", F), device=CPU), replace(var("a", F), device=CPU)
    value = replace(call("exp", x), device=CPU)
    before = Module({"main": replace(function([x], value), device=CPU)})
    astray = replace(a, device=GPU)
    for name, said in ((a, ""), (astray, "a is on another device than exp()")):
        wrong = Module(
            {"main": replace(function([x], replace(let(name, value, name), device=name.device)), device=CPU)}
        )
        assert said in check_anf(before, wrong).detail and check_anf(before, wrong).holds == (not said)


def test_values_keep_their_types() -> None:
    """A projection has the number of the field; what it says of its type counts too."""
    x, t = var("x", F), var("t", TensorType((), FLOAT32))
    pair = tuple_of(x, x)
    p, q = var("p", pair.type), var("q", F)
    before = module(x, t, body=chain((p, pair), (q, get(p, 0)), (var("r", F), call("exp", q))))
    assert check_anf(before, to_anf(before)).holds
    odd = replace(get(p, 0), type=TensorType((3, 2), FLOAT32))
    s, e = var("s", odd.type), call("exp", x)
    wrong = module(x, t, body=chain((p, pair), (s, odd), (var("r", F), replace(e, args=(s,)))))
    assert not check_anf(before, wrong).holds


# --- work ------------------------------------------------------------------------------------------------------------


def test_what_nobody_asked_for_is_not_evaluated() -> None:
    """Before it is known that it will be."""
    x, c = var("x", F), var("c", B)
    e = call("exp", x)
    before = module(x, c, body=if_(c, call("add", e, e), call("nn.relu", x)))
    v, r = var("v", F), var("r", F)
    s, t = var("s", F), var("t", F)
    then = chain((s, call("add", v, v)))
    otherwise = chain((t, call("nn.relu", x)))
    refuse(
        before,
        module(x, c, body=chain((v, e), (r, if_(c, then, otherwise)))),
        "is bound in the function's own chain; the source evaluates it in the then branch",
    )


def test_work_is_said_where_it_is_done_again() -> None:
    x, c = var("x", F), var("c", B)
    before = module(x, c, body=if_(c, call("exp", call("exp", x)), x))
    after = to_anf(before)
    root: Expr = after.main

    def twice(n: Expr) -> Expr:
        if isinstance(n, If) and isinstance(n.then, Let):
            again = var("again", F)
            return n.with_children([n.condition, let(again, replace(n.then.value), n.then), n.otherwise])
        return n

    wrong = rewrite(root, twice)
    assert isinstance(wrong, Function)
    refuse(before, after.with_(main=wrong), "is evaluated 2 times in the then branch")
