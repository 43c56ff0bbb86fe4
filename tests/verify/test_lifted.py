"""Local functions that call themselves, lifted: shown to be what they were, and each planted fault is refuted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeGuard

import numpy as np
import pytest

from assay.lower.simplify.lambda_lift import lift_functions
from assay.semantics.graph import Call, Expr, Function, GlobalVar, Var
from assay.semantics.graph.functions import rewrite_function
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.ops import operator
from assay.semantics.rules import check
from assay.semantics.text.module_text import parse
from assay.semantics.types import same_type
from assay.verify.evidence import Context
from assay.verify.simplify import check_lifted
from tests.observation import observe

V, N = 'R.Tensor((2,), "float32")', 'R.Tensor((), "int32")'
LESS = 'R.subtract({}, R.const(1, "int32"))'
MORE = 'R.greater({}, R.const(0, "int32"))'


def program(inner: str, outer: str, again: str) -> Module:
    """Two functions inside one another, `f` and `g`, that call themselves or each other: what `g` gives where its
    counter is left, and what `f` does."""
    return parse(f"""
@I.ir_module
class Module:
    @R.function
    def main(x: {V}, w: {V}) -> {V}:
        @R.function
        def f(i: {N}, y: {V}) -> {V}:
            @R.function
            def g(j: {N}, z: {V}) -> {V}:
                if {MORE.format("j")}:
                    s = {inner.format(less=LESS.format("j"))}
                else:
                    s = z
                return s
            if {MORE.format("i")}:
                r = {outer.format(less=LESS.format("i"))}
            else:
                r = y
            return r
        return {again.format(two='R.const(2, "int32")')}
""")


PROGRAMS = {
    "each itself": ("g({less}, R.add(z, y))", "f({less}, g(i, y))", "f({two}, x)"),
    "with what is outside": ("g({less}, R.add(z, R.add(x, y)))", "f({less}, g(i, R.multiply(w, y)))", "f({two}, x)"),
    "one another": ("f({less}, R.add(z, y))", "g({less}, R.add(y, x))", "f({two}, x)"),
    "one another, without what is outside": ("f({less}, R.add(z, y))", "g({less}, y)", "f({two}, x)"),
    "both": ("g({less}, R.add(f({less}, z), y))", "g({less}, f({less}, R.add(y, w)))", "f({two}, x)"),
    "called twice": ("g({less}, R.add(z, R.add(x, y)))", "f({less}, g(i, y))", "R.add(f({two}, x), f({two}, w))"),
    "what is computed is handed on": ("g({less}, R.add(z, y))", "f({less}, R.add(g(i, y), g(i, w)))", "f({two}, x)"),
}


def shown(before: Module, after: Module) -> bool | None:
    return check_lifted(before, after, Context(0, lambda *_: None, {}, None)).holds


def changed(module: Module, change: Callable[[Expr], Expr]) -> Module:
    """A module whose lifted functions are changed."""
    made = {n: rewrite_function(d, change) for n, d in module.graphs.items() if n != "main"}
    return module.with_(**made)


@pytest.mark.parametrize("of", PROGRAMS)
def test_what_calls_itself_is_put_back(of: str) -> None:
    module = program(*PROGRAMS[of])
    after = lift_functions(module)
    check(after)
    assert len(after.graphs) > 1
    inputs = {"x": np.float32([1, 2]), "w": np.float32([3, -1])}
    assert observe(module, inputs).difference(observe(after, inputs)) is None
    assert shown(module, after)

    def other_operator(node: Expr) -> Expr:
        if isinstance(node, Call) and isinstance(node.op, Operator) and node.op.name == "add":
            return replace(node, op=operator("multiply"))
        return node

    assert not shown(module, changed(after, other_operator))


@pytest.mark.parametrize("of", ["each itself", "with what is outside", "called twice"])
def test_other_captures_are_refuted(of: str) -> None:
    """The planted faults: a call hands over what is captured turned round; one that a lifted function makes of itself
    hands on another value of the type."""
    module = program(*PROGRAMS[of])
    after = lift_functions(module)
    lifted = {n: d for n, d in after.graphs.items() if n != "main"}

    def calls(node: Expr) -> TypeGuard[Call]:
        return isinstance(node, Call) and isinstance(node.op, GlobalVar) and node.op.name in lifted

    def turned(node: Expr) -> Expr:
        if not calls(node):
            return node
        vectors = [a for a in node.args if same_type(a.type, node.type)]
        return replace(node, args=tuple(vectors.pop() if same_type(a.type, node.type) else a for a in node.args))

    def other(function: Function) -> Function:
        last = function.params[-1]

        def change(node: Expr) -> Expr:
            if calls(node) and isinstance(node.args[0], Var) and same_type(node.args[0].type, last.type):
                return replace(node, args=(last, *node.args[1:]))
            return node

        return rewrite_function(function, change)

    assert not shown(module, changed(after, turned))
    assert not shown(module, after.with_(**{n: other(d) for n, d in lifted.items()}))
