"""Calls that a run makes for certain, counted before it begins (specs/interp.md, "Graph"; specs/semantics.md,
"Budgets").

A few functions that call each other twice make more calls than can be waited for; the text says so before one is made.
"""

from __future__ import annotations

from collections.abc import Sequence

from assay.semantics import budget
from assay.semantics.errors import BudgetSpent
from assay.semantics.graph import Call, Expr, Function, GlobalVar, If, Match
from assay.semantics.module import Module
from assay.semantics.walk import needed_first, pre_order

CALL = 1e-6
"""Seconds that a call takes at least."""


def require_time(function: Function, module: Module) -> None:
    """BudgetSpent (budget.C2) where a run of a function makes more calls than there is time for."""
    seconds = budget.left()
    if seconds is None:
        return
    count = calls_made(function, module)
    least = count * CALL
    if least > seconds:
        raise BudgetSpent(
            f"{count} calls of functions take at least {least:.0f} seconds, and {seconds:.0f} seconds are left;"
            " --timeout raises that",
            where=function.span,
            label="budget.C2",
        )


def calls_made(function: Function, module: Module) -> int:
    """How many calls of a module's functions a run of one makes whatever its inputs are: not those in an arm of a
    choice or in a function inside of one. Each function is looked at once; one that calls itself counts nothing."""
    first = _calls(function)
    known: dict[str, int] = {}
    called: dict[str, list[str]] = {}

    def callees(name: str) -> list[str]:
        of = module.definitions.get(name)
        called[name] = _calls(of) if isinstance(of, Function) else []
        return called[name]

    for name in needed_first(first, callees):
        known[name] = 1 + sum(known.get(n, 0) for n in called[name])
    return sum(known[n] for n in first)


def _calls(function: Function) -> list[str]:
    """The functions of the module that each run of a function calls, each as often as it does."""

    def always(node: Expr) -> Sequence[Expr]:
        match node:
            case Function():
                return ()
            case If():
                return (node.condition,)
            case Match():
                return (node.value,)
            case _:
                return node.children

    nodes = pre_order(function.body, always)
    return [n.op.name for n in nodes if isinstance(n, Call) and isinstance(n.op, GlobalVar)]
