"""Passes over functions and dataflow blocks, and the bytes in use at each step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from assay.interp import vector
from assay.lower.liveness.used_memory import used_memory
from assay.lower.passes import Bindings, dataflow_pass, function_pass, sequence, without_dataflow
from assay.semantics.dtypes import FLOAT32
from assay.semantics.errors import Invalid
from assay.semantics.graph import Dataflow, Expr, Function, Let, Var, call, function, if_, let, tuple_of, var
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.types import TensorType
from assay.semantics.walk import post_order
from assay.verify.app.stages import lowering_passes
from tests.observation import observe

T = TensorType((2,), FLOAT32)
X = var("x", T)


def blocks() -> Function:
    """Two dataflow blocks, one in a branch; `dead` is not used behind its block."""
    a, dead, b, c = (var(n, T) for n in ("a", "dead", "b", "c"))
    one, two = Dataflow(), Dataflow()
    inner = let(c, call("negative", b), c, dataflow=two)
    yes = var("yes", TensorType((), call("equal", X, X).type.dtype))
    body: Expr = if_(yes, inner, b)
    body = let(b, call("add", a, a), let(dead, call("exp", a), body, dataflow=one), dataflow=one)
    return function([X, yes], let(a, call("negative", X), body, dataflow=one))


def drop_unused(bindings: Bindings, outputs: Sequence[Var]) -> Bindings:
    """Dead code inside one block, from the last binding up."""
    used, kept = set(outputs), []
    for v, value in reversed(bindings):
        if v in used:
            kept.append((v, value))
            used.update(c for c in value.children if isinstance(c, Var))
    return kept[::-1]


def chain(e: Expr) -> list[str]:
    found = []
    while isinstance(e, Let):
        found.append(e.var.name)
        e = e.body
    return found


@pytest.mark.row("R13")
def test_a_pass_over_dataflow_blocks() -> None:
    before = Module({"main": blocks()})
    seen: list[tuple[list[str], list[str]]] = []

    def change(bindings: Bindings, outputs: Sequence[Var]) -> Bindings:
        seen.append(([v.name for v, _ in bindings], [v.name for v in outputs]))
        return drop_unused(bindings, outputs)

    after = dataflow_pass(change)(before)
    check(after)
    assert seen == [(["c"], ["c"]), (["a", "b", "dead"], ["b"])]
    assert chain(before.main.body) == ["a", "b", "dead"] and chain(after.main.body) == ["a", "b"]
    for yes in (True, False):
        inputs = {"x": np.float32([1, -2]), "yes": np.array(yes)}
        assert observe(before, inputs).difference(observe(after, inputs)) is None
    assert dataflow_pass(change)(after) is after, "nothing to do, nothing new"


def test_a_pass_must_not_lose_what_is_used_behind_the_block() -> None:
    with pytest.raises(Invalid, match="lost b") as caught:
        dataflow_pass(lambda bindings, outputs: bindings[:1])(Module({"main": blocks()}))
    assert caught.value.label == "pass.C1"


@pytest.mark.row("R13")
def test_passes_over_functions_one_after_another() -> None:
    log: list[str] = []

    def noted(name: str) -> object:
        return function_pass(lambda f: (log.append(name), f)[1])

    module = Module({"main": blocks(), "other": function([X], X)})
    assert sequence(noted("a"), noted("b"))(module) is module
    assert log == ["a", "a", "b", "b"]


@pytest.mark.row("R12")
def test_dataflow_becomes_plain_bindings_and_then_calls_in_explicit_memory() -> None:
    before = Module({"main": blocks()})
    after = without_dataflow(before)
    assert not any(isinstance(n, Let) and n.dataflow for n in post_order(after.main))
    assert chain(after.main.body) == chain(before.main.body) and without_dataflow(after) is after
    v, w, mark = var("v", T), var("w", T), Dataflow()
    body = let(v, call("exp", X), let(w, call("add", v, X), w, dataflow=mark), dataflow=mark)
    module = without_dataflow(Module({"main": function([X], body)}))
    for name, run in lowering_passes(vector.run).items():
        module = module if name == "fuse" else run(module)
    program = module.program
    assert [s.kernel for s in program.steps] == ["exp", "add"] and program.workspace_bytes == 8
    assert [s.offset for s in program.placed("workspace")] == [0]


@pytest.mark.row("A19")
def test_bytes_in_use_at_each_call() -> None:
    """Two calls of one kernel, and a branch that keeps a value alive over them."""
    e = call("exp", X)
    out = tuple_of(call("add", call("exp", call("exp", e)), e))
    module = Module({"main": function([X], out)})
    for name, run in lowering_passes(lambda kernel, args: vector.run(kernel, args)).items():
        module = module if name == "fuse" else run(module)
        if name == "liveness":
            break
    found = used_memory(module.program)
    assert found.io == 16
    # x and e; e and the second; e, the second and the third; e, the third and the result (x is dead after the first)
    assert found.steps == (16, 16, 24, 24)
    assert found.calls == {"exp": (16, 16, 24), "add": (24,)}
