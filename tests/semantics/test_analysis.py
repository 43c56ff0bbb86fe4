"""Variables, called functions, reachable definitions and symbols, on programs whose answers are written beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
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
from assay.semantics.devices import VirtualDevice
from assay.semantics.dtypes import FLOAT32
from assay.semantics.errors import Span
from assay.semantics.graph import Expr, Var
from assay.semantics.module import Module, Program
from assay.semantics.scalar import Var as Symbol
from assay.semantics.tensor import AllocateConst, Buffer, Call as TensorCall, PrimFunc, Seq, loops, seq, store
from assay.semantics.types import DataDef, DataType, FuncType, RefType, TensorType, TupleType, Type, TypeVar
from tests.scale import MANY

DEEP = MANY


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
        pattern = graph.Fields((graph.Bind(v["a"]), graph.Made(cons, (graph.Bind(v["h"]), graph.Wildcard()))))
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

    def test_data_types_are_met_in_types_and_in_patterns(self) -> None:
        of, xs = DataDef("Of", (), {"of": (DataType("In"),)}), graph.var("xs", TupleType((t(2), list_of(INT))))
        inside = graph.Made(graph.constructor(DataDef("In", (), {"in": ()}), "in"), ())
        x, y = graph.var("x", DataType("Of")), graph.var("y", t(2))
        opened = graph.match(x, (graph.Made(graph.constructor(of, "of"), (inside,)), y), partial=True)
        assert called(opened).data == ("Of", "In")
        assert called(xs).data == ("List",)
        a = TypeVar("A")
        makes = graph.var("f", FuncType((), t(2), type_params=(a,)))
        assert called(graph.call(makes, type_args=[DataType("Arg")])).data == ("Arg",)
        unused = graph.let(graph.var("u", t(2)), y, y)
        assert names(all_variables(unused)) == "y u"

    def test_what_tensor_functions_need(self) -> None:
        c, out = Buffer("c", (2,), FLOAT32), Buffer("out", (2,), FLOAT32)
        calls = seq(
            TensorCall("inner", (out,)), TensorCall("send", (out,), extern=True), AllocateConst(c, None, Seq(()), "w")
        )
        own = AllocateConst(c, np.zeros(2, "float32"), Seq(()), "")
        empty = PrimFunc("inner", (out,), 1, Seq(()))
        functions = {"k": PrimFunc("k", (out,), 1, seq(calls, own)), "inner": empty, "send": empty}
        module = Module(functions, {"w": np.zeros(2, "float32"), "": np.zeros(1)})
        assert reachable(module, ["k"]) == ["k", "inner", "w"]
        assert reachable(module, ["nobody", "w"]) == ["w"]
        group = graph.function([graph.var("x", t(2))], graph.constant(1.0))
        whole = Module({"k": PrimFunc("k", (out,), 1, Seq(()), attrs={"group": "g"}), "g": group})
        assert reachable(whole, ["k"]) == ["k", "g"]


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

    def test_who_binds_and_who_uses_a_size(self) -> None:
        """A pattern's variable and a match-cast bind theirs; a computed dim and a declared result use theirs."""
        n, m, k = (Symbol(s) for s in "nmk")
        box = DataDef("Box", (), {"box": (t(m),)})
        b, v = graph.var("b", DataType("Box")), graph.var("v", t(m))
        opened = graph.match(b, (graph.Made(graph.constructor(box, "box"), (graph.Bind(v),)), v), partial=True)
        assert names(symbols_bound(opened)) == "m" and symbols_used(opened) == []
        x = graph.var("x", t(n))
        assert symbols_bound(x) == [] and symbols_bound(graph.call("nn.relu", x)) == []
        cast = graph.match_cast(x, t(m + 1))
        assert names(symbols_used(cast)) == "m" and names(symbols_bound(graph.match_cast(x, t(m)))) == "m"
        full = graph.call("full", shape=(k,), fill_value=0.0)
        assert symbols_bound(full) == [] and names(symbols_used(full)) == "k" and names(free_symbols(full)) == "k"
        pair = graph.var("p", TupleType((t(n + 1), TupleType((t(k * 2), t(m))))))
        taken = graph.function([pair], pair)
        assert names(symbols_used(taken)) == "n k" and names(symbols_bound(taken)) == "m"
        grows = graph.function([x], graph.match_cast(x, t(k)), t(k))
        assert names(symbols_bound(grows)) == "k n"


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

    def test_what_a_node_says_of_itself(self) -> None:
        """Types, devices, places in a source, contents and buffers."""
        n, a = Symbol("n"), TypeVar("A")
        x, v = graph.var("x", t(n)), graph.var("v", a)
        copied = replace(graph.call("nn.relu", x, span=Span("a.py", line=3, column=7)), device=VirtualDevice("cuda", 0))
        assert dump(graph.on_device(copied, VirtualDevice("cpu", scope="global")), types=False).splitlines() == [
            "OnDevice wanted=cpu:global constrain_body=True constrain_result=False",
            "  value: Call op=<operator nn.relu> on cuda:0 at a.py:3:7",
            "    args[0]: Var x",
        ]
        assert "wanted" not in dump(graph.on_device(x))
        identity = graph.function([v], v, type_params=[a])
        assert dump(graph.call(identity, x, type_args=[x.type])).splitlines() == [
            "Call type_args=(Tensor((n), float32)) : Tensor((n), float32)",
            "  op: Function : Callable((A), A)",
            "    params[0]: Var v : A",
            "    body: Var v : A",
            "  args[0]: Var x : Tensor((n), float32)",
        ]
        pair, f = TupleType((t(2), t(n))), graph.GlobalVar(FuncType((), t(2)), "f")
        assert dump(graph.call(graph.var("g", FuncType((), a, type_params=(a,))), type_args=[pair]),
            types=False).splitlines() == [
            "Call type_args=(Tuple(Tensor((2), float32), Tensor((n), float32)))", "  op: Var g",
        ]  # fmt: skip
        assert dump(f, types=False) == "GlobalVar name='f'"
        assert dump(graph.var("", t(2)), types=False) == "Var var" and dump(n + 1) == "(n + 1)"
        assert dump(graph.constant(np.arange(8)), types=False) == "Constant [0, 1, 2, 3, 4, 5, 6, 7]"
        assert dump(graph.constant(np.arange(9)), types=False) == "Constant 9 elements"
        assert dump(Module({}, {"w": np.zeros((2, 3), "float32")})) == "w = constant float32(2, 3)"
        assert dump(Program({}, (), (), (), pools=())) == "Program of 0 steps over 0 slots"

    def test_tensor_functions_and_their_constants(self) -> None:
        b, c = Buffer("b", (Symbol("n"), 2), FLOAT32), Buffer("c", (2,), FLOAT32)
        writes = loops("i", (2,), lambda i: store(b, (0, i), c[i]))
        assert dump(PrimFunc("k", (b,), 1, AllocateConst(c, None, writes, "w"))).splitlines() == [
            "PrimFunc k num_outputs=1",
            "  params[0]: Buffer b (n, 2) float32 global",
            "  body: AllocateConst constant w",
            "    buffer: Buffer c (2) float32 global",
            "    body: For var=i extent=2 kind='serial'",
            "      body: Store indices=(0, i) value=c[i]",
            "        buffer: Buffer b (n, 2) float32 global",
        ]
        assert dump(AllocateConst(c, np.ones(2, "float32"), Seq(()), "")).startswith("AllocateConst [1.0, 1.0]\n")

    def test_what_is_shared_is_written_once(self) -> None:
        e: Expr = graph.var("x", t(2))
        for _ in range(60):
            e = graph.call("add", e, e)
        assert len(dump(e).splitlines()) == 1 + 2 * 60

    def test_a_long_chain_takes_linear_space(self) -> None:
        e: Expr = graph.var("x", t(2))
        for _ in range(DEEP):
            e = graph.call("nn.relu", e)
        text = dump(e, types=False)
        assert len(text) < 300 * DEEP
        lines = text.splitlines()
        assert lines[60].startswith("  " * 60 + "args[0]: Call") and lines[61].startswith(
            "  " * 60 + "[61] args[0]: Call"
        )
