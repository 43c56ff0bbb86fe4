"""ANF and its proof: what must hold, and what must be refuted."""

from __future__ import annotations

import numpy as np
import pytest

from assay.interp import graph as interp
from assay.lower.anf import to_anf
from assay.semantics.dtypes import BOOL, FLOAT32, INT64
from assay.semantics.graph import (
    Expr,
    Function,
    Let,
    Var,
    call,
    function,
    if_,
    let,
    var,
)
from assay.semantics.module import Module
from assay.semantics.types import TensorType
from assay.verify.anf import check_anf
from tests.scale import MANY

F = TensorType((2, 3), FLOAT32)
B = TensorType((), BOOL)


def module(*params: Var, body: Expr) -> Module:
    return Module({"main": function(params, body)})


def bindings(f: Function) -> list[str]:
    out, body = [], f.body
    while isinstance(body, Let):
        out.append(body.var.name)
        body = body.body
    return out


@pytest.mark.row("A1")
def test_sharing_is_one_binding() -> None:
    x = var("x", F)
    s = call("exp", x)
    m = module(x, body=call("add", s, s))
    a = to_anf(m)
    assert len(bindings(a.main)) == 2
    assert check_anf(m, a).holds


def test_input_module_is_unchanged() -> None:
    x = var("x", F)
    body = call("add", call("exp", x), x)
    m = module(x, body=body)
    to_anf(m)
    assert m.main.body is body


def test_branches_keep_what_only_they_need() -> None:
    x, c = var("x", F), var("c", B)
    m = module(x, c, body=if_(c, call("exp", call("exp", x)), call("nn.relu", x)))
    a = to_anf(m)
    assert len(bindings(a.main)) == 1
    assert check_anf(m, a).holds


def test_shared_by_both_branches_and_total_is_hoisted() -> None:
    x, c = var("x", F), var("c", B)
    e = call("exp", x)
    m = module(x, c, body=if_(c, call("add", e, e), call("nn.relu", e)))
    a = to_anf(m)
    assert len(bindings(a.main)) == 2
    assert check_anf(m, a).holds


def test_what_can_fail_is_not_hoisted() -> None:
    x, c = var("x", F), var("c", B)
    i = var("i", TensorType((2,), INT64))
    t = call("take", x, i, axis=0)
    m = module(x, c, i, body=if_(c, call("add", t, t), call("nn.relu", t)))
    a = to_anf(m)
    assert len(bindings(a.main)) == 1, "only the If is bound at the top"
    assert check_anf(m, a).holds


@pytest.mark.row("A3")
def test_let_keeps_its_name_and_flattens() -> None:
    x = var("x", F)
    inner, outer = var("inner", F), var("outer", F)
    e = let(outer, let(inner, call("exp", x), call("add", inner, inner)), call("nn.relu", outer))
    m = module(x, body=e)
    a = to_anf(m)
    assert bindings(a.main)[:2] == ["inner", "outer"]
    assert check_anf(m, a).holds


def test_closure_and_call() -> None:
    x, y = var("x", F), var("y", F)
    fn = function([y], call("add", y, call("exp", x)))
    name = var("f", fn.type)
    m = module(x, body=let(name, fn, call("add", call(name, x), call(name, call("exp", x)))))
    a = to_anf(m)
    evidence = check_anf(m, a)
    assert evidence.holds, evidence.detail
    data = {"x": np.arange(6, dtype=np.float32).reshape(2, 3) / 7}
    assert interp.run(m, data)["output_0"].tobytes() == interp.run(a, data)["output_0"].tobytes()


@pytest.mark.row("V20")
def test_deep_chain() -> None:
    x = var("x", F)
    e: Expr = x
    for _ in range(MANY):
        e = call("nn.relu", e)
    m = module(x, body=e)
    a = to_anf(m)
    assert check_anf(m, a).holds


# --- refutations -------------------------------------------------------------------------------------------------


def base() -> tuple[Module, Function]:
    x = var("x", F)
    m = module(x, body=call("add", call("exp", x), call("nn.relu", call("exp", x))))
    return m, to_anf(m).main


def chain(f: Function) -> list[tuple[Var, Expr]]:
    out, body = [], f.body
    while isinstance(body, Let):
        out.append((body.var, body.value))
        body = body.body
    return out


def rebuilt(f: Function, steps: list[tuple[Var, Expr]], result: Expr | None = None) -> Module:
    body = result or chain(f)[-1][0]
    for v, e in reversed(steps):
        body = let(v, e, body)
    return Module({"main": function(f.params, body)})


def test_refuses_swapped_operands() -> None:
    m, f = base()
    steps = chain(f)
    v, e = steps[-1]
    steps[-1] = (v, e.with_children(e.children[::-1]))
    evidence = check_anf(m, rebuilt(f, steps))
    assert not evidence.holds and "add" in evidence.detail


def test_refuses_a_binding_moved_behind_its_use() -> None:
    m, f = base()
    steps = chain(f)
    assert (
        "before it is bound" in check_anf(m, rebuilt(f, [steps[1], steps[0], *steps[2:]])).detail
        or not check_anf(m, rebuilt(f, [*steps[1:], steps[0]])).holds
    )


def test_refuses_a_lost_binding() -> None:
    m, f = base()
    steps = chain(f)
    assert not check_anf(m, rebuilt(f, steps[1:])).holds


def test_refuses_work_done_twice() -> None:
    m, f = base()
    x = f.params[0]
    again = var("again", F)
    third = var("third", F)
    steps = [*chain(f)[:-1], (again, call("exp", x)), (third, call("exp", x)), chain(f)[-1]]
    evidence = check_anf(m, rebuilt(f, steps))
    assert not evidence.holds and "times" in evidence.detail


def test_refuses_speculation_of_what_can_fail() -> None:
    x, c, i = var("x", F), var("c", B), var("i", TensorType((2,), INT64))
    t = call("take", x, i, axis=0)
    m = module(x, c, i, body=if_(c, t, x))
    v, r = var("v", F), var("r", F)
    bad = Module({"main": function([x, c, i], let(v, t, let(r, if_(c, v, x), r)))})
    evidence = check_anf(m, bad)
    assert not evidence.holds and "take" in evidence.detail


def test_refuses_nested_operands_and_reused_names() -> None:
    m, f = base()
    assert not check_anf(m, m).holds
    steps = chain(f)
    x = f.params[0]
    twin = var(steps[0][0].name, F)
    again = [steps[0], (twin, call("nn.relu", x)), *steps[1:]]
    assert "more than once" in check_anf(m, rebuilt(f, again)).detail
