"""Common subexpressions and inlined calls: what becomes one, what is opened, and what stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from assay.lower.anf import to_anf
from assay.lower.simplify.common_subexpressions import common_subexpressions
from assay.lower.simplify.dead_code import dead_code, remove_unreachable
from assay.lower.simplify.inline import inline
from assay.semantics import graph
from assay.semantics.analyses.equality import first_difference
from assay.semantics.builder import Builder
from assay.semantics.builder.prelude import INT
from assay.semantics.dtypes import FLOAT32
from assay.semantics.graph import Call, Constant, Function, GlobalVar, If
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.scalar import Var as Symbol
from assay.semantics.types import TensorType
from assay.semantics.walk import post_order
from assay.verify.simplify import check_simplified
from tests.observation import observe

pytestmark = pytest.mark.row("V17")
ONE = {"x": np.int32(3)}


def built(make: Callable[[Builder, Any], Any], **params: Any) -> Module:
    b = Builder()
    with b.function("main", params=params or {"x": INT}) as f:
        b.result(make(b, f))
    return b.module()


def same(source: Module, result: Module, inputs: Any = ONE) -> Module:
    check(result)
    evidence = check_simplified(source, result)
    assert evidence.holds, evidence.detail
    assert observe(source, inputs).difference(observe(result, inputs)) is None
    return result


def count(module: Module, what: str, name: str = "main") -> int:
    function = module.definitions[name]
    assert isinstance(function, Function)
    return sum(graph.show_head(n).startswith(what) for n in post_order(function) if not isinstance(n, graph.Var))


# --- common subexpressions -------------------------------------------------------------------------------------------


def shared(module: Module, inputs: Any = ONE) -> Module:
    return same(module, common_subexpressions(module), inputs)


def test_in_let_form_the_outer_variable_stays() -> None:
    source = built(lambda b, f: b.multiply(b.add(f.x, f.x), b.add(f.x, f.x)))
    result = shared(source)
    assert count(result, "add") == 1 and first_difference(result, to_anf(result)) is None
    assert first_difference(common_subexpressions(result), result) is None


def test_in_graph_form_the_node_is_shared() -> None:
    x = graph.var("x", INT)
    body = graph.call("multiply", graph.call("add", x, x), graph.call("add", x, x))
    result = shared(Module({"main": graph.function([x], body)}))
    assert result.main.body.children[0] is result.main.body.children[1]


def test_equal_terms_of_equal_terms() -> None:
    source = built(lambda b, f: b.subtract(b.negative(b.add(f.x, 1)), b.negative(b.add(f.x, 1))))
    result = shared(source)
    assert count(result, "add") == count(result, "negative") == count(result, "constant") == 1


def test_branches_use_what_is_around_them_and_not_each_other() -> None:
    def make(b: Builder, f: Any) -> Any:
        less = b.less(b.add(f.x, f.x), 7)
        return b.choose(less, lambda: b.multiply(b.add(f.x, f.x), 2), lambda: b.multiply(b.add(f.x, f.x), 2))

    result = shared(built(make))
    assert count(result, "add") == 1 and count(result, "multiply") == 2


def test_what_can_fail_is_shared_where_it_has_succeeded() -> None:
    source = built(lambda b, f: b.add(b.floor_divide(1, f.x), b.floor_divide(1, f.x)))
    for x in (0, 1):
        assert count(shared(source, {"x": np.int32(x)}), "floor_divide") == 1


def test_constants_by_bits() -> None:
    nan = np.array([0x7FC00000, 0x7FC00001], np.uint32).view(np.float32)
    many = [
        np.float32(0.0),
        np.float32(-0.0),
        nan[0],
        nan[1],
        np.float32(0.0),
        np.int32(0),
        np.zeros(1, "float32"),
        nan[1],
    ]
    body = graph.tuple_of(*map(graph.constant, many))
    x = graph.var("x", INT)
    source = Module({"main": graph.function([x], body)})
    result = common_subexpressions(source)
    assert check_simplified(source, result).holds
    assert len({id(n) for n in post_order(result.main) if isinstance(n, Constant)}) == 6


def test_attributes_and_results_count() -> None:
    def make(b: Builder, f: Any) -> Any:
        y = b.broadcast_to(f.x, shape=(2, 2))
        return (
            b.sum(y, axis=(0,)),
            b.sum(y, axis=(1,)),
            b.sum(y, axis=(1,)),
            b.astype(y, dtype="int8"),
            b.astype(y, dtype="int16"),
        )

    assert [count(shared(built(make)), w) for w in ("sum", "astype")] == [2, 2]


def test_what_acts_is_only_itself() -> None:
    source = built(lambda b, f: (b.read(b.ref(f.x)), b.read(b.ref(f.x))))
    assert first_difference(source, common_subexpressions(source)) is None


def test_inner_functions_use_what_is_around_them() -> None:
    def make(b: Builder, f: Any) -> Any:
        outer = b.add(f.x, 5)
        with b.closure("local", a=INT) as local:
            b.result(b.multiply(b.add(f.x, 5), local["a"]))
        return local(outer)

    assert count(shared(built(make)), "add") == 1


# --- inlining --------------------------------------------------------------------------------------------------------


def opened(module: Module, inputs: Any = ONE) -> Module:
    return same(module, inline(module), inputs)


def calls(module: Module, name: str = "main") -> list[str]:
    function = module.definitions[name]
    found = [n.op for n in post_order(function) if isinstance(n, Call) and isinstance(n.op, (GlobalVar, graph.Var))]
    return [op.name for op in found]


def with_function(
    body: Callable[[Builder, Any], Any], main: Callable[[Builder, Any, Any], Any], **params: Any
) -> Module:
    b = Builder()
    with b.function("f", params=params or {"p": INT}) as f:
        b.result(body(b, f))
    with b.function("main", x=INT) as g:
        b.result(main(b, f, g))
    return b.module()


def many(b: Builder, f: Any, times: int) -> Any:
    v = f.p
    for _ in range(times):
        v = b.add(v, f.p)
    return v


@pytest.mark.parametrize(("size", "uses", "left"), [(2, 1, 0), (2, 3, 0), (30, 1, 0), (30, 2, 2)])
def test_small_or_called_once(size: int, uses: int, left: int) -> None:
    def main(b: Builder, f: Any, g: Any) -> Any:
        v = g.x
        for _ in range(uses):
            v = f(v)
        return v

    result = opened(with_function(lambda b, f: many(b, f, size), main))
    assert len(calls(result)) == left
    assert ("f" in remove_unreachable(result).definitions) == bool(left)
    same(result, to_anf(result))


def test_functions_in_functions() -> None:
    b = Builder()
    with b.function("inner", p=INT) as inner:
        b.result(b.add(inner.p, 1))
    with b.function("middle", p=INT) as middle:
        b.result(b.multiply(inner(middle.p), 2))
    with b.function("main", x=INT) as f:
        b.result(b.add(middle(f.x), inner(f.x)))
    result = opened(b.module())
    assert calls(result) == [] and set(dead_code(result).definitions) == {"main"}


def test_local_functions() -> None:
    def make(b: Builder, f: Any) -> Any:
        with b.closure("local", a=INT) as local:
            b.result(many(b, type("P", (), {"p": local["a"]}), 20))
        return local(b.add(f.x, 1))

    assert calls(opened(built(make))) == []


def test_recursive_functions_stay() -> None:
    def make(b: Builder, f: Any) -> Any:
        with b.closure("count", n=INT, result=INT) as local:
            b.result(b.choose(b.less(local["n"], 1), lambda: local["n"], lambda: local(b.subtract(local["n"], 1))))
        return local(f.x)

    source = built(make)
    assert first_difference(source, inline(source)) is None
    p, of = graph.var("p", INT), graph.function([graph.var("q", INT)], graph.var("r", INT)).type
    even, odd = (graph.function([p], graph.call(GlobalVar(of, n), p)) for n in ("odd", "even"))
    x = graph.var("x", INT)
    main = graph.function([x], graph.call(GlobalVar(of, "even"), x))
    source = Module({"even": even, "odd": odd, "main": main})
    assert first_difference(source, inline(source)) is None


def test_actions_keep_their_order() -> None:
    def body(b: Builder, f: Any) -> Any:
        b.print(f.p, format="inside {}")
        return b.add(f.p, 1)

    def main(b: Builder, f: Any, g: Any) -> Any:
        b.print(format="before")
        v = f(g.x)
        b.print(format="after")
        return b.add(v, f(v))

    result = opened(with_function(body, main))
    assert calls(result) == []


def test_arguments_are_evaluated_once_and_used_or_not() -> None:
    def main(b: Builder, f: Any, g: Any) -> Any:
        return f(b.floor_divide(1, g.x))

    source = with_function(lambda b, f: b.constant(1, "int32"), main)
    for x in (0, 1):
        assert calls(opened(source, {"x": np.int32(x)})) == []


@pytest.mark.parametrize("mark", ["primitive", "compiler"])
def test_marked_functions_stay(mark: str) -> None:
    p = graph.var("p", INT)
    f = graph.function([p], graph.call("negative", p), **{mark: "x"})
    x = graph.var("x", INT)
    source = Module({"f": f, "main": graph.function([x], graph.call(GlobalVar(f.type, "f"), x))})
    assert first_difference(source, inline(source)) is None
    assert first_difference(source, common_subexpressions(source)) is None


def test_sizes() -> None:
    """A symbol of the function is the argument's size. A check at its boundary that the types do not make stays."""
    n, m = Symbol("n"), Symbol("m")
    p = graph.var("p", TensorType((n, 4), FLOAT32))
    f = graph.function([p], graph.tuple_of(graph.call("nn.relu", p), graph.shape(n, n * 2)))
    x = graph.var("x", TensorType((m, 4), FLOAT32))
    source = Module({"f": f, "main": graph.function([x], graph.call(GlobalVar(f.type, "f"), x))})
    inputs = {"x": np.ones((2, 4), "float32")}
    assert calls(opened(source, inputs)) == []
    q = graph.var("q", TensorType((n, n), FLOAT32))
    square = graph.function([q], q)
    k = Symbol("k")
    y = graph.var("y", TensorType((m, k), FLOAT32))
    made = graph.call(GlobalVar(square.type, "f"), y)
    source = Module({"f": square, "main": graph.function([y], made)})
    assert calls(opened(source, {"y": np.ones((2, 2), "float32")})) == ["f"]


def test_a_function_that_is_handed_on_stays_callable() -> None:
    def main(b: Builder, f: Any, g: Any) -> Any:
        by_value = b.tuple(f.ref, g.x)
        return b.call(b.get(by_value, 0), f(g.x))

    result = opened(with_function(lambda b, f: b.add(f.p, 1), main))
    assert "f" in remove_unreachable(result).definitions and len(calls(result)) == 1


def test_calls_in_branches() -> None:
    def main(b: Builder, f: Any, g: Any) -> Any:
        return b.choose(b.less(g.x, 1), lambda: f(g.x), lambda: g.x)

    result = opened(with_function(lambda b, f: b.floor_divide(f.p, f.p), main), {"x": np.int32(3)})
    assert calls(result) == [] and any(isinstance(n, If) for n in post_order(result.main))
