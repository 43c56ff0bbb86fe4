"""Lambda lifting: local functions become functions of the module, and no run tells the difference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from assay.lower.simplify.canonical import canonical_bindings
from assay.lower.simplify.lambda_lift import Lifter, lift_functions
from assay.semantics import graph
from assay.semantics.analyses.equality import first_difference, structural_hash
from assay.semantics.analyses.variables import called
from assay.semantics.builder import Builder, tensor
from assay.semantics.builder.prelude import INT, make_list, prelude_function, with_prelude
from assay.semantics.errors import AssayError
from assay.semantics.graph import Call, Expr, Function, Let, Var
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.scalar import Var as Symbol
from assay.semantics.walk import post_order
from tests.lower.small_programs import program
from tests.observation import observe


def built(make: Callable[[Builder, Any], Any], **params: Any) -> Module:
    """A module whose main is what `make` builds."""
    b = Builder()
    with b.function("main", params=params) as f:
        b.result(make(b, f))
    return b.module()


class SizesAreForgotten(Lifter):
    """Lifts a function whose parameter has a size from around it: nobody checks that size any more."""

    def stays(self, function: Function, captured: Sequence[Var], outer: set[Symbol]) -> bool:
        return False


class CapturesTurnRound(Lifter):
    """Hands over what is captured in another order than the lifted function takes it."""

    def lift(self, function: Function, var: Var | None, values: set[Var], outer: set[Symbol]) -> Expr:
        result = super().lift(function, var, values, outer)
        if var in self.lifted:
            target, captured = self.lifted[var]
            self.lifted[var] = (target, captured[::-1])
        return result


def told_apart(module: Module, faulty: type[Lifter], inputs: Any) -> bool:
    """Whether a run shows what a faulty pass did to `main`, or the rules refuse it."""
    definitions = dict(module.definitions)
    main = faulty("main", module.main, definitions).run()
    wrong = Module({**definitions, "main": main})
    try:
        return observe(module, inputs).difference(observe(wrong, inputs)) is not None
    except AssayError:
        return True


def local_functions(module: Module) -> int:
    """How many functions of the module stand inside another one and do more than call one."""
    count = 0
    for d in module.definitions.values():
        if isinstance(d, Function):
            for node in post_order(graph_body(d)):
                if isinstance(node, Function):
                    value = node.body
                    if isinstance(value, Let) and value.body is value.var:
                        value = value.value
                    count += not (isinstance(value, Call) and isinstance(value.op, graph.GlobalVar))
    return count


def graph_body(function: Function) -> Expr:
    return function.body


@pytest.mark.row("R16")
class TestLifting:
    def lifted(self, module: Module, inputs: Any, left: int = 0) -> Module:
        before = structural_hash(module)
        result = canonical_bindings(lift_functions(module))
        check(result)
        assert structural_hash(module) == before
        assert observe(module, inputs).difference(observe(result, inputs)) is None
        assert local_functions(result) == left
        again = canonical_bindings(lift_functions(result))
        assert first_difference(result, again) is None
        return result

    def test_random_programs(self) -> None:
        fewer = 0
        for seed in range(40):
            module, inputs = program(seed)
            self.lifted(module, inputs)
            fewer += local_functions(module) > 0
        assert fewer > 20

    def test_closed_functions(self) -> None:
        def make(b: Builder, f: Any) -> Any:
            with b.closure("twice", y=INT) as twice:
                b.result(b.add(twice["y"], twice["y"]))
            return b.call(prelude_function("map"), twice, make_list(b, INT, f.x, twice(f.x)))

        b = Builder()
        with b.function("main", x=INT) as f:
            b.result(make(b, f))
        result = self.lifted(with_prelude(b.module(check=False)), {"x": np.int32(3)})
        assert "main_twice" in result.definitions and "main_twice" in called(result.main).functions

    def test_recursion_and_what_is_captured(self) -> None:
        def make(b: Builder, f: Any) -> Any:
            with b.closure("down", n=INT, result=INT) as down:
                n = down["n"]
                b.result(b.choose(b.less(n, f.x), lambda: f.y, lambda: down(b.subtract(n, f.x))))
            with b.closure("both", n=INT) as both:
                b.result(b.add(down(both["n"]), f.x))
            return both(f.y)

        result = self.lifted(built(make, x=INT, y=INT), {"x": np.int32(2), "y": np.int32(7)})
        down = result.definitions["main_down"]
        assert isinstance(down, Function) and [p.name for p in down.params] == ["x", "y", "n"]
        both = result.definitions["main_both"]
        assert isinstance(both, Function) and called(both).functions == ("main_down",)

    def test_a_closure_as_a_value(self) -> None:
        def make(b: Builder, f: Any) -> Any:
            with b.closure("adder", y=INT) as adder:
                b.result(b.add(adder["y"], f.x))
            pair = b.tuple(adder, f.x)
            return b.call(b.get(pair, 0), adder(f.x))

        self.lifted(built(make, x=INT), {"x": np.int32(5)})

    def test_a_closure_without_parameters_as_a_value(self) -> None:
        def make(b: Builder, f: Any) -> Any:
            with b.closure("later") as later:
                b.result(b.add(f.x, f.x))
            return b.call(b.get(b.tuple(later, f.x), 0))

        self.lifted(built(make, x=INT), {"x": np.int32(5)})

    def test_order_of_effects(self) -> None:
        def make(b: Builder, f: Any) -> Any:
            cell = b.ref(f.x)
            with b.closure("bump", y=INT) as bump:
                b.print(b.read(cell))
                b.write(cell, bump["y"])
                b.result(bump["y"])
            bump(b.add(f.x, 1))
            bump(b.add(f.x, 2))
            return b.read(cell)

        self.lifted(built(make, x=INT), {"x": np.int32(5)})

    def test_a_size_from_outside_is_still_checked(self) -> None:
        """Lifted alone, the function would take any size: the trap at its boundary would be lost."""

        def make(b: Builder, f: Any) -> Any:
            with b.closure("same", y=tensor("n")) as same:
                b.result(b.nn.relu(same["y"]))
            return b.call(same, b.match_cast(f.y, tensor("k")))

        module = built(make, x=tensor("n"), y=tensor("m"))
        inputs = {"x": np.ones(2, "float32"), "y": np.ones(3, "float32")}
        assert observe(module, inputs).trap is not None
        self.lifted(module, inputs, left=1)
        assert told_apart(module, SizesAreForgotten, inputs)

    def test_a_captured_tensor_brings_its_size(self) -> None:
        def make(b: Builder, f: Any) -> Any:
            with b.closure("plus", y=tensor(of="float32")) as plus:
                column = b.reshape(f.x, shape=(b.symbol("n"), 1))
                b.result(b.add(b.sum(column), plus["y"]))
            return b.call(plus, b.sum(f.y))

        module = built(make, x=tensor("n"), y=tensor("m"))
        for size in (2, 3):
            self.lifted(module, {"x": np.ones(2, "float32"), "y": np.ones(size, "float32")})

    def test_a_shared_evaluation_stays_where_it_is(self) -> None:
        x, y = graph.var("x", INT), graph.var("y", INT)
        f = graph.var("f", graph.function([y], graph.call("add", y, x)).type)
        shared = graph.call("multiply", x, x)
        inner = graph.function([y], graph.call("add", y, shared))
        body = graph.let(f, inner, graph.call("subtract", graph.call(f, x), shared))
        self.lifted(Module({"main": graph.function([x], body)}), {"x": np.int32(3)}, left=1)

    def test_what_a_faulty_pass_forgets(self) -> None:
        def make(b: Builder, f: Any) -> Any:
            with b.closure("minus", y=INT) as minus:
                b.result(b.multiply(b.subtract(minus["y"], f.x), f.z))
            return minus(f.y)

        module = built(make, x=INT, y=INT, z=INT)
        inputs = {"x": np.int32(1), "y": np.int32(5), "z": np.int32(3)}
        self.lifted(module, inputs)
        assert told_apart(module, CapturesTurnRound, inputs)

    def test_functions_of_another_compiler_stay(self) -> None:
        b = Builder()
        with b.function("main", x=INT) as f:
            with b.closure("other", y=INT, attrs={"compiler": "acme"}) as other:
                b.result(b.add(other["y"], 1))
            b.result(other(f.x))
        self.lifted(b.module(), {"x": np.int32(1)}, left=1)
