"""Constants folded: the cases of Relay's own test that have a counterpart, and what is not folded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from assay.interp.graph import evaluate, run
from assay.lower.constants.foldable import SMALL
from assay.lower.simplify.fold import fold_constants
from assay.semantics import graph
from assay.semantics.builder import tensor
from assay.semantics.devices import VirtualDevice
from assay.semantics.dtypes import FLOAT32
from assay.semantics.graph import Call, Constant, Expr, GlobalVar, If, Let, OnDevice, Var
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.scalar import Var as Symbol
from assay.semantics.types import TensorType
from assay.semantics.walk import post_order
from assay.verify.simplify import check_simplified
from tests.lower.simplify.simplify_programs import CHIP, HOST, on

pytestmark = pytest.mark.row("V17")
F = tensor(3)
C = np.array([1, 2, 3], "float32")
CUDA = VirtualDevice("cuda")


def folded(body: Callable[[Var], Expr], x: Var | None = None, **constants: Any) -> Expr:
    """The body of main after folding, which the check accepts."""
    x = x or graph.var("x", F)
    module = Module({"main": graph.function([x], body(x))}, constants)
    check(module)
    result = fold_constants(module, evaluate)
    check(result)
    evidence = check_simplified(module, result)
    assert evidence.holds, evidence.detail
    return result.main.body


def calls(body: Expr) -> list[str]:
    return [graph.show_head(n).split("(")[0] for n in post_order(body) if isinstance(n, Call)]


def data(node: Expr) -> np.ndarray[Any, Any]:
    assert isinstance(node, Constant)
    return node.data


def let_of(*bound: tuple[str, Callable[..., Expr]]) -> Expr:
    vars: list[Var] = []
    values: list[Expr] = []
    for name, make in bound:
        values.append(make(*vars))
        vars.append(Var(values[-1].type, name, device=values[-1].device))
    body: Expr = vars[-1]
    for v, value in zip(reversed(vars), reversed(values), strict=True):
        body = graph.let(v, value, body)
    return body


def test_concatenate_const() -> None:
    c = graph.constant(C)
    assert data(folded(lambda x: graph.call("concat", c, c, axis=0))).tolist() == [1, 2, 3, 1, 2, 3]


def test_fold_const() -> None:
    c = graph.constant(C)
    y = graph.call("multiply", graph.call("add", c, c), graph.constant(np.float32(2)))
    body = folded(lambda x: graph.call("add", graph.call("add", x, y), c))
    assert calls(body) == ["add", "add"]
    inner = body.children[0].children[1]
    assert data(inner).tolist() == [4, 8, 12]


def test_fold_const_of_the_table() -> None:
    c = GlobalVar(F, "weight")
    body = folded(lambda x: graph.call("add", x, graph.call("negative", c)), weight=C)
    assert calls(body) == ["add"] and data(body.children[1]).tolist() == [-1, -2, -3]


def test_fold_const_with_on_device() -> None:
    """What an annotation stands on is folded, and the annotation stays. What it said of operands is said by the
    result."""
    c = graph.on_device(graph.constant(C), CUDA, constrain_result=True)
    body = folded(lambda x: graph.call("add", x, graph.on_device(graph.call("add", c, c), CUDA)))
    wrapper = body.children[1]
    assert isinstance(wrapper, OnDevice) and wrapper.wanted == CUDA
    assert data(wrapper.value).tolist() == [2, 4, 6] and wrapper.value.device == CUDA


def test_a_free_result_stays_free() -> None:
    """A user's annotation says nothing of what is computed from it."""
    c = graph.on_device(graph.constant(C), CUDA)
    body = folded(lambda x: graph.call("add", x, graph.call("add", c, c)))
    assert data(body.children[1]).tolist() == [2, 4, 6] and body.children[1].device == VirtualDevice()


def test_what_is_contradictory_stays() -> None:
    one, two = on(graph.constant(C), CHIP), on(graph.constant(C), HOST)
    assert calls(folded(lambda x: graph.call("add", x, graph.call("add", one, two)))) == ["add", "add"]


@pytest.mark.parametrize("wrapped", [False, True])
def test_fold_let(wrapped: bool) -> None:
    """Names stay; a binding that only folded calls used goes."""

    def at(value: Expr) -> Expr:
        return graph.on_device(value, CUDA, constrain_result=True) if wrapped else value

    def body(x: Var) -> Expr:
        return let_of(
            ("t1", lambda: at(graph.constant(C))),
            ("t2", lambda t1: at(graph.call("add", t1, t1))),
            ("t3", lambda t1, t2: at(graph.call("add", t2, x))),
        )

    found = folded(body)
    lets = {n.var.name: n.value for n in post_order(found) if isinstance(n, Let)}
    assert calls(found) == ["add"]
    inner = lets["t2"]
    if wrapped:
        assert isinstance(inner, OnDevice) and inner.wanted == CUDA
        inner = inner.value
        assert isinstance(lets["t3"], OnDevice)
    assert data(inner).tolist() == [2, 4, 6]


def test_a_variable_that_is_still_used_keeps_its_binding() -> None:
    c = graph.constant(C)
    found = folded(lambda x: let_of(("t", lambda: graph.call("add", c, c)), ("u", lambda t: graph.call("add", t, x))))
    assert [n.var.name for n in post_order(found) if isinstance(n, Let)] == ["u", "t"]
    found = folded(
        lambda x: let_of(
            ("t", lambda: graph.call("add", c, c)),
            ("u", lambda t: graph.call("negative", t)),
            ("v", lambda t, u: graph.call("add", u, x)),
        )
    )
    assert [n.var.name for n in post_order(found) if isinstance(n, Let)] == ["v", "u"]


def test_what_is_folded_cannot_fail_any_more() -> None:
    """Of integers by 2: its binding goes, and what is around it is folded."""
    six, two = (graph.constant(np.array(k, "int32")) for k in (6, 2))
    lets = let_of(("t", lambda: graph.call("floor_divide", six, two)), ("u", lambda t: graph.call("add", t, two)))
    assert data(folded(lambda x: graph.call("negative", lets))) == -5


def test_fold_tuple() -> None:
    c = graph.constant(C)
    body = folded(
        lambda x: graph.call(
            "add", graph.get(graph.tuple_of(c, c), 1), graph.call("add", x, graph.get(graph.tuple_of(x, c), 1))
        )
    )
    assert isinstance(body.children[0], Constant) and calls(body) == ["add", "add"]


def test_fold_split() -> None:
    halves = graph.call("split", graph.constant(np.arange(6, dtype="float32")), sections=(3, 3), axis=0)
    body = folded(lambda x: graph.call("add", x, graph.get(halves, 1)))
    assert calls(body) == ["add"] and data(body.children[1]).tolist() == [3, 4, 5]


@pytest.mark.parametrize("truth", [True, False])
def test_fold_if(truth: bool) -> None:
    condition = graph.call("logical_not", graph.constant(np.bool_(not truth)))
    body = folded(lambda x: graph.if_(condition, graph.call("add", x, x), graph.call("negative", x)))
    assert calls(body) == (["add"] if truth else ["negative"])


def test_fold_shape_of() -> None:
    """A size is known though the tensor is not; it is where the sizes are, not where the tensor is."""
    x = replace(graph.var("x", tensor(3, 5)), device=CHIP)
    body = folded(lambda x: on(graph.call("shape_of", x), HOST), x)
    assert data(body).tolist() == [3, 5] and body.device == HOST
    unknown = graph.var("y", TensorType((Symbol("n"), 5), FLOAT32))
    assert calls(folded(lambda y: graph.call("shape_of", y), unknown)) == ["shape_of"]


def test_a_size_of_what_may_fail_waits_for_it() -> None:
    def quotient(x: Expr) -> Expr:
        as_int = graph.call("astype", graph.constant(np.zeros(3, "float32")), dtype="int32")
        return graph.call("floor_divide", graph.call("astype", graph.call("floor", x), dtype="int32"), as_int)

    assert "shape_of" in calls(folded(lambda x: graph.call("shape_of", quotient(x))))


def test_fold_ndarray_size() -> None:
    body = folded(lambda x: graph.call("prod", graph.call("shape_of", x), axis=None, keepdims=False))
    assert data(body) == 3


def test_fold_batch_norm() -> None:
    c = [graph.constant(np.full(3, k, "float32")) for k in (1, 2, 3, 4)]
    x = graph.var("x", tensor(1, 3, 2, 2))
    body = folded(lambda x: graph.call("nn.batch_norm", x, *(graph.call("add", k, k) for k in c)), x)
    assert calls(body) == ["nn.batch_norm"] and all(isinstance(n, Constant) for n in body.children[1:])


def test_a_copy_of_a_constant_is_the_constant_there() -> None:
    body = folded(lambda x: graph.device_copy(on(graph.constant(C), HOST), CHIP))
    assert data(body) is not None and body.device == CHIP


@pytest.mark.parametrize(
    "make",
    [
        lambda: graph.call("floor_divide", *(graph.constant(np.array(k, "int32")) for k in (1, 0))),
        lambda: graph.call("broadcast_to", graph.constant(np.float32(1)), shape=(SMALL,)),
        lambda: graph.get(graph.tuple_of(graph.print_(), graph.constant(C)), 1),
        lambda: graph.call(graph.extern("f", [F], F, pure=True), graph.constant(C)),
    ],
    ids=["trap", "much larger", "action", "extern"],
)
def test_what_is_not_folded(make: Callable[[], Expr]) -> None:
    before = make()
    after = folded(lambda x: before)
    assert type(after) is type(before)


def test_what_is_made_of_nothing_may_be_large() -> None:
    """A weight that a model says by one number."""
    full = graph.call("full", shape=(SMALL,), fill_value=0, dtype="float32")
    assert isinstance(folded(lambda x: full), Constant)


def test_a_recursive_function_is_not_run() -> None:
    p = graph.var("p", F)
    f = graph.function([p], graph.call(GlobalVar(graph.function([p], p).type, "f"), p))
    main = graph.function([], graph.call(GlobalVar(f.type, "f"), graph.constant(C)))
    result = fold_constants(Module({"f": f, "main": main}), evaluate)
    assert isinstance(result.main.body, Call)


def test_weights_are_let_go() -> None:
    """Of a chain of constants only the last stays, whether it is nested or named."""
    big = graph.constant(np.ones((64, 64), "float32"))

    def chain(x: Var) -> Expr:
        return let_of(
            ("a", lambda: graph.call("permute_dims", big)),
            ("b", lambda a: graph.call("negative", graph.call("negative", a))),
            ("c", lambda a, b: graph.call("matmul", x, b)),
        )

    x = graph.var("x", tensor(2, 64))
    found = [n for n in post_order(folded(chain, x)) if isinstance(n, Constant)]
    assert len(found) == 1
    module = Module({"main": graph.function([x], chain(x))})
    value = np.ones((2, 64), "float32")
    assert (run(fold_constants(module, evaluate), {"x": value})["output_0"] == 64).all()


def test_choices_in_choices() -> None:
    yes, no = graph.constant(np.bool_(True)), graph.constant(np.bool_(False))
    body = folded(lambda x: graph.if_(graph.if_(yes, no, yes), x, graph.call("negative", x)))
    assert calls(body) == ["negative"] and not any(isinstance(n, If) for n in post_order(body))
