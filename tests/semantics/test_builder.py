"""The builder: models in a few lines, what they mean, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from assay.interp.graph import run
from assay.lower.anf import to_anf
from assay.semantics import graph
from assay.semantics.analyses.equality import first_difference, structural_equal
from assay.semantics.builder import Builder, func_type, tensor, tuple_type
from assay.semantics.builder.prelude import INT, LIST, cons, list_of, nil, prelude
from assay.semantics.builder.te import compute, reduce, tensor_function
from assay.semantics.errors import Invalid
from assay.semantics.graph import CallTIR, Expr, Function, If, Let, Match
from assay.semantics.graph.nodes import ATOMS
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.tensor import Buffer, Stmt, loops, store
from assay.semantics.types import FuncType, TensorType
from assay.semantics.walk import post_order
from tests.lower.small_programs import program
from tests.observation import observe
from tests.scale import MANY

DEEP = MANY


def results(module: Module, **inputs: Any) -> list[Any]:
    check(module)
    return [np.asarray(v).tolist() for v in run(module, inputs).values()]


def f32(*data: Any) -> Any:
    return np.array(data, "float32")


def normal(module: Module) -> bool:
    """Whether every operand is an atom, and every name is unique in its top-level function."""
    for d in module.definitions.values():
        if not isinstance(d, Function):
            continue
        names: list[str] = []
        root: Expr = d
        for node in post_order(root):
            match node:
                case Function():
                    names += [p.name for p in node.params]
                    ends: list[Expr] = [node.body]
                case Let():
                    names.append(node.var.name)
                    ends = [node.body]
                case If():
                    ends = [node.then, node.otherwise]
                    if not isinstance(node.condition, ATOMS):
                        return False
                case Match():
                    ends = [c.body for c in node.clauses]
                    names += [v.name for c in node.clauses for v in c.vars]
                    if not isinstance(node.value, ATOMS):
                        return False
                case _:
                    ends = []
                    if not all(isinstance(c, ATOMS) for c in node.children):
                        return False
            if not all(isinstance(e, (*ATOMS, Let)) for e in ends):
                return False
        if len(set(names)) != len(names):
            return False
    return True


# --- models ------------------------------------------------------------------------------------------------------


@pytest.mark.row("R1", "R3", "R14")
def test_a_branchy_model() -> None:
    b = Builder()
    with b.function("main", x=tensor("n", 4), w=tensor(4, 2)) as (x, w):
        with b.dataflow():
            y = b.nn.relu(b.matmul(x, w))
            z = b.emit_te(lambda a: compute(a.shape, lambda i, j: a[i, j] * 2.0), y, name="double")
            b.output(y, z)
        with b.if_(b.less(b.sum(z), 10.0)) as branch:
            with branch.then():
                b.result(b.add(z, 1.0))
            with branch.otherwise():
                b.result(y)
        b.result(branch.value)
    module = b.module()
    assert normal(module)
    assert results(module, x=np.ones((1, 4), "float32"), w=np.ones((4, 2), "float32")) == [[[4.0, 4.0]]]
    assert results(module, x=f32([0, 1, 0, 0]), w=np.ones((4, 2), "float32")) == [[[3.0, 3.0]]]
    outer = [n for n in post_order(main_of(module)) if isinstance(n, Let) and n.dataflow]
    assert len(outer) == 3 and len({id(n.dataflow) for n in outer}) == 1


def main_of(module: Module) -> Expr:
    return module.main


@pytest.mark.row("R1", "R3")
class TestNormalForm:
    def test_nested_expressions(self) -> None:
        b = Builder()
        with b.function("main", params={"x": INT}) as f:
            x = f["x"]
            nested = graph.call("add", graph.call("multiply", x, x), graph.call("negative", graph.call("abs", x)))
            b.result(nested)
        assert normal(b.module())
        assert results(b.module(), x=np.int32(-3)) == [6]

    def test_what_is_shared_is_bound_once(self) -> None:
        b = Builder()
        with b.function("main", x=INT) as f:
            shared = graph.call("multiply", f.x, f.x)
            first = b.emit(graph.call("add", shared, shared))
            branch = b.choose(b.less(first, 9), lambda: graph.call("negative", shared), lambda: b.emit(shared))
            b.result(graph.tuple_of(branch, shared))
        names = [n.var.name for n in post_order(main_of(b.module())) if isinstance(n, Let)]
        assert names.count("multiply") == 1 and normal(b.module())
        assert results(b.module(), x=np.int32(2)) == [-4, 4]

    def test_lets_inside_become_bindings(self) -> None:
        b = Builder()
        with b.function("main", x=INT) as f:
            v, w, alias = (graph.var(n, INT) for n in ("v", "v", "alias"))
            inner = graph.let(w, graph.call("add", f.x, f.x), graph.let(alias, w, graph.call("multiply", alias, w)))
            b.result(graph.call("subtract", graph.let(v, inner, graph.call("add", v, v)), f.x))
        assert normal(b.module())
        assert results(b.module(), x=np.int32(3)) == [2 * 36 - 3]

    def test_a_recursive_let_inside(self) -> None:
        b = Builder()
        n = graph.var("n", INT)
        f = graph.var("f", FuncType((INT,), INT))
        less = graph.call("less", n, graph.constant(1, "int32"))
        again = graph.call(f, graph.call("subtract", n, graph.constant(1, "int32")))
        loop = graph.function([n], graph.if_(less, n, again), INT, pure=True)
        with b.function("main", x=INT) as main:
            b.result(graph.let(f, loop, graph.call(f, main.x)))
        assert results(b.module(), x=np.int32(5)) == [0]

    def test_branches_that_are_given_whole_stay(self) -> None:
        b = Builder()
        with b.function("main", x=INT) as f:
            shared = graph.call("multiply", f.x, f.x)
            bound = b.emit(shared)
            b.result(graph.if_(b.less(f.x, 0), graph.call("negative", shared), graph.call("floor_divide", f.x, f.x)))
        module = b.module()
        (branch,) = [n for n in post_order(main_of(module)) if isinstance(n, If)]
        assert branch.then.children == (bound,)
        assert results(module, x=np.int32(-2)) == [-4]
        assert observe(module, {"x": np.int32(0)}).trap is not None

    def test_actions_in_order_and_once(self) -> None:
        b = Builder()
        with b.function("main", x=INT) as f:
            cell = b.ref(f.x)
            before = graph.read(cell)
            b.emit(before)
            b.write(cell, b.add(f.x, 1))
            b.print(before, format="was {}")
            b.assert_(b.less(f.x, 100))
            b.result((before, graph.read(cell)))
        assert results(b.module(), x=np.int32(5)) == [5, 6]
        (event,) = observe(b.module(), {"x": np.int32(5)}).trace
        assert (event.kind, event.name) == ("print", "was {}")

    def test_many_calls(self) -> None:
        b = Builder()
        with b.function("main", x=tensor(2)) as f:
            e: Expr = f.x
            for _ in range(DEEP):
                e = graph.call("nn.relu", e)
            b.result(e)
        body = b.module(check=False).main.body
        count = 0
        while isinstance(body, Let):
            body, count = body.body, count + 1
        assert count == DEEP


@pytest.mark.row("R16", "R3")
class TestFunctions:
    def test_closures(self) -> None:
        b = Builder()
        with b.function("main", x=INT, y=INT) as f:
            with b.closure("adder", a=INT) as adder:
                with b.closure("inner", c=INT) as inner:
                    b.result(b.add(b.add(adder["a"], inner["c"]), f.x))
                b.result(inner)
            b.result(b.call(adder(f.y), 10))
        assert normal(b.module())
        assert results(b.module(), x=np.int32(1), y=np.int32(2)) == [13]

    def test_recursion(self) -> None:
        b = Builder()
        with b.function("main", x=INT) as f:
            with b.closure("factorial", n=INT, result=INT) as fact:
                n = fact["n"]
                one = b.constant(1, "int32")
                b.result(b.choose(b.less(n, 2), lambda: one, lambda: b.multiply(n, fact(b.subtract(n, 1)))))
            b.result(fact(f.x))
        assert results(b.module(), x=np.int32(5)) == [120]

    def test_functions_that_call_each_other(self) -> None:
        b = Builder()
        flag = tensor(of="bool")
        odd_ref = b.declare("odd", [INT], flag)
        with b.function("even", n=INT, result=flag) as even:
            n = even["n"]
            b.result(b.choose(b.less(n, 1), lambda: b.constant(True), lambda: b.call(odd_ref, b.subtract(n, 1))))
        with b.function("odd", n=INT) as odd:
            m = odd["n"]
            b.result(b.choose(b.less(m, 1), lambda: b.constant(False), lambda: even(b.subtract(m, 1))))
        with b.function("main", x=INT) as f:
            b.result((even(f.x), odd(f.x)))
        assert results(b.module(), x=np.int32(7)) == [False, True]

    def test_a_function_as_a_parameter(self) -> None:
        b = Builder()
        with b.function("twice", f=func_type([INT], INT), x=INT) as twice:
            b.result(b.call(twice["f"], b.call(twice["f"], twice.x)))
        with b.function("main", x=INT) as f:
            with b.closure("square", y=INT) as square:
                b.result(b.multiply(square["y"], square["y"]))
            b.result(twice(square, f.x))
        assert results(b.module(), x=np.int32(3)) == [81]

    def test_a_symbol_by_name_is_one_in_each_function(self) -> None:
        b = Builder()
        with b.function("f", x=tensor("n"), y=tensor("n")) as f:
            b.result(b.add(f.x, f.y))
        with b.function("main", x=tensor("n", 2), pair=tuple_type(tensor("n"), tensor("n"))) as g:
            b.result((f(b.get(g.pair, 0), b.get(g.pair, 1)), b.shape("n", b.symbol("n") + 1)))
        module = b.module()
        first = module.definitions["f"]
        assert isinstance(first, Function) and isinstance(first.params[0].type, TensorType)
        assert isinstance(module.main.params[0].type, TensorType)
        n, m = first.params[0].type.shape[0], module.main.params[0].type.shape[0]
        assert n is not m and first.params[1].type.shape[0] is n  # type: ignore[union-attr]
        values = run(module, {"x": np.zeros((3, 2), "float32"), "pair": (f32(1, 2, 3), f32(4, 5, 6))})
        assert values["output_0"].tolist() == [5, 7, 9] and values["output_1"].dims == (3, 4)

    def test_match_casts_bind_symbols(self) -> None:
        b = Builder()
        with b.function("main", x=tensor("n")) as f:
            y = b.match_cast(f.x, tensor("m"))
            b.result((y, b.shape("m")))
        assert run(b.module(), {"x": f32(1, 2)})["output_1"].dims == (2,)

    def test_match(self) -> None:
        b = Builder()
        b.data(LIST)
        with b.function("main", x=INT, y=INT) as f:
            empty = b.make(LIST, "nil", type_args=(INT,))
            xs = b.make(LIST, "cons", f.x, b.make(LIST, "cons", f.y, empty))
            with b.match((xs, f.x)) as m:
                with m.case((cons, "a", (cons, "b", (nil,))), "c") as (a, second, c):
                    b.result(b.add(b.subtract(a, second), c))
                with m.otherwise():
                    b.result(f.y)
            b.result(m.value)
        assert normal(b.module())
        assert results(b.module(), x=np.int32(5), y=np.int32(2)) == [8]


@pytest.mark.row("R14")
class TestTensorFunctions:
    def test_from_a_python_function_of_buffers(self) -> None:
        def scale(a: Buffer, out: Buffer) -> Stmt:
            return loops("i j", a.shape, lambda i, j: store(out, (i, j), a[i, j] * 3.0))

        b = Builder()
        with b.function("main", x=tensor(2, 2)) as f:
            y = b.emit_tir(scale, f.x, out=tensor(2, 2))
            b.result(b.emit_tir(scale, y, out=tensor(2, 2)))
        module = b.module()
        assert list(module.kernels) == ["scale"]
        assert results(module, x=f32([1, 2], [3, 4])) == [[[9, 18], [27, 36]]]

    def test_equal_ones_are_one_and_names_are_unique(self) -> None:
        b = Builder()
        with b.function("main", x=tensor("n"), y=tensor(3)) as f:
            for v in (f.x, f.y, f.x):
                for k in (2.0, 3.0):
                    b.emit_te(lambda a, k=k: compute(a.shape, lambda i: a[i] * k), v, name="scale")
            b.result(f.x)
        module = b.module()
        assert list(module.kernels) == ["scale", "scale_1", "scale_2", "scale_3"]
        calls = [n.func for n in post_order(main_of(module)) if isinstance(n, CallTIR)]
        assert sorted(calls) == ["scale", "scale", "scale_1", "scale_1", "scale_2", "scale_3"]
        assert all(k.name == name for name, k in module.kernels.items())

    def test_several_results_workspace_and_reductions(self) -> None:
        def moments(a: Any) -> Any:
            mean = reduce("sum", (a.shape[0],), (a.shape[1],), lambda i, j: a[i, j] / 4.0, name="mean")
            centred = compute(a.shape, lambda i, j: a[i, j] - mean[i], name="centred")
            spread = reduce("max", (a.shape[0],), (a.shape[1],), lambda i, j: centred[i, j], name="spread")
            return mean, spread

        b = Builder()
        with b.function("main", x=tensor("n", 4)) as f:
            both = b.emit_te(moments, f.x)
            b.result(both)
        module = b.module()
        kernel = module.kernels["moments"]
        assert [buffer.name for buffer in kernel.allocations] == ["centred"] and kernel.num_outputs == 2
        x = f32([1, 2, 3, 6], [0, 0, 4, 0])
        assert results(module, x=x) == [[3, 1], [3, 3]]

    def test_a_tuple_is_several_buffers(self) -> None:
        b = Builder()
        with b.function("main", x=tensor(2), y=tensor(2)) as f:
            pair = b.tuple(f.x, f.y)
            b.result(b.emit_te(lambda *parts: compute((2,), lambda i: parts[0][i] - parts[1][i]), pair))
        assert results(b.module(), x=f32(3, 4), y=f32(1, 1)) == [[2, 3]]

    def test_the_sum_of_nothing(self) -> None:
        b = Builder()
        with b.function("main", x=tensor("n")) as f:
            kinds: list[Any] = ["sum", "prod", "max", "min"]
            made = (b.emit_te(lambda a, k=k: reduce(k, (), a.shape, lambda i: a[i]), f.x, name=k) for k in kinds)
            b.result(tuple(made))
        assert results(b.module(), x=f32()) == [0, 1, -np.inf, np.inf]
        assert results(b.module(), x=f32(3, 4)) == [7, 12, 4, 3]

    def test_scalars(self) -> None:
        from dataclasses import replace

        from assay.semantics.dtypes import FLOAT32
        from assay.semantics.scalar import Var as Symbol, cast

        k = Symbol("k")

        def offset(a: Buffer) -> Any:
            return compute(a.shape, lambda i: a[i] + cast(k, FLOAT32))

        plain = tensor_function("offset", offset, [TensorType((2,), FLOAT32)])
        b = Builder()
        with b.function("main", x=tensor(2), y=tensor("n")) as f:
            b.result(b.emit_tir(replace(plain, scalars=(k,)), f.x, scalars=[b.symbol("n") * 2]))
        (call,) = [n for n in post_order(main_of(b.module(check=False))) if isinstance(n, CallTIR)]
        assert len(call.scalars) == 1


# --- the whole ---------------------------------------------------------------------------------------------------


def test_modules_made_twice_are_equal() -> None:
    def made() -> Module:
        b = Builder()
        b.data(LIST)
        with b.function("main", xs=list_of(INT), t=tensor("n", of="float32")) as f:
            pick = b.cases(f.xs, (nil, lambda: b.constant(1, "int32")), ((cons, "h", "_"), lambda h: h))
            b.result((pick, b.emit_te(lambda a: compute(a.shape, lambda i: a[i]), f.t, name="copy")))
        return b.module()

    assert structural_equal(made(), made())


def test_numbers_take_the_dtype_beside_them() -> None:
    b = Builder()
    with b.function("main", x=tensor(2, of="float16"), i=tensor(of="int8")) as f:
        b.result((b.add(f.x, 1), b.multiply(2, f.i), b.add(f.x, np.float16(2))))
    module = b.module()
    check(module)
    values = run(module, {"x": np.ones(2, "float16"), "i": np.int8(3)})
    assert [v.dtype.name for v in values.values()] == ["float16", "int8", "float16"]


def test_included_modules_and_tables() -> None:
    first = Builder()
    with first.function("f", x=tensor(2)) as f:
        first.result(first.add(f.x, f.x))
    b = Builder()
    b.include(first.module())
    with b.function("main", x=tensor(2)) as g:
        w = b.table("w", f32(10, 20))
        b.result(b.add(b.call(b.global_("f"), g.x), w))
    assert results(b.module(), x=f32(1, 2)) == [[12, 24]]
    with pytest.raises(Invalid, match=r"builder\.C9"):
        b.table("f", f32(1))


@pytest.mark.row("R3")
def test_what_is_built_is_in_normal_form_already() -> None:
    """A-normal form of what the builder makes is that, up to names."""
    for module in (prelude(), *(program(seed)[0] for seed in range(20))):
        assert normal(module)
        assert first_difference(module, to_anf(module)) is None
