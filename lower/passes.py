"""Passes by what they look at: a module, each function, each dataflow block (row R13; specs/lower.md, "Passes").

Every pass is a function from a module to a module that leaves its input alone; these make one from a function that
looks at less. What nothing changes stays the same object.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from assay.semantics.errors import Invalid
from assay.semantics.graph import Dataflow, Expr, Function, Let, Var, free_variables, let
from assay.semantics.graph.effects import is_opaque
from assay.semantics.graph.functions import as_function, open_nodes, open_parts
from assay.semantics.module import Module
from assay.semantics.walk import fold, post_order, rewrite

Pass: TypeAlias = Callable[[Module], Module]
Bindings: TypeAlias = Sequence[tuple[Var, Expr]]


def split_blocks(function: Function) -> Function:
    """The function with each dataflow block that comes in pieces as several blocks (graph.C10); as it is where none
    does. A pass that moves, copies or drops bindings ends with it. What is inside of opaque functions stays."""
    root: Expr = function
    lets = [n for n in post_order(root) if isinstance(n, Let) and n.dataflow is not None]
    opened = set(map(id, open_nodes(function))) if lets else set()
    above = {id(n.body): n for n in lets}
    marks: dict[int, Dataflow] = {}
    """The mark that each let gets."""
    used: set[Dataflow | None] = {n.dataflow for n in lets if id(n) not in opened}
    for n in reversed(lets):  # the outer of two lets comes first
        before = above.get(id(n))
        mark = n.dataflow
        if mark is None or id(n) not in opened:
            continue
        if before is not None and before.dataflow is mark and id(before) in marks:
            mark = marks[id(before)]
        elif mark in used:
            mark = Dataflow()
        marks[id(n)] = mark
        used.add(mark)
    if all(marks.get(id(n), n.dataflow) is n.dataflow for n in lets):
        return function

    def marked(node: Expr, parts: list[Expr]) -> Expr:
        made = node if is_opaque(node) else node.with_children(parts)
        return replace(made, dataflow=marks.get(id(node))) if isinstance(made, Let) else made

    return as_function(fold(root, marked, open_parts))


def function_pass(change: Callable[[Function], Function]) -> Pass:
    """A pass that changes each graph function of the module by itself; its parameters and result type must stay. A
    dataflow block of which `change` leaves pieces becomes several."""

    def run(module: Module) -> Module:
        changed = {n: split_blocks(change(d)) for n, d in module.definitions.items() if isinstance(d, Function)}
        if all(module.definitions[n] is d for n, d in changed.items()):
            return module
        return replace(module, definitions={**module.definitions, **changed})

    return run


def dataflow_pass(change: Callable[[Bindings, Sequence[Var]], Bindings]) -> Pass:
    """A pass that changes each dataflow block by itself.

    `change` gets the bindings of a block and those of its variables that are used behind it, and gives new bindings,
    which must bind these variables too (Invalid otherwise).
    """

    def block(head: Let, mark: Dataflow) -> Expr:
        bindings: list[tuple[Var, Expr]] = []
        rest: Expr = head
        while isinstance(rest, Let) and rest.dataflow is mark:
            bindings.append((rest.var, rest.value))
            rest = rest.body
        used = set(free_variables(rest))
        outputs = [v for v, _ in bindings if v in used]
        new = list(change(bindings, outputs))
        bound = {v for v, _ in new}
        lost = [v.name for v in outputs if v not in bound]
        if lost:
            raise Invalid(f"a dataflow pass lost {', '.join(lost)}, which is used behind its block", label="pass.C1")
        if new == bindings:
            return head
        for v, value in reversed(new):
            rest = let(v, value, rest, dataflow=mark)
        return rest

    def function(root: Function) -> Function:
        top: Expr = root
        new: dict[int, Expr] = {}
        before: dict[int, Let] = {}
        order = list(post_order(top))
        for node in order:
            if isinstance(node, Let):
                before[id(node.body)] = node
        for node in order:
            rebuilt = node.with_children([new[id(c)] for c in node.children])
            if isinstance(rebuilt, Let) and rebuilt.dataflow is not None:
                above = before.get(id(node))
                if above is None or above.dataflow is not rebuilt.dataflow:
                    rebuilt = block(rebuilt, rebuilt.dataflow)
            new[id(node)] = rebuilt
        done = new[id(top)]
        assert isinstance(done, Function)
        return done

    return function_pass(function)


def _unmarked(root: Function) -> Function:
    top: Expr = root
    marked = (n for n in post_order(top) if isinstance(n, Let) and n.dataflow is not None)
    if next(marked, None) is None:
        return root
    done = rewrite(top, lambda n: replace(n, dataflow=None) if isinstance(n, Let) else n)
    assert isinstance(done, Function)
    return done


without_dataflow: Pass = function_pass(_unmarked)
"""The module without the marks of dataflow blocks: plain lets (row R12)."""


def sequence(*steps: Pass) -> Pass:
    """A pass that runs these passes, one after another."""

    def run(module: Module) -> Module:
        for step in steps:
            module = step(module)
        return module

    return run
