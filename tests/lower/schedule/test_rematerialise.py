"""Calls repeated instead of results kept: the peak falls, values stay, and what must not be repeated is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from assay.interp import vector
from assay.lower.schedule.rematerialise import rematerialise
from assay.lower.schedule.task_graph import peak, task_graph_of
from assay.semantics.alias import bindings, result
from assay.semantics.dtypes import FLOAT32
from assay.semantics.graph import CallTIR, Expr, call, constant, function, let, tuple_of, var
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.types import TensorType
from assay.verify.app.stages import lowering_passes
from assay.verify.schedule import check_same_values
from tests.observation import observe

X = var("x", TensorType((64,), FLOAT32))


def lowered(body: Expr) -> Module:
    module = Module({"main": function([X], body)})
    for name, run in lowering_passes(vector.run).items():
        if name in ("anf", "legalize", "constants"):
            module = run(module)
    return module


def peak_of(module: Module) -> int:
    work = task_graph_of(module)
    return peak(work, list(range(len(work.vars))))


def same(before: Module, after: Module) -> None:
    check(after)
    evidence = check_same_values(before, after)
    assert evidence.holds, evidence.detail
    inputs = {"x": np.linspace(-3, 3, 64).astype(np.float32)}
    assert observe(before, inputs).difference(observe(after, inputs)) is None


def kept_over_a_peak() -> Expr:
    """The negative of x is used at both ends of a stretch that needs much."""
    n = call("negative", X)
    wide = call("broadcast_to", call("exp", n), shape=(16, 64))
    low = call("sum", call("multiply", wide, wide), axis=(0,), keepdims=False)
    return call("add", call("sqrt", low), n)


@pytest.mark.row("A26")
def test_a_value_is_computed_again_where_that_saves_memory() -> None:
    before = lowered(kept_over_a_peak())
    after = rematerialise(before)
    same(before, after)
    assert peak_of(after) == peak_of(before) - 4 * 64
    names = [v.name for v, _ in bindings(after.main)]
    assert len(names) == len(set(names)) == len(list(bindings(before.main))) + 1
    assert any(n.endswith("_again") for n in names)
    assert rematerialise(after) is after, "nothing more to gain"


def test_what_can_trap_is_not_repeated() -> None:
    index = constant(np.arange(64)[::-1].copy())
    t = call("take", X, index, axis=0)
    wide = call("broadcast_to", call("exp", t), shape=(16, 64))
    low = call("sum", call("multiply", wide, wide), axis=(0,), keepdims=False)
    module = lowered(call("add", low, t))
    assert rematerialise(module) is module


def test_a_repetition_of_something_else_is_refused() -> None:
    """Planted: the repeated call reads another operand."""
    before = lowered(kept_over_a_peak())
    after = rematerialise(before)
    main = after.main
    copy = next(v for v, e in bindings(main) if v.name.endswith("_again"))

    def changed(wrong: Expr) -> Module:
        body = result(main)
        for v, e in reversed(list(bindings(main))):
            body = let(v, wrong if v is copy else e, body)
        return after.with_(main=replace(main, body=body))

    first = next(v for v, e in bindings(main) if isinstance(e, CallTIR))
    value = dict(bindings(main))[copy]
    twice = value.with_children([first])
    evidence = check_same_values(before, changed(twice))
    assert not evidence.holds


@given(st.data())
def test_the_peak_never_grows(data: st.DataObject) -> None:
    nodes: list[Expr] = [X]
    for _ in range(data.draw(st.integers(2, 9))):
        a, b = (data.draw(st.sampled_from(nodes)) for _ in "ab")
        kind = data.draw(st.sampled_from(["negative", "exp", "add", "wide"]))
        if kind == "wide":
            wide = call("broadcast_to", a, shape=(data.draw(st.integers(2, 5)), 64))
            nodes.append(call("sum", call("exp", wide), axis=(0,), keepdims=False))
        else:
            nodes.append(call("add", a, b) if kind == "add" else call(kind, a))
    before = lowered(tuple_of(nodes[-1], data.draw(st.sampled_from(nodes))))
    after = rematerialise(before)
    same(before, after)
    assert after is before or peak_of(after) < peak_of(before)
