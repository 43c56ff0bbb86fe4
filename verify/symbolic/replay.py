"""Refutations are run: a counterexample counts only if the interpreter traps (specs/verify.md, "Proofs for all
sizes")."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from assay.interp.binding import Array, shape_at
from assay.interp.tensor import Unfinished, run
from assay.semantics.dtypes import BOOL
from assay.semantics.errors import Invalid, Trap
from assay.semantics.scalar import Apply, Cast, Choice, Expr, Load, Var, evaluate, operation
from assay.semantics.scalar.expression import show
from assay.semantics.tensor import Buffer, PrimFunc
from assay.semantics.walk import post_order, pre_order
from assay.verify.symbolic.events import Again, Guard, Let, Loop, Site, scope_chain
from assay.verify.symbolic.goals import TRAPS, Answer, Kind

MOST_ELEMENTS = 2_000_000
MOST_MODELLED = 4_000
MOST_STATEMENTS = 300_000
"""What a replay may cost: elements of all parameters, elements whose values are looked up, statements run."""

Element = Callable[[Buffer, tuple[int, ...]], Any]
"""The value that the counterexample gives to an element of an input; None where it has none."""


@dataclass(frozen=True)
class ReplayedGoal:
    """Whether the run confirmed the counterexample, and what it gave."""

    confirmed: bool
    detail: str


def replay_counterexample(
    func: PrimFunc,
    kind: Kind,
    sizes: Mapping[Var, Any],
    element: Element,
    functions: Mapping[str, PrimFunc],
    about: Sequence[str],
) -> ReplayedGoal:
    """Run a function at given sizes on the counterexample's values.

    It must trap with the kind that the goal is about and, where the goal is `about` buffers, name one of these.
    """
    dims = {v: int(n) for v, n in sizes.items() if v.dtype.is_integer}
    try:
        shapes = [shape_at(b, dims) for b in func.params]
    except Invalid as wrong:
        return ReplayedGoal(False, f"these sizes cannot be given: {wrong.message}")
    if sum(map(prod, shapes)) > MOST_ELEMENTS:
        return ReplayedGoal(False, f"too large to run: {_named(dims)}")
    detail = ""
    for rest in (0, 1):
        inputs = [_values(b, s, element, rest) for b, s in zip(func.inputs, shapes, strict=False)]
        try:
            run(func, inputs, scalars=[sizes[v] for v in func.scalars], limit=MOST_STATEMENTS, functions=functions)
            detail = "the run ends well"
        except Trap as trap:
            named = not about or trap.buffer in about
            if kind in TRAPS and trap.kind == TRAPS[kind] and named:
                return ReplayedGoal(True, str(trap))
            detail = f"the run ends otherwise, with {trap}"
        except Invalid as wrong:
            if kind == "dims not negative" and wrong.label == "argument.C5":
                return ReplayedGoal(True, str(wrong))
            return ReplayedGoal(False, f"the run is refused: {wrong}")
        except Unfinished:
            return ReplayedGoal(False, f"more than {MOST_STATEMENTS} statements to run: {_named(dims)}")
    return ReplayedGoal(False, f"{detail}, at {_named(dims)}")


def _named(dims: Mapping[Var, int]) -> str:
    return ", ".join(f"{v.name} = {n}" for v, n in dims.items()) or "the sizes given"


def _values(buffer: Buffer, shape: tuple[int, ...], element: Element, rest: int) -> Array:
    of = buffer.dtype
    if of.is_float:
        return np.random.default_rng(0).standard_normal(shape).astype(of.numpy)
    made = np.full(shape, rest, of.numpy)
    if made.size <= MOST_MODELLED:
        for at in np.ndindex(*shape):
            value = element(buffer, at)
            if value is not None:
                made[at] = value
    return made


def leaves_dtype(site: Site, node: Expr, values: Mapping[Var, Any]) -> ReplayedGoal:
    """Whether a step of an expression leaves its dtype, loops and sizes having these values: evaluated, not
    believed."""
    try:
        env = _arrived(site, values)
    except _Elsewhere as why:
        return ReplayedGoal(False, str(why))
    visited = {id(n) for root in site.roots for n in _visited(root, env)}
    if id(node) not in visited:
        return ReplayedGoal(False, "the step is not reached there")
    try:
        args = [int(evaluate(c, env)) for c in node.children]
        here = int(evaluate(node, env))
    except Trap as trap:
        return ReplayedGoal(False, f"the run ends otherwise, with {trap}")
    exact = args[0] if isinstance(node, Cast) else _exact(node, args)
    if inside_dtype(node, exact):
        return ReplayedGoal(False, f"{show(node)} stays in {node.dtype}")
    return ReplayedGoal(True, f"{show(node)} is {exact}, which {node.dtype} takes for {here}")


class _Elsewhere(Exception):
    """The values given do not lead to the place."""


def _arrived(site: Site, values: Mapping[Var, Any]) -> dict[Var, Any]:
    """The environment at a site, evaluated from outside in."""
    env = dict(values)
    try:
        for f in scope_chain(site.frame):
            match f:
                case Loop(stmt=stmt):
                    start = 0 if stmt.start is None else int(evaluate(stmt.start, env))
                    if not start <= int(env[stmt.var]) < start + int(evaluate(stmt.extent, env)):
                        raise _Elsewhere("the loops do not get there")
                case Guard(condition=condition, positive=positive):
                    _no_loads(condition)
                    if bool(evaluate(condition, env)) is not positive:
                        raise _Elsewhere("a condition does not hold there")
                case Let(var=var, value=value):
                    _no_loads(value)
                    env[var] = evaluate(value, env)
                case Again():
                    raise _Elsewhere("it is inside a while loop")
                case _:
                    pass
    except Trap as trap:
        raise _Elsewhere(str(trap)) from None
    return env


def _no_loads(expr: Expr) -> None:
    if any(isinstance(n, Load) for n in post_order(expr)):
        raise _Elsewhere("it depends on the values of elements")


def _visited(root: Expr, env: Mapping[Var, Any]) -> Iterator[Expr]:
    """The nodes that are evaluated: of a choice the side that is taken, where that does not depend on elements."""

    def parts(node: Expr) -> Sequence[Expr]:
        if not isinstance(node, Choice):
            return node.children
        if any(isinstance(n, Load) for n in post_order(node.condition)):
            return (node.condition,)
        return (node.condition, node.then if evaluate(node.condition, env) else node.otherwise)

    return pre_order(root, parts)


def _exact(node: Expr, args: Sequence[int]) -> int:
    assert isinstance(node, Apply)
    match node.op:
        case "shl":
            return args[0] << args[1]
        case "abs":
            return abs(args[0])
        case "floordiv" | "truncdiv":
            return -args[0] if args[1] == -1 else 0
        case _:
            return int(operation(node.op).meaning(*args))


def inside_dtype(node: Expr, value: int) -> bool:
    """Whether an integer fits the dtype of an expression."""
    return bool(node.dtype.min <= value <= node.dtype.max)


def in_dtype(var: Var, value: int) -> Any:
    """An integer as a value of the variable's dtype."""
    return bool(value) if var.dtype is BOOL else var.dtype.numpy.type(value)


def model_element(answer: Answer, names: Mapping[int, str], functions: Mapping[str, Any]) -> Element:
    """Elements as z3's model has them."""

    def element(buffer: Buffer, at: tuple[int, ...]) -> Any:
        name = names.get(id(buffer))
        function = functions.get(name) if name is not None else None
        if function is None:
            return None
        found = answer.model.eval(function(*at) if at else function, model_completion=True)
        return found.as_long() if hasattr(found, "as_long") else str(found) == "True"

    return element
