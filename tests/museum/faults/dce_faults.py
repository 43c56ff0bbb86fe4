"""Wrong ways to leave code out, each with the smallest program that shows it.

The first two are TVM's own: dead code elimination that took writes to references for dead (apache/tvm#6803), and
RemoveAllUnused, which dropped what only an impure call uses (apache/tvm#15807).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from assay.lower.simplify.canonical import canonical_bindings
from assay.lower.simplify.dead_code import DeadCode, dead_code
from assay.semantics.analyses.variables import called
from assay.semantics.builder import Builder, tensor
from assay.semantics.graph import (
    Call,
    Expr,
    Function,
    Let,
    MatchCast,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
    get,
    tuple_of,
)
from assay.semantics.graph.effects import acts
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.ops import operator
from assay.semantics.walk import post_order, rewrite
from tests.museum.judges import Run, well_formed
from tests.museum.planted import Judge, PlantedFault

Inputs = Mapping[str, Any]
SCALAR = tensor(of="int32")
TWO, ZERO = np.int32(2), np.int32(0)


def fault(
    name: str,
    layer: str,
    note: str,
    wrong: Callable[[Module], Module],
    program: Callable[[], tuple[Module, Inputs]],
) -> PlantedFault:
    """A wrong pass, what is wrong about it, and a program and inputs that show it."""
    run: Judge = lambda source, made: Run(program()[1])(source, made)  # noqa: E731
    judges, silent = ((run,), (well_formed,)) if layer == "run" else ((well_formed, run), ())
    return PlantedFault(name, layer, judges, lambda: program()[0], wrong, right, note=note, silent=silent)


def right(module: Module) -> Module:
    return dead_code(canonical_bindings(module))


# --- the passes --------------------------------------------------------------------------------------------------


class WritesAreDead(DeadCode):
    def removable(self, node: Expr) -> bool:
        return isinstance(node, RefWrite) or super().removable(node)


class ActionsNeedNothing(DeadCode):
    def uses(self, node: Expr) -> Sequence[Expr]:
        return () if acts(node) else super().uses(node)


class FailuresAreDead(DeadCode):
    def removable(self, node: Expr) -> bool:
        return not acts(node)


class CallsAreDead(DeadCode):
    def removable(self, node: Expr) -> bool:
        return isinstance(node, Call) or super().removable(node)


class OnlyTheValueItself(DeadCode):
    """Looks at a value, and not at what its branches evaluate."""

    def function(self, function: Function) -> Function:
        silent = {id(n): self.removable(n) for n in post_order(function)}
        live = self.live(function, silent)
        root: Expr = function
        result = rewrite(root, lambda n: n.body if isinstance(n, Let) and n.var not in live else n)
        assert isinstance(result, Function)
        return result


def only_what_is_called(module: Module) -> Module:
    """Takes a function that is handed on as a value for one that nobody needs."""
    keep = {"main"}
    for node in post_order(module.main):
        if isinstance(node, Call) and not isinstance(node.op, Operator):
            keep.update(called(node.op).functions)
    return replace(module, definitions={n: d for n, d in module.definitions.items() if n in keep})


def into_functions(module: Module) -> Module:
    """Puts a value that is used once where it is used, even if that is inside a function."""
    root: Expr = module.main
    uses: dict[Var, int] = {}
    values: dict[Var, Expr] = {}
    for node in post_order(root):
        for c in node.children:
            if isinstance(c, Var):
                uses[c] = uses.get(c, 0) + 1
        if isinstance(node, Let) and not isinstance(node.value, Function):
            values[node.var] = node.value
    once = {v for v, n in uses.items() if n == 1 and v in values}
    new: dict[int, Expr] = {}
    for node in post_order(root):
        made = node.with_children([new[id(c)] for c in node.children])
        if isinstance(made, Var) and made in once:
            made = new[id(values[made])]
        elif isinstance(made, Let) and made.var in once:
            made = made.body
        new[id(node)] = made
    result = new[id(root)]
    assert isinstance(result, Function)
    return module.with_(main=result)


def fields_are_dead(module: Module) -> Module:
    """Takes a field out of a tuple, whatever the other fields do."""

    def change(node: Expr) -> Expr:
        if isinstance(node, TupleGetItem) and isinstance(node.value, Tuple):
            return node.value.fields[node.index]
        return node

    root: Expr = module.main
    result = rewrite(root, change)
    assert isinstance(result, Function)
    return module.with_(main=result)


def casts_hold(module: Module) -> Module:
    """Takes every match-cast for a plain binding."""
    root: Expr = module.main
    result = rewrite(root, lambda n: replace(n.value, type=n.type) if isinstance(n, MatchCast) else n)
    assert isinstance(result, Function)
    return module.with_(main=result)


# --- the programs ------------------------------------------------------------------------------------------------


def writes() -> tuple[Module, Inputs]:
    b = Builder()
    with b.function("main", x=SCALAR) as f:
        cell = b.ref(f.x)
        b.write(cell, b.add(f.x, 1))
        b.result(b.read(cell))
    return b.module(), {"x": TWO}


def used_by_a_print() -> tuple[Module, Inputs]:
    b = Builder()
    with b.function("main", x=SCALAR) as f:
        y = b.multiply(f.x, f.x)
        b.print(y)
        b.result(f.x)
    return b.module(), {"x": TWO}


def fails() -> tuple[Module, Inputs]:
    b = Builder()
    with b.function("main", x=SCALAR) as f:
        b.floor_divide(f.x, f.x)
        b.result(f.x)
    return b.module(), {"x": ZERO}


def calls_what_acts() -> tuple[Module, Inputs]:
    b = Builder()
    with b.function("say", x=SCALAR) as say:
        b.print(say.x, format="{}")
        b.result(say.x)
    with b.function("main", x=SCALAR) as f:
        b.call(say, f.x)
        b.result(f.x)
    return b.module(), {"x": TWO}


def fails_in_a_branch() -> tuple[Module, Inputs]:
    b = Builder()
    with b.function("main", x=SCALAR) as f:
        b.choose(b.equal(f.x, 0), lambda: b.floor_divide(1, f.x), lambda: f.x)
        b.result(f.x)
    return b.module(), {"x": ZERO}


def handed_on() -> tuple[Module, Inputs]:
    b = Builder()
    with b.function("next", x=SCALAR) as step:
        b.result(b.add(step.x, 1))
    with b.function("main", x=SCALAR) as f:
        both = b.tuple(step, f.x)
        b.result(b.call(b.get(both, 0), f.x))
    return b.module(), {"x": TWO}


def read_before_a_write() -> tuple[Module, Inputs]:
    b = Builder()
    with b.function("main", x=SCALAR) as f:
        cell = b.ref(f.x)
        before = b.read(cell)
        with b.closure("late", result=SCALAR) as late:
            b.result(b.add(before, 1))
        b.write(cell, b.add(f.x, 5))
        b.result(b.call(late))
    return b.module(), {"x": TWO}


def field_of_a_failure() -> tuple[Module, Inputs]:
    b = Builder()
    with b.function("main", x=SCALAR) as f:
        b.result(f.x)
    x = f.x
    fails = Call(x.type, operator("floor_divide"), (x, x), {})
    body: Expr = get(tuple_of(x, fails), 0)
    main = replace(b.module().main, body=body)
    return Module({"main": main}), {"x": ZERO}


def cast_that_fails() -> tuple[Module, Inputs]:
    b = Builder()
    with b.function("main", x=tensor("n")) as f:
        b.result(b.match_cast(f.x, tensor(3)))
    return b.module(), {"x": np.zeros(2, "float32")}


def dead_code_of(of: type[DeadCode]) -> Callable[[Module], Module]:
    return lambda module: of(module).run()


FAULTS = [
    fault("writes", "run", "a write to a reference is taken for dead (#6803)", dead_code_of(WritesAreDead), writes),
    fault(
        "actions",
        "well-formed",
        "what only an action uses is dropped (#15807)",
        dead_code_of(ActionsNeedNothing),
        used_by_a_print,
    ),
    fault("failures", "run", "a division by zero is dropped", dead_code_of(FailuresAreDead), fails),
    fault("calls", "run", "a call of a function that prints is dropped", dead_code_of(CallsAreDead), calls_what_acts),
    fault(
        "branches",
        "run",
        "what a branch evaluates is not looked at",
        dead_code_of(OnlyTheValueItself),
        fails_in_a_branch,
    ),
    fault("handed on", "well-formed", "a function that is only handed on is dropped", only_what_is_called, handed_on),
    fault(
        "inlined", "well-formed", "a read moves into a function that runs later", into_functions, read_before_a_write
    ),
    fault("fields", "run", "a field that fails is dropped", fields_are_dead, field_of_a_failure),
    fault("casts", "well-formed", "a match-cast that fails is dropped", casts_hold, cast_that_fails),
]
