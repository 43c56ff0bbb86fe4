"""A `main` of tensors is the `main` of tuples (specs/lower.md, "Import")."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from assay.interp import graph
from assay.lower.frontends.flat_main import with_flat_main
from assay.semantics.dtypes import FLOAT32, INT32
from assay.semantics.errors import Invalid
from assay.semantics.graph import Expr, Function, GlobalVar, call, constant, function, get, if_, tuple_of, var
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.scalar import Var as Symbol
from assay.semantics.types import FuncType, TensorType, TupleType
from assay.semantics.walk import post_order
from assay.verify.border.values import to_arrays

T = TensorType((2,), FLOAT32)
PAIR = TupleType((T, TupleType((T, TupleType(())))))


def nested(depth: int = 1) -> Module:
    p, q = var("p", PAIR), var("q", T)
    result: Expr = tuple_of(call("subtract", get(p, 0), get(get(p, 1), 0)), p)
    for _ in range(depth):
        result = tuple_of(result, call("add", q, get(p, 0)))
    return Module({"main": function([p, q], result, outputs=("first", "second"))})


@pytest.mark.parametrize("depth", [1, 2, 2000])
def test_the_same_values_by_name(depth: int) -> None:
    module, flat = nested(depth), with_flat_main(nested(depth))
    check(flat)
    a, b, c = (np.float32([i, -i]) for i in (1, 2, 3))
    want = to_arrays(graph.run(module, {"p": (a, (b, ())), "q": c}))
    got = graph.run(flat, {"p.0": a, "p.1.0": b, "q": c})
    assert list(got) == list(want) and all(np.array_equal(got[n], want[n]) for n in want)


def test_what_is_flat_stays() -> None:
    x = var("x", T)
    module = Module({"main": function([x], tuple_of(x, call("exp", x)))})
    assert with_flat_main(module) is module
    flat = with_flat_main(nested())
    assert with_flat_main(flat) is flat


def test_who_calls_main_calls_the_one_that_was_there() -> None:
    module = nested()
    p, q = var("p", PAIR), var("q", T)
    flat = with_flat_main(module.with_(caller=function([p, q], call(GlobalVar(module.main.type, "main"), p, q))))
    check(flat)
    assert str(flat.main.type) == str(with_flat_main(module).main.type) != str(module.main.type)
    a, b, c = (np.float32([i, -i]) for i in (1, 2, 3))
    caller = flat.definitions["caller"]
    assert isinstance(caller, Function)
    got = to_arrays(graph.run(flat.with_(main=replace(caller, attrs=module.main.attrs)), {"p": (a, (b, ())), "q": c}))
    want = to_arrays(graph.run(module, {"p": (a, (b, ())), "q": c}))
    assert list(got) == list(want) and all(np.array_equal(got[n], want[n]) for n in want)


def counting_down(through: bool) -> Module:
    """A `main` that calls itself with the parts of a tuple exchanged, `through` another function or at once; its result
    has a size of its own."""
    n, p = var("n", TensorType((), INT32)), var("p", TupleType((T, TensorType((Symbol("m"),), FLOAT32))))
    kind = FuncType((n.type, p.type), TensorType((Symbol("k"),), FLOAT32))
    again: Expr = call(GlobalVar(kind, "main"), call("subtract", n, constant(np.int32(1))), p)
    made = {}
    if through:
        q = [replace(v) for v in (n, p)]
        made["other"] = function(q, call(GlobalVar(kind, "main"), *q), kind.result)
        again = replace(again, op=GlobalVar(kind, "other"))
    both = call("concat", get(p, 0), get(p, 1))
    body = if_(call("greater", n, constant(np.int32(0))), again, both)
    return Module({"main": function([n, p], body, kind.result), **made})


@pytest.mark.parametrize("through", [True, False])
def test_who_calls_itself_is_called(through: bool) -> None:
    module, flat = counting_down(through), with_flat_main(counting_down(through))
    check(flat)
    assert "main" not in {n.name for d in flat.graphs.values() for n in post_order(d) if isinstance(n, GlobalVar)}
    assert with_flat_main(flat) is flat
    a, b = np.float32([1, 2]), np.float32([3, 4, 5])
    (want,) = to_arrays(graph.run(module, {"n": np.int32(3), "p": (a, b)})).values()
    (got,) = graph.run(flat, {"n": np.int32(3), "p.0": a, "p.1": b}).values()
    assert np.array_equal(got, want)


def test_names_that_would_be_one() -> None:
    p, q = var("p", PAIR), var("p.0", T)
    with pytest.raises(Invalid, match=r"p\.0 is the name of two tensors") as caught:
        with_flat_main(Module({"main": function([p, q], tuple_of(p, q))}))
    assert caught.value.label == "parts.C1"


def test_a_wrong_order_would_be_seen() -> None:
    """The planted fault: two results of one type exchanged."""
    module, flat = nested(), with_flat_main(nested())
    names = list(flat.main.attrs["outputs"])
    names[0], names[1] = names[1], names[0]
    wrong = flat.with_(main=replace(flat.main, attrs={"outputs": tuple(names)}))
    a, b, c = (np.float32([i, -i]) for i in (1, 2, 3))
    want = to_arrays(graph.run(module, {"p": (a, (b, ())), "q": c}))
    got = graph.run(wrong, {"p.0": a, "p.1.0": b, "q": c})
    assert any(not np.array_equal(got[n], want[n]) for n in want)
