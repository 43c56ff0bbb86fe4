"""A function that calls itself as the last thing that it does, as StableHLO's while (specs/lower.md, "Export").

It is seen in one form: what decides, then a branch in which the function calls itself, and one in which it does not.
What decides is written before each round and behind the last one, for the branch that ends the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assay.lower.stablehlo_export.writer import HloBlock, HloValue
from assay.semantics import graph
from assay.semantics.errors import Unsupported
from assay.semantics.graph import Expr, Function, Let, let_chain
from assay.semantics.tasks import Task

if TYPE_CHECKING:
    from assay.lower.stablehlo_export.program import HloActivation, HloExport, HloItem


@dataclass(frozen=True, eq=False)
class HloLoop:
    """The lets before the branch, its condition, whether it goes on where that holds, the lets of a round and the
    arguments of the next one, and what ends the loop."""

    before: Sequence[Let]
    condition: Expr
    goes_on: bool
    round: Sequence[Let]
    again: Sequence[Expr]
    end: Expr


def loop_of(function: Function, own: Callable[[Expr], bool]) -> HloLoop | None:
    """The loop that a function in A-normal form is, which `own` knows by what names it; None where it is none of that
    form."""
    before, branch = _last(function.body)
    if not isinstance(branch, graph.If):
        return None
    for goes_on, first, second in ((True, branch.then, branch.otherwise), (False, branch.otherwise, branch.then)):
        inner, call = _last(first)
        if isinstance(call, graph.Call) and isinstance(call.op, Expr) and own(call.op):
            return HloLoop(before, branch.condition, goes_on, inner, call.args, second)
    return None


def _last(body: Expr) -> tuple[list[Let], Expr]:
    """The last thing that a block does, and the lets before it."""
    lets, result = let_chain(body)
    while lets and result is lets[-1].var:
        result = lets.pop().value
    return lets, result


def looped(export: HloExport, loop: HloLoop, function: Function, at: HloActivation) -> Task[HloItem]:
    """The while, and what stands behind it. The parameters of the function are bound to what they begin with."""
    from assay.lower.stablehlo_export.program import HloActivation, refilled, values_of

    starts = [at.values[p] for p in function.params]
    flat = [v for item in starts for v in values_of(item)]
    types = [(v.shape, v.dtype) for v in flat]

    def bound(values: Sequence[HloValue]) -> HloActivation:
        rest, inside = list(values), HloActivation(at.outer)
        for p, item in zip(function.params, starts, strict=True):
            count = len(values_of(item))
            export.bind(inside, p, refilled(item, rest[:count]))
            del rest[:count]
        return inside

    regions: list[str] = []
    for is_test in (True, False):
        params = [export.writer.value(*t) for t in types]
        export.writer.blocks.append(HloBlock())
        inside = bound(params)
        yield export.bindings(loop.before, inside)
        if is_test:
            test = yield export.value(loop.condition, inside)
            assert isinstance(test, HloValue)
            if not loop.goes_on:
                (test,) = export.writer.op("stablehlo.not", [test], [(test.shape, test.dtype)])
            regions.append(export.ended(test, params))
            continue
        yield export.bindings(loop.round, inside)
        again = [v for item in (yield export.values(loop.again, inside)) for v in values_of(item)]
        if [(v.shape, v.dtype) for v in again] != types:
            raise Unsupported("the sizes of a loop's state change in a round", label="stablehlo_export.C4")
        regions.append(export.ended(tuple(again), params))
    behind = bound(export.writer.op("stablehlo.while", flat, types, {}, regions))
    yield export.bindings(loop.before, behind)
    result: HloItem = yield export.body(loop.end, behind)
    return result
