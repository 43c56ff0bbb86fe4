"""Calls that a run makes for certain, counted before it begins (specs/interp.md, "Graph"; specs/semantics.md,
"Budgets").

A few functions that call each other twice make more calls than anybody waits for; the text says so before one is made.
"""

from __future__ import annotations

from assay.semantics import budget
from assay.semantics.errors import BudgetSpent
from assay.semantics.graph import Call, Expr, Function, GlobalVar, If, Match
from assay.semantics.module import Module

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
    stack = [*dict.fromkeys(first)]
    while stack:
        name = stack[-1]
        if name not in called:
            of = module.definitions.get(name)
            called[name] = _calls(of) if isinstance(of, Function) else []
            stack += [n for n in dict.fromkeys(called[name]) if n not in called]
        else:
            stack.pop()
            known.setdefault(name, 1 + sum(known.get(n, 0) for n in called[name]))
    return sum(known[n] for n in first)


def _calls(function: Function) -> list[str]:
    """The functions of the module that each run of a function calls, each as often as it does."""
    found: list[str] = []
    seen: set[int] = set()
    work: list[Expr] = [function.body]
    while work:
        node = work.pop()
        if id(node) in seen or isinstance(node, Function):
            continue
        seen.add(id(node))
        if isinstance(node, If):
            work.append(node.condition)
        elif isinstance(node, Match):
            work.append(node.value)
        else:
            if isinstance(node, Call) and isinstance(node.op, GlobalVar):
                found.append(node.op.name)
            work += node.children
    return found
