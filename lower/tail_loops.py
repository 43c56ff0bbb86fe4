"""A function that calls itself as the last thing that it does, seen as a loop (specs/lower.md, "Export").

It is seen in one form: what decides, then a branch in which the function calls itself, and one in which it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from assay.semantics import graph
from assay.semantics.graph import Expr, Function, Let, let_chain


@dataclass(frozen=True, eq=False)
class TailLoop:
    """The lets before the branch, its condition, whether it goes on where that holds, the lets of a round and the
    arguments of the next one, and what ends the loop."""

    before: Sequence[Let]
    condition: Expr
    goes_on: bool
    round: Sequence[Let]
    again: Sequence[Expr]
    end: Expr


def tail_loop_of(function: Function, own: Callable[[Expr], bool]) -> TailLoop | None:
    """The loop that a function in A-normal form is, which `own` knows by what names it; None where it is none of that
    form."""
    before, branch = _last(function.body)
    if not isinstance(branch, graph.If):
        return None
    for goes_on, first, second in ((True, branch.then, branch.otherwise), (False, branch.otherwise, branch.then)):
        inner, call = _last(first)
        if isinstance(call, graph.Call) and isinstance(call.op, Expr) and own(call.op):
            return TailLoop(before, branch.condition, goes_on, inner, call.args, second)
    return None


def _last(body: Expr) -> tuple[list[Let], Expr]:
    """The last thing that a block does, and the lets before it."""
    lets, result = let_chain(body)
    count = len(lets)
    while count and result is lets[count - 1].var:
        count -= 1
        result = lets[count].value
    return lets[:count], result
