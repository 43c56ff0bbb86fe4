"""Dead code, canonical bindings and bound parameters: what goes, what stays, and that no run tells the difference."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from assay.interp.graph import run
from assay.lower.simplify.bind_params import bind_params
from assay.lower.simplify.canonical import canonical_bindings
from assay.lower.simplify.dead_code import dead_code, remove_dead_bindings, remove_unreachable
from assay.semantics import graph
from assay.semantics.analyses.equality import first_difference, structural_equal, structural_hash
from assay.semantics.analyses.variables import called
from assay.semantics.builder import Builder, tensor
from assay.semantics.builder.prelude import INT, make_list, prelude_function, with_prelude
from assay.semantics.builder.te import compute
from assay.semantics.devices import VirtualDevice
from assay.semantics.errors import Invalid
from assay.semantics.graph import Call, Expr, Function, Let, MatchCast, Var
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.walk import post_order, rewrite
from tests.lower.small_programs import program
from tests.museum.catalogue import is_caught, planted
from tests.museum.planted import PlantedFault
from tests.observation import observe
from tests.scale import MANY

DEEP = MANY
PASSES: dict[str, Callable[[Module], Module]] = {
    "dead code": dead_code,
    "canonical": canonical_bindings,
    "both": lambda m: dead_code(canonical_bindings(m)),
}


def lets(module: Module, name: str = "main") -> list[str]:
    """The names that a function binds, in order."""
    function = module.definitions[name]
    assert isinstance(function, Function)
    found: list[str] = []
    work: list[Expr] = [function.body]
    while work:
        node = work.pop()
        if isinstance(node, Let):
            found.append(node.var.name)
            work += [node.body, node.value]
        else:
            work += reversed(node.children)
    return found


def built(make: Callable[[Builder, Any], Any], **params: Any) -> Module:
    """A module whose main is what `make` builds."""
    b = Builder()
    with b.function("main", params=params) as f:
        b.result(make(b, f))
    return b.module()


# --- every pass --------------------------------------------------------------------------------------------------


@pytest.mark.row("R24", "R35")
@pytest.mark.parametrize("name", PASSES)
def test_no_run_tells_the_difference(name: str) -> None:
    shorter = traps = 0
    for seed in range(60):
        module, inputs = program(seed)
        before = structural_hash(module)
        result = PASSES[name](module)
        check(result)
        source = observe(module, inputs)
        assert source.difference(observe(result, inputs)) is None, seed
        assert structural_hash(module) == before, "the input is changed"
        assert first_difference(result, PASSES[name](result)) is None, "a second run changes something"
        shorter += len(lets(result)) < len(lets(module))
        traps += source.trap is not None
    assert shorter > 40 and traps > 5  # the programs show something


@pytest.mark.row("R24", "R35")
@planted("dce_faults")
def test_faults_are_caught(fault: PlantedFault) -> None:
    is_caught(fault)


@pytest.mark.row("R24", "R35")
@pytest.mark.parametrize("name", PASSES)
def test_deep_programs(name: str) -> None:
    x = graph.var("x", tensor(3))
    vars = [x]
    values: list[Expr] = []
    for i in range(DEEP // 2):
        values.append(graph.call("nn.relu", vars[-1]) if i % 2 else vars[-1])
        vars.append(graph.var(f"v{i}", tensor(3)))
    body: Expr = vars[-1]
    for v, value in zip(reversed(vars[1:]), reversed(values), strict=True):
        body = graph.let(v, value, body)
    module = Module({"main": graph.function([x], body)})
    result = PASSES[name](module)
    assert len(lets(result)) == (DEEP // 2 if name == "dead code" else DEEP // 4)
    y = np.array([-1, 0, 2], "float32")
    np.testing.assert_array_equal(run(result, {"x": y})["output_0"], np.maximum(y, 0))


# --- dead bindings: the cases of Relay's own test -----------------------------------------------------------------


@pytest.mark.row("R24")
class TestDeadBindings:
    def test_dead_let(self) -> None:
        module = built(lambda b, f: (b.add(f.x, 1), f.x)[1], x=INT)
        assert lets(remove_dead_bindings(module)) == []

    def test_one_live_let(self) -> None:
        def make(b: Builder, f: Any) -> Any:
            live = b.emit(graph.call("add", f.x, f.x), "live")
            b.emit(graph.call("multiply", f.x, live), "dead")
            return b.add(live, live)

        assert lets(remove_dead_bindings(built(make, x=INT))) == ["live", "add"]

    def test_nested_let(self) -> None:
        x = graph.var("x", INT)
        a, dead, out = (graph.var(n, INT) for n in ("a", "dead", "out"))
        inner = graph.let(a, graph.call("add", x, x), graph.let(dead, a, graph.call("add", a, a)))
        main = graph.function([x], graph.let(out, inner, out))
        assert lets(remove_dead_bindings(Module({"main": main}))) == ["out", "a"]

    @pytest.mark.parametrize("is_called", [True, False])
    def test_recursion(self, is_called: bool) -> None:
        def make(b: Builder, f: Any) -> Any:
            with b.closure("count", n=INT, result=INT) as count:
                n = count["n"]
                b.result(b.choose(b.less(n, 1), lambda: n, lambda: count(b.subtract(n, 1))))
            return count(f.x) if is_called else f.x

        module = built(make, x=INT)
        result = remove_dead_bindings(module)
        assert ("count" in lets(result)) == is_called
        assert observe(module, {"x": np.int32(3)}).difference(observe(result, {"x": np.int32(3)})) is None

    def test_projection_of_a_tuple(self) -> None:
        def make(b: Builder, f: Any) -> Any:
            return b.get(b.tuple(b.add(f.x, 1), b.multiply(f.x, 2)), 1)

        module = built(make, x=INT)
        assert "add" in lets(remove_dead_bindings(module))  # the tuple needs it
        assert "add" not in lets(dead_code(canonical_bindings(module)))

    def test_nothing_moves_into_a_function(self) -> None:
        def make(b: Builder, f: Any) -> Any:
            once = b.add(f.x, 1)
            with b.closure("local") as local:
                b.result(b.multiply(once, once))
            return b.add(local(), local())

        module = built(make, x=INT)
        assert first_difference(module, remove_dead_bindings(module)) is None

    @pytest.mark.parametrize(
        "act",
        [
            lambda b, f: b.print(f.x),
            lambda b, f: b.ref(f.x),
            lambda b, f: b.assert_(b.less(f.x, 0)),
            lambda b, f: b.floor_divide(f.x, f.x),
            lambda b, f: b.call(graph.extern("send", [INT], INT), f.x),
        ],
        ids=["print", "reference", "assert", "division", "extern"],
    )
    def test_what_acts_or_fails_stays(self, act: Any) -> None:
        module = built(lambda b, f: (act(b, f), f.x)[1], x=INT)
        assert first_difference(module, remove_dead_bindings(module)) is None

    def test_what_cannot_fail_goes_with_its_operands(self) -> None:
        def make(b: Builder, f: Any) -> Any:
            v = f.x
            for _ in range(5):
                v = b.choose(b.less(v, 3), lambda v=v: b.add(v, 1), lambda v=v: v)  # type: ignore[misc]
            return f.x

        assert lets(remove_dead_bindings(built(make, x=INT))) == []

    def test_a_divisor_that_is_needed_by_a_failure_stays(self) -> None:
        def make(b: Builder, f: Any) -> Any:
            b.floor_divide(f.x, b.subtract(f.x, 1))
            return f.x

        assert lets(remove_dead_bindings(built(make, x=INT))) == ["c", "subtract", "floor_divide"]


@pytest.mark.row("R24")
def test_functions_that_nothing_reaches_go() -> None:
    b = Builder()
    with b.function("main", x=INT) as f:
        xs = make_list(b, INT, f.x)
        by_value = b.tuple(prelude_function("length"), f.x)
        b.result(b.call(b.get(by_value, 0), xs))
    with b.function("unused", x=tensor(2)) as g:
        b.result(b.emit_te(lambda a: compute(a.shape, lambda i: a[i] * 2.0), g.x, name="double"))
    b.table("weights", np.zeros(3, "float32"))
    module = with_prelude(b.module(check=False))
    result = remove_unreachable(module)
    assert set(result.definitions) == {"main", "List", "length"} and not result.constants
    assert set(remove_unreachable(module, ["unused"]).definitions) == {"unused", "double"}
    check(result)
    with pytest.raises(Invalid, match=r"dead_code\.C1"):
        remove_unreachable(module, ["start"])


# --- canonical bindings ------------------------------------------------------------------------------------------


@pytest.mark.row("R35")
class TestCanonical:
    def test_chains_of_names_collapse(self) -> None:
        module = built(lambda b, f: b.add(b.bind(b.bind(b.bind(f.x))), 1), x=INT)
        assert lets(canonical_bindings(module)) == ["c", "add"]

    def test_known_projections(self) -> None:
        def make(b: Builder, f: Any) -> Any:
            nested = b.tuple(f.x, b.tuple(f.y, b.add(f.x, f.y)))
            return b.multiply(b.get(b.get(nested, 1), 0), b.get(b.get(nested, 1), 1))

        module = built(make, x=INT, y=INT)
        assert lets(dead_code(canonical_bindings(module))) == ["add", "multiply"]

    def test_a_tuple_that_is_not_known_stays(self) -> None:
        from assay.semantics.types import TupleType

        module = built(lambda b, f: b.get(f.t, 0), t=TupleType((INT, INT)))
        assert first_difference(module, canonical_bindings(module)) is None

    def test_casts(self) -> None:
        def make(b: Builder, f: Any) -> Any:
            same = b.bind(MatchCast(f.x.type, f.x))
            new = b.match_cast(same, tensor("m", 4))
            return b.shape("m"), new

        module = built(make, x=tensor("n", 4))
        result = canonical_bindings(module)
        casts = [n for n in post_order(graph_of(result)) if isinstance(n, MatchCast)]
        assert len(casts) == 1 and isinstance(casts[0].value, Var) and casts[0].value.name == "x"

    def test_another_device_is_another_value(self) -> None:
        x = graph.var("x", INT)
        there = replace(graph.var("there", INT), device=VirtualDevice("cuda", 0))
        here = graph.var("here", INT)
        body = graph.let(there, x, graph.let(here, x, graph.call("add", there, here)))
        result = canonical_bindings(Module({"main": graph.function([x], body)}))
        assert lets(result) == ["there"]

    def test_marks_stay(self) -> None:
        b = Builder()
        with b.function("main", x=INT) as f:
            with b.dataflow():
                y = b.add(b.bind(f.x), 1)
                z = b.bind(y)
                b.output(z)
            b.result(b.multiply(z, z))
        result = canonical_bindings(b.module())
        marks = [n.dataflow for n in post_order(graph_of(result)) if isinstance(n, Let)]
        marks.reverse()  # outermost first
        assert marks[0] is marks[1] is not None and marks[2] is None

    def test_a_recursive_function_keeps_its_name(self) -> None:
        def make(b: Builder, f: Any) -> Any:
            with b.closure("count", n=INT, result=INT) as count:
                n = count["n"]
                b.result(b.choose(b.less(n, 1), lambda: n, lambda: count(b.subtract(n, 1))))
            return b.call(b.bind(count.ref), f.x)

        module = built(make, x=INT)
        result = canonical_bindings(module)
        assert lets(result).count("count") == 1 and len(lets(result)) == len(lets(module)) - 1
        assert run(result, {"x": np.int32(4)})["output_0"] == 0


def graph_of(module: Module) -> Expr:
    return module.main


# --- bound parameters --------------------------------------------------------------------------------------------


@pytest.mark.row("R18")
class TestBindParams:
    def module(self) -> Module:
        def make(b: Builder, f: Any) -> Any:
            with b.closure("scaled", y=tensor("n", 4)) as scaled:
                b.result(b.multiply(scaled["y"], f.w))
            c = b.less(b.sum(f.x), 0.0)
            chosen = b.choose(c, lambda: scaled(f.x), lambda: b.nn.relu(f.x))
            return chosen, b.shape(b.symbol("n"), b.symbol("n") * 2)

        return built(make, x=tensor("n", 4), w=tensor("n", 4))

    def test_the_others_stay_and_symbols_get_numbers(self) -> None:
        module = self.module()
        w = np.arange(12, dtype="float32").reshape(3, 4)
        bound = bind_params(module, {"w": w})
        check(bound)
        assert [str(p) for p in bound.main.params] == ["<Var Tensor((3, 4), float32)>"]
        for x in (-w, w + 1):
            source, target = (observe(m, i) for m, i in ((module, {"x": x, "w": w}), (bound, {"x": x})))
            assert source.difference(target) is None
        assert structural_equal(module, self.module())

    def test_all_of_them(self) -> None:
        w = np.ones((2, 4), "float32")
        bound = bind_params(self.module(), {"x": w, "w": w})
        check(bound)
        assert bound.main.params == () and run(bound, {})["output_0"].shape == (2, 4)

    @pytest.mark.parametrize(
        ("values", "label"),
        [
            ({"v": np.ones((2, 4), "float32")}, "bind_params.C2"),
            ({"w": np.ones((2, 5), "float32")}, "bind_params.C3"),
            ({"w": np.ones((2, 4), "float64")}, "bind_params.C3"),
            ({"w": np.ones((2, 4), "float32"), "x": np.ones((3, 4), "float32")}, "bind_params.C3"),
        ],
    )
    def test_what_does_not_fit(self, values: Any, label: str) -> None:
        with pytest.raises(Invalid, match=re.escape(label)):
            bind_params(self.module(), values)

    def test_what_others_call(self) -> None:
        b = Builder()
        with b.function("f", x=INT) as f:
            b.result(f.x)
        with b.function("main", x=INT) as g:
            b.result(f(g.x))
        with pytest.raises(Invalid, match=r"bind_params\.C4"):
            bind_params(b.module(), {"x": np.int32(1)}, "f")
        with pytest.raises(Invalid, match=r"bind_params\.C1"):
            bind_params(b.module(), {}, "h")


# --- a worked example --------------------------------------------------------------------------------------------


def fuse_multiply_add(module: Module) -> Module:
    """A rewriting pass in a few lines: add(multiply(a, b), c) of one shape is one tensor function."""
    b = Builder()
    main: Expr = module.main
    values = {n.var: n.value for n in post_order(main) if isinstance(n, Let)}
    kernels: dict[str, Any] = {}

    def change(node: Expr) -> Expr:
        match node:
            case Call(op=op, args=(Var() as product, c)) if getattr(op, "name", "") == "add":
                match values.get(product):
                    case Call(op=inner, args=(x, y)) if getattr(inner, "name", "") == "multiply":
                        types = [x.type, y.type, c.type]
                        if all(structural_equal(t, node.type) for t in types):
                            return fused(x, y, c)
        return node

    def fused(x: Expr, y: Expr, c: Expr) -> Expr:
        from assay.semantics.builder.te import tensor_function

        def formula(a: Any, b: Any, c: Any) -> Any:
            return compute(a.shape, lambda i, j: a[i, j] * b[i, j] + c[i, j])

        types = [e.type for e in (x, y, c)]
        name = b.kernel(tensor_function("multiply_add", formula, types))  # type: ignore[arg-type]
        kernels.update(b.module().kernels)
        return graph.call_tir(name, [x, y, c], x.type)

    result = rewrite(main, change)
    assert isinstance(result, Function)
    return remove_dead_bindings(module.with_(main=result, **kernels))


@pytest.mark.row("R8", "R9")
def test_a_rewriting_pass_in_a_few_lines() -> None:
    def make(b: Builder, f: Any) -> Any:
        first = b.add(b.multiply(f.x, f.y), f.z)
        kept = b.multiply(first, f.y)
        return b.add(kept, f.x), kept

    module = built(make, x=tensor(2, 3), y=tensor(2, 3), z=tensor(2, 3))
    result = fuse_multiply_add(module)
    check(result)
    assert called(result.main).kernels == ("multiply_add",)
    names = [n.op.name for n in post_order(graph_of(result)) if isinstance(n, Call) and not isinstance(n.op, Expr)]
    assert names == ["multiply"]  # the product that is used again is computed once, and kept
    values = {n: np.random.default_rng(i).normal(size=(2, 3)).astype("float32") for i, n in enumerate("xyz")}
    assert observe(module, values).difference(observe(result, values)) is None
    assert first_difference(result, fuse_multiply_add(result)) is None
