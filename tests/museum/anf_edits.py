"""Wrong changes of right A-normal forms: what the faults of the museum are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from assay.semantics.devices import VirtualDevice
from assay.semantics.graph import (
    Call,
    Constant,
    Dataflow,
    Expr,
    Function,
    If,
    Let,
    RefRead,
    Var,
    read,
)
from assay.semantics.module import Module
from assay.semantics.walk import rewrite
from tests.museum.anf_programs import PAIR, S
from tests.museum.naive_anf import naive_anf

Step = tuple[Var, Expr]


def switch(fault: str) -> Callable[[Module], Module]:
    return lambda module: naive_anf(module, fault)


def steps_of(f: Function) -> tuple[list[Step], Expr]:
    """The bindings of a function's own chain, and its result."""
    steps, body = [], f.body
    while isinstance(body, Let):
        steps.append((body.var, body.value))
        body = body.body
    return steps, body


def chain(steps: Sequence[Step], result: Expr) -> Expr:
    for v, value in reversed(steps):
        result = Let(result.type, v, value, result)
    return result


def edit(change: Callable[[list[Step], Expr], tuple[Sequence[Step], Expr]]) -> Callable[[Module], Module]:
    """A right form with the bindings of `main`'s own chain changed."""

    def transform(module: Module) -> Module:
        right = naive_anf(module)
        main = right.main
        return right.with_(main=replace(main, body=chain(*change(*steps_of(main)))))

    return transform


def nodes(change: Callable[[Expr], Expr]) -> Callable[[Module], Module]:
    """A right form with each node of `main` changed."""
    return lambda module: (right := naive_anf(module)).with_(main=rewrite(right.main, change))


def is_call(node: Expr, name: str) -> bool:
    return isinstance(node, Call) and getattr(node.op, "name", "") == name


def numbers(**given: Any) -> dict[str, Any]:
    base = {"x": np.arange(6, dtype=np.float32).reshape(2, 3) / 7 - np.float32(0.25)}
    return {k: v for k, v in {**base, **given}.items() if v is not None}


def flag(value: bool) -> np.ndarray[Any, Any]:
    return np.array(value)


FAR = np.array([0, 7])
"""Indices of which the second is out of range."""
NEAR = np.array([1, 0])

# --- edits -----------------------------------------------------------------------------------------------------------


def only_reads_first(steps: list[Step], result: Expr) -> tuple[Sequence[Step], Expr]:
    """The read of each branch becomes one read before the If."""
    *before, (v, branch) = steps
    assert isinstance(branch, If)
    reader = read(before[-1][0])
    early = Var(reader.type, "early")

    def late(body: Expr) -> Expr:
        inside: list[Step] = []
        while isinstance(body, Let):
            if type(body.value) is not type(reader):
                inside.append((body.var, body.value))
            body = body.body
        return chain(inside, early)

    changed = replace(branch, then=late(branch.then), otherwise=late(branch.otherwise))
    return [*before, (early, reader), (v, changed)], result


def speculated(steps: list[Step], result: Expr) -> tuple[Sequence[Step], Expr]:
    """What the then branch binds is bound before the If."""
    *before, (v, branch) = steps
    assert isinstance(branch, If)
    inside: list[Step] = []
    body = branch.then
    while isinstance(body, Let):
        inside.append((body.var, body.value))
        body = body.body
    return [*before, *inside, (v, replace(branch, then=body))], result


def without(kind: Callable[[Expr], bool]) -> Callable[[Module], Module]:
    return edit(lambda steps, result: ([s for s in steps if not kind(s[1])], result))


def twice(kind: Callable[[Expr], bool]) -> Callable[[Module], Module]:
    """What is bound is evaluated once more."""

    def change(steps: list[Step], result: Expr) -> tuple[Sequence[Step], Expr]:
        more = [[(v, e), (Var(v.type, v.name + "_again"), replace(e))] if kind(e) else [(v, e)] for v, e in steps]
        return [s for part in more for s in part], result

    return edit(change)


def forget_alias(steps: list[Step], result: Expr) -> tuple[Sequence[Step], Expr]:
    """The binding of a name to a name goes, its uses stay."""
    return [s for s in steps if not isinstance(s[1], Var)], result


def cast_later(steps: list[Step], result: Expr) -> tuple[Sequence[Step], Expr]:
    """The cast comes after what uses its symbol."""
    first, second, *rest = steps
    return [second, first, *rest], result


def inlined(steps: list[Step], result: Expr) -> tuple[Sequence[Step], Expr]:
    """The first binding of a name to a name is dropped, and replaced where the pass looked: not inside functions."""
    (v, w), *rest = steps
    outside = [(a, e.with_children([w if c is v else c for c in e.children])) for a, e in rest]
    return outside, result


def one_read(steps: list[Step], result: Expr) -> tuple[Sequence[Step], Expr]:
    """The second read of a cell takes the value of the first."""
    reads = [s for s in steps if isinstance(s[1], RefRead)]
    return [(v, reads[0][0] if (v, e) == reads[1] else e) for v, e in steps], result


def one_cell(steps: list[Step], result: Expr) -> tuple[Sequence[Step], Expr]:
    """Two cells of one value become one."""
    (r, made), (q, _), *rest = steps
    return [(r, made), (q, r), *rest], result


def into_closure(steps: list[Step], result: Expr) -> tuple[Sequence[Step], Expr]:
    """What only the closure uses is bound inside it: again at each call."""
    first, (g, f), *rest = steps
    assert isinstance(f, Function)
    return [(g, replace(f, body=chain([first], f.body))), *rest], result


def out_of_closure(steps: list[Step], result: Expr) -> tuple[Sequence[Step], Expr]:
    """What the closure evaluates first is evaluated where the closure is made."""
    (g, f), *rest = steps
    assert isinstance(f, Function) and isinstance(f.body, Let)
    return [(f.body.var, f.body.value), (g, replace(f, body=f.body.body)), *rest], result


def one_constant(steps: list[Step], result: Expr) -> tuple[Sequence[Step], Expr]:
    constants = [s for s in steps if isinstance(s[1], Constant)]
    return [(v, constants[0][0] if (v, e) == constants[1] else e) for v, e in steps], result


def same_attributes(steps: list[Step], result: Expr) -> tuple[Sequence[Step], Expr]:
    """Calls of one operator on one operand become one, whatever their attributes."""
    (a, e), (b, _), *rest = steps
    return [(a, e), (b, a), *rest], result


def other_function(steps: list[Step], result: Expr) -> tuple[Sequence[Step], Expr]:
    """A function that calls itself calls its neighbour."""
    (g, other), (f, loop), *rest = steps
    return [(g, other), (f, rewrite(loop, lambda n: g if n is f else n)), *rest], result


def no_device(node: Expr) -> Expr:
    return node if isinstance(node, Var) else replace(node, device=VirtualDevice())


def let_adrift(node: Expr) -> Expr:
    return replace(node, device=VirtualDevice("cpu", 0)) if isinstance(node, Let) else node


def mark_all(module: Module) -> Module:
    """The dataflow block takes in what acts."""
    right, mark = naive_anf(module), Dataflow()
    return right.with_(main=rewrite(right.main, lambda n: replace(n, dataflow=mark) if isinstance(n, Let) else n))


def no_place(node: Expr) -> Expr:
    return replace(node, span=None) if is_call(node, "take") else node


def swapped(node: Expr) -> Expr:
    return node.with_children(node.children[::-1]) if is_call(node, "subtract") else node


def another_view(steps: list[Step], result: Expr) -> tuple[Sequence[Step], Expr]:
    (v, e), *_ = steps
    assert isinstance(e, Call)
    return [(v, replace(e, args=e.args, attrs={"shape": (6, 1)}))], result


def helper_changes(module: Module) -> Module:
    right = naive_anf(module)
    helper = right.definitions["helper"]
    assert isinstance(helper, Function)
    return right.with_(helper=replace(helper, attrs={"inline": True}))


def helper_goes(module: Module) -> Module:
    right = naive_anf(module)
    return replace(right, definitions={k: v for k, v in right.definitions.items() if k != "helper"})


def data_changes(module: Module) -> Module:
    return naive_anf(module).with_(Pair=replace(PAIR, constructors={"pair": (S, S)}))


def leaves_scope(steps: list[Step], result: Expr) -> tuple[Sequence[Step], Expr]:
    """What a branch has bound is used after it."""
    *before, (v, branch) = steps
    assert isinstance(branch, If) and isinstance(branch.then, Let)
    return [*before, (v, branch)], branch.then.var


def renamed_parameter(module: Module) -> Module:
    right = naive_anf(module)
    x = right.main.params[0]
    other = Var(x.type, "another")
    params = (other, *right.main.params[1:])
    return right.with_(main=replace(rewrite(right.main, lambda n: other if n is x else n), params=params))


X = numbers()
ONE = {"x": np.int32(4)}
