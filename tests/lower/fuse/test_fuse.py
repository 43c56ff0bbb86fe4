"""Calls of tensor functions that become one: which ones, and bit for bit the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from assay.interp import graph, machine
from assay.lower.anf import to_anf
from assay.lower.fuse import Limits, fuse, fuse_calls
from assay.lower.legalize import legalize
from assay.lower.liveness import find_lives
from assay.lower.pool import plan_pools
from assay.semantics.alias import bindings
from assay.semantics.builder import Builder, tensor
from assay.semantics.dtypes import FLOAT32
from assay.semantics.graph import CallTIR, Expr, Function, call, call_tir, function, let, print_, var
from assay.semantics.module import GROUP, Module
from assay.semantics.rules import check
from assay.semantics.scalar import Var as Symbol, apply
from assay.semantics.tensor import Buffer, PrimFunc, loops, store
from assay.semantics.text.module_printer import show
from assay.semantics.text.module_text import parse
from assay.semantics.types import TensorType
from assay.semantics.walk import post_order
from tests.lower.fuse import fusing
from tests.lower.fuse.fusing import Program, fused, groups, legalized, only_group, random, x
from tests.observation import observe

pytestmark = pytest.mark.row("R23")

CASES: list[tuple[Program, list[list[str]], int]] = [
    (fusing.conv_add_relu, [["nn.conv2d", "add", "nn.relu"]], 1),
    (fusing.conv_norm_clip, [["nn.conv2d", "abs", "nn.batch_norm", "clip"]], 1),
    (fusing.residual, [["matmul", "add", "nn.relu"]], 0),
    (fusing.diamond, [["exp", "negative", "add", "sqrt", "multiply"]], 0),
    (fusing.second_user, [], 0),
    (fusing.transposed, [["exp", "permute_dims", "multiply"]], 0),
    (fusing.summed, [["multiply", "sum"]], 0),
    (fusing.joined, [["exp", "abs", "concat", "negative"]], 0),
    (fusing.around_a_pool, [["nn.max_pool2d", "add"]], 0),
    (fusing.squares, [["matmul", "add", "add", "subtract"]], 0),
]
"""A program, its groups, and how many buffers the fused tensor function still allocates."""


@pytest.mark.parametrize(("program", "wanted", "left"), CASES, ids=lambda c: getattr(c, "__name__", ""))
def test_groups(program: Program, wanted: list[list[str]], left: int) -> None:
    before, after = fused(program)
    check(after)
    assert groups(after) == wanted
    inputs = random(before.main.params)
    one, two = observe(before, inputs), observe(after, inputs)
    assert one.trap is None and one.difference(two) is None
    if wanted:
        assert len(only_group(after).allocations) == left


def test_what_is_fused_is_one_nest_with_one_buffer() -> None:
    """The sum, the bias and the maximum are computed in the result itself."""
    _, after = fused(fusing.conv_add_relu)
    kernel = only_group(after)
    assert [b.name for b in kernel.allocations] == ["x_padded"]
    assert (
        repr(kernel).rstrip().splitlines()[-1].strip()
        == "out[n, o, i2, i3] = T.max((out[0, o, i2, i3] + x2[o, 0, 0]), T.float32(0.0))"
    )


def test_a_second_run_changes_nothing() -> None:
    _, after = fused(fusing.conv_add_relu)
    assert fuse(after) is after


def test_the_first_half_is_functions_that_mean_the_same() -> None:
    before = legalized(*fusing.conv_norm_clip())
    half = fuse_calls(before)
    check(half)
    (group,) = (d for n, d in half.definitions.items() if isinstance(d, Function) and n != "main")
    assert group.attrs == {"primitive": 1}
    assert observe(before, inputs := random(before.main.params)).difference(observe(half, inputs)) is None


def test_groups_of_one_form_share_a_function() -> None:
    a, v = x("a", 3, 4), x("v", 4, 4)
    once = call("nn.relu", call("negative", call("matmul", a, v)))
    module = fuse(legalized([a, v], call("nn.relu", call("negative", call("matmul", once, v)))))
    assert groups(module) == [["matmul", "negative", "nn.relu"]] * 2
    assert sum(GROUP in k.attrs for k in module.kernels.values()) == 1


def test_limits() -> None:
    a = x("a", 3, 4)
    e: Expr = a
    for _ in range(9):
        e = call("exp", e)
    before = legalized([a], e)
    assert [len(g) for g in groups(fuse(before))] == [9]
    assert max(len(g) for g in groups(fuse(before, Limits(calls=4)))) <= 4
    others = [x(f"b{i}", 3, 4) for i in range(6)]
    for b in others:
        e = call("add", e, b)
    wide = fuse(legalized([a, *others], e), Limits(operands=3))
    assert all(len(k.inputs) <= 3 for k in wide.kernels.values() if GROUP in k.attrs)
    assert observe(legalized([a, *others], e), inputs := random([a, *others])).difference(observe(wide, inputs)) is None


def test_an_attribute_keeps_a_call_out() -> None:
    before = legalized(*fusing.conv_add_relu())
    kept = {n: replace(k, attrs={**k.attrs, "op_pattern": 8}) for n, k in before.kernels.items() if n == "add"}
    assert groups(fuse(before.with_(**kept))) == []


def test_what_may_trap_stays_where_it_is() -> None:
    """A division of integers: whether it is reached before the print can be seen."""
    a, b = x("a", 3, of="int32"), x("b", 3, of="int32")
    module = legalized([a, b], call("negative", call("floor_divide", call("abs", a), b)))
    assert groups(fuse(module)) == []


def test_nothing_is_moved_between_branches() -> None:
    b = Builder()
    with b.function("main", a=tensor(3, 4)) as f:
        e = b.exp(f.a)
        with b.if_(b.greater(b.sum(e), 1.0)) as branch:
            with branch.then():
                b.result(b.nn.relu(b.negative(e)))
            with branch.otherwise():
                b.result(b.abs(e))
        b.result(branch.value)
    before = legalize(to_anf(b.module()))
    after = fuse(before)
    check(after)
    calls = [n.func for n in post_order(after.main) if isinstance(n, CallTIR)]
    assert sum(c.startswith("fused") for c in calls) == 1, "the two calls of one branch; what both use stays outside"
    for sign in (1, -9):
        inputs = {"a": np.full((3, 4), sign, np.float32)}
        assert observe(before, inputs).difference(observe(after, inputs)) is None


def test_effects_stay_in_their_order() -> None:
    a = x("a", 3)
    first, done, last = var("first", a.type), var("done", print_(a).type), var("last", a.type)
    kernels = legalized([a], call("nn.relu", call("negative", a))).kernels
    body = let(
        first,
        call_tir("negative", [a], a.type),
        let(done, print_(a), let(last, call_tir("nn_relu", [first], a.type), last)),
    )
    before = Module({**kernels, "main": function([a], body)})
    after = fuse(before)
    check(after)
    assert groups(after) == [["negative", "nn.relu"]]
    assert (
        observe(before, {"a": np.ones(3, np.float32)}).difference(observe(after, {"a": np.ones(3, np.float32)})) is None
    )


def test_constants_are_left_for_folding() -> None:
    a = x("a", 3, 4)
    w = call("nn.relu", call("negative", call("full", shape=(3, 4), fill_value=-2.0, dtype="float32")))
    assert groups(fuse(legalized([a], call("exp", call("add", a, w))))) == [["add", "exp"]]


def test_symbolic_sizes_are_those_of_the_caller() -> None:
    """Both tensor functions have a symbol of their own; the fused one has one for both."""
    n = Symbol("n")
    a = var("a", TensorType((n, 4), FLOAT32))

    def kernel(name: str, operation: str) -> PrimFunc:
        m = Symbol("m")
        p, out = Buffer("p", (m, 4), FLOAT32), Buffer("out", (m, 4), FLOAT32)
        body = loops("i j", (m, 4), lambda i, j: store(out, (i, j), apply(operation, p[i, j])))
        return PrimFunc(
            name, (p, out), 1, body, {"operator": {"neg": "negative"}.get(operation, operation), "attrs": {}}
        )

    first = var("first", a.type)
    last = var("last", a.type)
    body = let(first, call_tir("k1", [a], a.type), let(last, call_tir("k2", [first], a.type), last))
    before = Module({"k1": kernel("k1", "neg"), "k2": kernel("k2", "exp"), "main": function([a], body)})
    after = fuse(before)
    check(after)
    assert groups(after) == [["negative", "exp"]] and only_group(after).allocations == ()
    for rows in (1, 3):
        inputs = {"a": np.arange(rows * 4, dtype=np.float32).reshape(rows, 4)}
        assert observe(before, inputs).difference(observe(after, inputs)) is None


def test_several_results_of_the_last_call() -> None:
    a = x("a", 2, 6)
    before = legalized([a], call("split", call("exp", a), axis=1, sections=(2, 4)))
    after = fuse(before)
    check(after)
    assert groups(after) == [["exp", "split"]] and only_group(after).num_outputs == 2
    inputs = random([a])
    assert observe(before, inputs).difference(observe(after, inputs)) is None


def test_one_value_twice_is_one_operand() -> None:
    a = x("a", 3, 4)
    after = fuse(legalized([a], call("exp", call("multiply", a, a))))
    assert len(only_group(after).inputs) == 1


def test_a_result_does_not_take_the_place_of_what_is_still_read() -> None:
    """The product is read by a store behind the one that is made of it."""
    a, v = x("a", 4, 4), x("v", 4, 4)
    s = call("matmul", a, v)
    after = fuse(
        before := legalized([a, v], call("multiply", call("exp", s), call("permute_dims", call("negative", s))))
    )
    inputs = random([a, v])
    assert observe(before, inputs).difference(observe(after, inputs)) is None


def test_it_runs_in_planned_memory() -> None:
    before, after = fused(fusing.conv_norm_clip)
    planned, smaller = plan_pools(find_lives(before, whole=True)), plan_pools(find_lives(after, whole=True))
    inputs = random(before.main.params)
    (one,), (two,) = machine.run(planned, inputs).values(), machine.run(smaller, inputs).values()
    assert one.tobytes() == two.tobytes() == next(iter(graph.run(before, inputs).values())).tobytes()
    assert (smaller.program.workspace_bytes or 0) < (planned.program.workspace_bytes or 0)


def test_text_keeps_groups() -> None:
    _, after = fused(fusing.diamond)
    back = parse(show(after))
    assert back.group(only_group(back)) is not None
    assert observe(after, inputs := random(after.main.params)).difference(observe(back, inputs)) is None


LONG = 8_000


def test_a_long_chain() -> None:
    a = var("a", TensorType((2,), FLOAT32))
    kernel = legalized([a], call("nn.relu", a)).kernels["nn_relu"]
    names = [a, *(var(f"v{i}", a.type) for i in range(LONG))]
    body: Expr = names[-1]
    for i in reversed(range(LONG)):
        body = let(names[i + 1], call_tir("nn_relu", [names[i]], a.type), body)
    after = fuse(Module({"nn_relu": kernel, "main": function([a], body)}), Limits(calls=16))
    calls = [v for _, v in bindings(after.main) if isinstance(v, CallTIR)]
    assert len(calls) == -(-LONG // 16)
