"""A function that calls itself as the last thing that it does, as StableHLO's while (specs/lower.md, "Export").

What decides is written before each round and behind the last one, for the branch that ends the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from assay.lower.stablehlo_export.writer import HloBlock, HloValue
from assay.lower.tail_loops import TailLoop
from assay.semantics.errors import Unsupported
from assay.semantics.graph import Function
from assay.semantics.tasks import Task

if TYPE_CHECKING:
    from assay.lower.stablehlo_export.program import HloActivation, HloExport, HloItem


def looped(export: HloExport, loop: TailLoop, function: Function, at: HloActivation) -> Task[HloItem]:
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
            raise Unsupported("the sizes of a loop's state change in a round", label="stablehlo_export.C3")
        regions.append(export.ended(tuple(again), params))
    behind = bound(export.writer.op("stablehlo.while", flat, types, {}, regions))
    yield export.bindings(loop.before, behind)
    result: HloItem = yield export.body(loop.end, behind)
    return result
