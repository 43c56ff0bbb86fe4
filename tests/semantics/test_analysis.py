"""Variables, called functions, reachable definitions and symbols, on programs whose answers are written beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from assay.semantics import graph
from assay.semantics.analyses.dump import dump
from assay.semantics.analyses.variables import (
    all_variables,
    bound_variables,
    called,
    free_symbols,
    free_variables,
    reachable,
    symbols_bound,
    symbols_used,
)
from assay.semantics.builder import Builder, tensor
from assay.semantics.builder.prelude import INT, LIST, cons, list_of, nil, prelude
from assay.semantics.builder.te import compute
from assay.semantics.dtypes import FLOAT32
from assay.semantics.graph import Expr, Var
from assay.semantics.module import Module
from assay.semantics.scalar import Var as Symbol
from assay.semantics.types import DataDef, DataType, FuncType, RefType, TensorType, TupleType, Type

DEEP = 100_000


def t(*dims: Any) -> TensorType:
    return TensorType(dims, FLOAT32)


def names(vars: list[Any]) -> str:
    return " ".join(v.name for v in vars)


@pytest.mark.row("R36")
class TestVariables:
    def program(self) -> tuple[Expr, dict[str, Var]]:
        """fn(x): let f = fn(y): add(add(y, x), free); match (f(x), list): case (a, cons(h, _)): add(a, h)"""
        v = {n: graph.var(n, t(2)) for n in ("x", "y", "free", "a", "h")}
        v["list"] = graph.var("list", list_of(t(2)))
        inner = graph.function([v["y"]], graph.call("add", graph.call("add", v["y"], v["x"]), v["free"]))
        v["f"] = graph.var("f", inner.type)
        pattern = graph.Fields(
            (graph.bind_pattern(v["a"]), graph.Made(cons, (graph.bind_pattern(v["h"]), graph.Wildcard())))
        )
        value = graph.tuple_of(graph.call(v["f"], v["x"]), v["list"])
        body = graph.match(value, (pattern, graph.call("add", v["a"], v["h"])), partial=True)
        return graph.function([v["x"]], graph.let(v["f"], inner, body)), v

    def test_free_bound_all(self) -> None:
        root, _ = self.program()
        assert names(free_variables(root)) == "free list"
        assert names(bound_variables(root)) == "y a h f x"
        assert names(all_variables(root)) == "y x free f list a h"

    def test_a_closed_program_has_no_free_ones(self) -> None:
        for d in prelude().definitions.values():
            if isinstance(d, graph.Function):
                assert free_variables(d) == [] and free_symbols(d) == []
                assert set(bound_variables(d)) <= set(all_variables(d))


@pytest.mark.row("R36", "R24")
class TestCalled:
    def module(self) -> Module:
        b = Builder()
        b.data(LIST)
        b.data(DataDef("Unused", (), {"one": (DataType("List", (INT,)),)}))
        b.declare("odd", [INT], tensor(of="bool"))
        with b.function("even", n=INT, result=tensor(of="bool")) as even:
            n = even["n"]
            odd_ref = b.global_("odd")
            b.result(b.choose(b.equal(n, 0), lambda: b.constant(True), lambda: b.call(odd_ref, b.subtract(n, 1))))
        with b.function("odd", n=INT, result=tensor(of="bool")) as odd:
            m = odd["n"]
            b.result(b.choose(b.equal(m, 0), lambda: b.constant(False), lambda: even(b.subtract(m, 1))))
        with b.function("handed", n=INT) as handed:
            b.result(b.add(handed["n"], 1))
        with b.function("main", n=INT, xs=list_of(INT)) as f:
            b.call(graph.extern("send", [INT], INT), f.n)
            pair = b.tuple(handed, f.n)
            doubled = b.emit_te(lambda x: compute((), lambda: x[()] + x[()]), f.n, name="double")
            first = b.cases(f.xs, (nil, lambda: f.n), ((cons, "h", "_"), lambda h: h))
            b.result((even(doubled), b.call(b.get(pair, 0), first)))
        return b.module()

    def test_what_main_calls(self) -> None:
        found = called(self.module().main)
        assert found.functions == ("handed", "even")
        assert found.kernels == ("double",)
        assert found.externs == ("send",)
        assert found.data == ("List",)

    def test_reachable(self) -> None:
        module = self.module()
        assert reachable(module) == ["main", "handed", "even", "odd", "double", "List"]
        assert reachable(module, ["odd"]) == ["odd", "even"]
        assert reachable(module, ["Unused", "odd"]) == ["Unused", "List", "odd", "even"]


@pytest.mark.row("R36")
class TestSymbols:
    def test_every_binder(self) -> None:
        n, m, k, j = (Symbol(s) for s in "nmkj")
        x, c = graph.var("x", t(n, 4)), graph.var("c", graph.constant(True).type)
        cast = graph.match_cast(x, t(m, 4))
        v = graph.var("v", cast.type)
        opaque = graph.extern("load", [t(n, 4)], t(k, 4), pure=True)
        loaded = graph.call(opaque, v)
        w = graph.var("w", loaded.type)
        assert isinstance(loaded.type, TensorType)
        size = loaded.type.shape[0]
        y = graph.var("y", t(j))
        inner = graph.function([y], graph.shape(j + 1, m))
        body = graph.let(v, cast, graph.let(w, loaded, graph.tuple_of(inner, graph.shape(size * 2))))
        root = graph.function([x, c], body)
        assert names(symbols_bound(root)) == "m k j n"
        assert names(symbols_used(root)) == "j m k"
        assert free_symbols(root) == []
        assert names(free_symbols(body)) == ""  # n has its value from outside, with x
        assert names(symbols_bound(body)) == "m k j"
        assert names(free_symbols(graph.shape(n, m))) == "n m"

    def test_attributes_and_tensor_calls(self) -> None:
        n, m, k = (Symbol(s) for s in "nmk")
        x = graph.var("x", t(n, m))
        reshaped = graph.call("reshape", x, shape=(m, n))
        assert names(symbols_used(reshaped)) == "m n"
        kernel = graph.call_tir("k", [reshaped], t(n * 2), scalars=(k,))
        assert names(symbols_used(graph.function([x], kernel))) == "m n k"
        assert names(free_symbols(graph.function([x], kernel))) == "k"

    def test_symbols_of_a_function_type_are_its_own(self) -> None:
        n = Symbol("n")
        f = graph.GlobalVar(FuncType((t(n),), t(n + 1)), "f")
        assert symbols_bound(f) == [] and symbols_used(f) == []


LINEAR: dict[str, Callable[[Expr], Any]] = {
    "free": free_variables,
    "bound": bound_variables,
    "all": all_variables,
    "called": called,
    "symbols bound": symbols_bound,
    "symbols used": symbols_used,
}


@pytest.mark.row("R36")
@pytest.mark.parametrize("analysis", LINEAR)
def test_large_programs(analysis: str) -> None:
    """Nodes whose types grow with them: what looks into a whole type at each node would take hours."""
    x = graph.var("x", t(Symbol("n")))
    e: Expr = x
    for _ in range(DEEP // 10):
        e = graph.tuple_of(e)
    for _ in range(DEEP // 2):
        e = graph.call("nn.relu", e) if isinstance(e.type, TensorType) else graph.get(graph.tuple_of(e), 0)
    assert LINEAR[analysis](e) is not None


# --- dump --------------------------------------------------------------------------------------------------------


@pytest.mark.row("R34")
class TestDump:
    def test_a_small_program(self) -> None:
        b = Builder()
        with b.function("main", x=tensor("n", 4)) as f:
            b.result(b.choose(b.less(b.sum(f.x), 0.5), lambda: f.x, lambda: b.nn.relu(f.x)))
        assert dump(b.module().main, types=False).splitlines() == [
            "Function",
            "  params[0]: Var x",
            "  body: Let",
            "    var: Var sum",
            "    value: Call op=<operator sum> attrs={axis: None, keepdims: False}",
            "      args[0]: Var x",
            "    body: Let",
            "      var: Var c",
            "      value: Constant 0.5",
            "      body: Let",
            "        var: Var less",
            "        value: Call op=<operator less>",
            "          args[0]: Var sum",
            "          args[1]: Var c",
            "        body: Let",
            "          var: Var if",
            "          value: If",
            "            condition: Var less",
            "            then: Var x",
            "            otherwise: Let",
            "              var: Var relu",
            "              value: Call op=<operator nn.relu>",
            "                args[0]: Var x",
            "              body: Var relu",
            "          body: Var if",
        ]

    def test_sharing_types_and_names(self) -> None:
        x, y = graph.var("x", t(2)), graph.var("x", t(2))
        shared = graph.call("add", x, y)
        assert dump(graph.call("multiply", shared, shared)).splitlines() == [
            "Call op=<operator multiply> : Tensor((2), float32)",
            "  args[0]: #1 Call op=<operator add> : Tensor((2), float32)",
            "    args[0]: Var x : Tensor((2), float32)",
            "    args[1]: Var x'2 : Tensor((2), float32)",
            "  args[1]: #1",
        ]

    def test_every_definition(self) -> None:
        text = dump(prelude())
        assert "List =\n  DataDef List nil() cons(A, List[A])" in text
        assert "Match partial=True" in text and "Bind" in text
        kernels = Builder()
        with kernels.function("main", x=tensor("n")) as f:
            kernels.result(kernels.emit_te(lambda a: compute(a.shape, lambda i: a[i] * 2.0), f.x, name="twice"))
        text = dump(kernels.module())
        assert "PrimFunc twice num_outputs=1" in text and "value=(a[i] * T.float32(2.0))" in text

    @pytest.mark.parametrize("of", [RefType(t(2)), TupleType((t(2), INT)), t(Symbol("n") + 1)], ids=str)
    def test_types(self, of: Type) -> None:
        assert dump(of).splitlines()[0].startswith(str(of).split("(")[0])

    def test_a_long_chain_takes_linear_space(self) -> None:
        e: Expr = graph.var("x", t(2))
        for _ in range(DEEP):
            e = graph.call("nn.relu", e)
        assert len(dump(e)) < 300 * DEEP
