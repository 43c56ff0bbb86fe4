"""if, case and while of StableHLO (specs/lower.md, "StableHLO").

A branch is an expression that only runs where it is taken. A loop is a local function that calls itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from assay.lower.frontends.stablehlo.build import Scope
from assay.lower.frontends.stablehlo.node import HloNode, HloRule, tensor_of
from assay.lower.frontends.stablehlo.operators.elementwise import map_
from assay.lower.frontends.stablehlo.syntax import TensorText
from assay.semantics import graph
from assay.semantics.dtypes import BOOL
from assay.semantics.errors import Invalid
from assay.semantics.graph import Expr, Var
from assay.semantics.scalar import Dim, Var as Symbol
from assay.semantics.tasks import Task
from assay.semantics.types import FuncType, TensorType, TupleType, Type


def packed(values: Sequence[Expr]) -> Expr:
    """One value as itself, several as a tuple."""
    return values[0] if len(values) == 1 else graph.tuple_of(*values)


def unpacked(node: HloNode, value: Expr, count: int) -> list[Expr]:
    """The values of what `packed` made."""
    named = node.builder.named(value)
    return [named] if count == 1 else [node.builder.named(graph.get(named, k)) for k in range(count)]


def branch(node: HloNode, index: int) -> Task[tuple[Expr, int]]:
    """A region without parameters as an expression, and how many values it gives."""
    outer, scope = node.builder.scope, Scope()
    node.builder.scope = scope
    values = yield node.run_region(index, [])
    node.builder.scope = outer
    return node.builder.around(packed(values), scope), len(values)


def if_(node: HloNode) -> Task[list[Expr]]:
    """The first region where the operand holds, else the second."""
    if len(node.args) != 1:
        raise node.wrong("one operand is wanted")
    then, count = yield branch(node, 0)
    otherwise, other = yield branch(node, 1)
    if count != other:
        raise node.wrong(f"its regions give {count} and {other} values")
    return unpacked(node, graph.if_(node.args[0], then, otherwise, node.builder.span), count)


def case(node: HloNode) -> Task[list[Expr]]:
    """The region whose number the operand is; the last for every other number."""
    if len(node.args) != 1 or tensor_of(node.args[0]).ndim or not node.op.regions:
        raise node.wrong("a scalar and regions are wanted")
    branches: list[tuple[Expr, int]] = []
    for k in range(len(node.op.regions)):
        branches.append((yield branch(node, k)))
    tests = [node.call("equal", node.args[0], k) for k in range(len(branches) - 1)]
    whole, count = branches[-1]
    for test, (value, other) in zip(reversed(tests), reversed(branches[:-1]), strict=True):
        if count != other:
            raise node.wrong(f"its regions give {count} and {other} values")
        whole = graph.if_(test, value, whole, node.builder.span)
    return unpacked(node, whole, count)


def opened(node: HloNode, index: int, x: Expr) -> Type:
    """The type of a variable of a loop: a size that the text leaves open may change, and is a symbol of the loop."""
    text = node.op.types[index] if index < len(node.op.types) else None
    if not isinstance(x.type, TensorType) or not isinstance(text, TensorText) or len(text.shape) != x.type.ndim:
        return x.type
    pairs = zip(x.type.shape, text.shape, strict=True)
    shape: tuple[Dim, ...] = tuple(Symbol(f"d{k}") if e is None else d for k, (d, e) in enumerate(pairs))
    return TensorType(shape, x.type.dtype)


def while_(node: HloNode) -> Task[list[Expr]]:
    """The variables after as many runs of the second region as the first holds for."""
    builder, count = node.builder, len(node.args)
    types = [opened(node, k, x) for k, x in enumerate(node.args)]
    outer, scope, inner = builder.scope, Scope(), Scope()
    states = [graph.var(f"state{k}", t) for k, t in enumerate(types)]
    builder.params.update({s: scope for s in states})
    builder.scope = scope
    (test,) = yield node.run_region(0, states)
    builder.scope = inner
    again = yield node.run_region(1, states)
    if len(again) != count or tensor_of(test).dtype is not BOOL:
        raise node.wrong(f"its regions give a bool and {count} values")
    builder.scope = outer
    result = TupleType(tuple(opened(node, k, x) for k, x in enumerate(node.args)))
    made = [looped(node, states, (test, scope), (again, inner), result, pure) for pure in (True, False)]
    found = next(m for m in made if m is not None)
    value = builder.named(found)
    return [builder.named(graph.get(value, k)) for k in range(count)]


def looped(
    node: HloNode,
    states: Sequence[Var],
    test: tuple[Expr, Scope],
    again: tuple[Sequence[Expr], Scope],
    result: TupleType,
    pure: bool,
) -> Expr | None:
    """The loop as a local function, and its first call; None where it acts and is to be pure."""
    builder = node.builder
    loop = graph.var("loop", FuncType(tuple(s.type for s in states), result, pure=pure))
    more = builder.around(graph.call(loop, *again[0], span=builder.span), again[1])
    body = graph.if_(test[0], more, graph.tuple_of(*states), builder.span)
    try:
        made = graph.function(states, builder.around(body, test[1]), result, pure=pure, span=builder.span)
    except Invalid as wrong:
        if wrong.label == "func.C2" and pure:
            return None
        raise
    return graph.let(loop, made, graph.call(loop, *node.args))


TABLE: dict[str, HloRule] = {
    "stablehlo.case": case,
    "stablehlo.if": if_,
    "stablehlo.map": map_,
    "stablehlo.while": while_,
}
