"""A function that calls itself as the last thing that it does, as ONNX's Loop (specs/lower.md, "Export").

What decides is written before the loop, behind each round, and behind the last one for what ends it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from assay.lower.onnx_export.writer import GraphBlock, Value
from assay.lower.tail_loops import TailLoop
from assay.semantics.dtypes import BOOL, INT64
from assay.semantics.errors import Unsupported
from assay.semantics.graph import Function
from assay.semantics.tasks import Task
from assay.semantics.types import TensorType, TupleType, Type

if TYPE_CHECKING:
    from assay.lower.onnx_export.program import Activation, Export, Item

SCALARS = TensorType((), INT64), TensorType((), BOOL)
"""What Loop gives a round beside the state: its number, and whether it runs."""


def looped(export: Export, loop: TailLoop, function: Function, at: Activation) -> Task[Item]:
    """The Loop, and what stands behind it. The parameters of the function are bound to what they begin with."""
    from assay.lower.onnx_export.program import Activation, info_of, leaves_of, reshaped_item, values_of

    writer = export.writer
    types: list[Type] = [p.type for p in function.params]
    leaves = leaves_of(TupleType(tuple(types)))
    flat = [v for p in function.params for v in values_of(at.values[p])]

    def bound(values: Sequence[Value]) -> Activation:
        rest, inside = iter(values), Activation(at.outer)
        for p in function.params:
            export.bind(inside, p, reshaped_item(p.type, rest), writer.block)
        return inside

    def test(inside: Activation) -> Task[Value]:
        yield export.bindings(loop.before, inside)
        found = yield export.value(loop.condition, inside)
        assert isinstance(found, Value)
        return found if loop.goes_on else writer.node("Not", [found], [BOOL])[0]

    first = yield test(at)
    if len(writer.blocks) > export.MOST_DEPTH:
        raise Unsupported(
            f"loops lie {export.MOST_DEPTH} deep, more than a stored model can hold", label="onnx_export.C6"
        )
    writer.blocks.append(GraphBlock())
    number, runs = (Value(writer.name(n), t.dtype) for n, t in zip(("round", "runs"), SCALARS, strict=True))
    states = [Value(writer.name("state"), v.dtype) for v in flat]
    given = [info_of(v, t, set()) for v, t in zip((number, runs, *states), (*SCALARS, *leaves), strict=True)]
    inside = bound(states)
    yield export.bindings(loop.before, inside)
    yield export.bindings(loop.round, inside)
    again = [v for item in (yield export.values(loop.again, inside)) for v in values_of(item)]
    goes_on = yield test(bound(again))
    body = export.ended("round", [goes_on, *again], [SCALARS[1], *leaves], given)
    behind = bound(writer.node("Loop", [None, first, *flat], [v.dtype for v in flat], {"body": body}))
    yield export.bindings(loop.before, behind)
    result: Item = yield export.body(loop.end, behind)
    return result
