"""A loop over the numbers below a size, as a local function that calls itself (specs/lower.md, "StableHLO")."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from assay.lower.frontends.composing import Composer
from assay.lower.frontends.stablehlo.build import Scope
from assay.semantics import graph
from assay.semantics.dtypes import INT64
from assay.semantics.graph import Expr, Var
from assay.semantics.scalar import Dim
from assay.semantics.tasks import Task
from assay.semantics.types import FuncType, TensorType, TupleType

Step = Callable[[Var, Sequence[Var]], Task[Sequence[Expr]]]
"""What the states are behind one round, given its number and what they were."""


def counted_loop(node: Composer, count: Dim, starts: Sequence[Expr], step: Step) -> Task[list[Expr]]:
    """The states behind `count` rounds that begin with `starts`."""
    builder = node.builder
    end = node.amount(count)
    number = graph.var("i", TensorType((), INT64))
    states = [graph.var(f"so_far{k}", s.type) for k, s in enumerate(starts)]
    result = TupleType(tuple(s.type for s in starts))
    loop = graph.var("loop", FuncType((number.type, *result.fields), result))
    outer, scope = builder.scope, Scope()
    builder.scope = scope
    behind = yield step(number, states)
    again = builder.around(graph.call(loop, node.call("add", number, 1), *behind), scope)
    builder.scope = outer
    body = graph.if_(graph.call("less", number, end), again, graph.tuple_of(*states))
    made = graph.function([number, *states], body, result, pure=True)
    value = builder.named(graph.let(loop, made, graph.call(loop, builder.constant(0, INT64), *starts)))
    return [builder.named(graph.get(value, k)) for k in range(len(starts))]
