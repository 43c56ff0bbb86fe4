"""Branches and loops of torch.export (specs/lower.md, "torch.export").

PyTorch: torch.cond, torch.while_loop, torch._higher_order_ops.scan. A branch is an expression that only runs where it
is taken; a loop is a local function that calls itself, and a short scan is unrolled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assay.lower.frontends.stablehlo.build import Scope
from assay.lower.frontends.stablehlo.operators.loops import counted_loop
from assay.lower.frontends.torch_export.node import AtenNode, AtenRule, aten_type
from assay.semantics import graph, scalar
from assay.semantics.dtypes import BOOL, INT64
from assay.semantics.graph import Expr, Var
from assay.semantics.tasks import Task
from assay.semantics.types import FuncType, TupleType

MOST_UNROLLED = 16
"""A scan of more steps is a loop."""


def graph_of(node: AtenNode, place: int, *names: str) -> Any:
    """A graph that is an argument, by its place or its name."""
    values = list(node.args.values())
    found = next((node.args[n] for n in names if n in node.args), values[place] if place < len(values) else None)
    if not isinstance(found, dict):
        raise node.wrong(f"its argument {place} is no graph")
    return found


def listed(node: AtenNode, place: int) -> list[Any]:
    """An argument that is a list of values, by its place; none where it is left out."""
    values = list(node.args.values())
    found = values[place] if place < len(values) else []
    if not isinstance(found, (list, tuple)):
        raise node.wrong(f"its argument {place} is no list")
    return list(found)


def run(node: AtenNode, of: Any, values: Sequence[Any]) -> Task[list[Any]]:
    """The results of a graph for values of its inputs."""
    assert node.subgraph is not None
    return (yield from node.subgraph(of, values))


def as_tensors(node: AtenNode, values: Sequence[Any]) -> list[Expr]:
    """Results of a graph as tensors: a size is a scalar."""
    made: list[Expr] = []
    for v in values:
        if isinstance(v, (int, float, scalar.Expr)):
            made.append(node.as_tensor(v, node.promoted(v)))
        elif isinstance(v, Expr):
            made.append(v)
        else:
            raise node.unsupported("a graph that gives what is no tensor")
    return made


def as_one_value(values: Sequence[Expr]) -> Expr:
    """One value as itself, several as a tuple."""
    return values[0] if len(values) == 1 else graph.tuple_of(*values)


def branch(node: AtenNode, of: Any, values: Sequence[Any]) -> Task[tuple[Expr, int]]:
    """A graph as an expression, and how many values it gives."""
    builder = node.builder
    outer, scope = builder.scope, Scope()
    builder.scope = scope
    made = as_tensors(node, (yield run(node, of, values)))
    builder.scope = outer
    return builder.around(as_one_value(made), scope), len(made)


def cond(node: AtenNode) -> Task[list[Any]]:
    """The first graph where the condition holds, else the second."""
    test = next(iter(node.args.values()))
    then, otherwise = graph_of(node, 1, "true_fn"), graph_of(node, 2, "false_fn")
    values = listed(node, 3)
    if isinstance(test, bool):
        return (yield from run(node, then if test else otherwise, values))
    if not isinstance(test, Expr):
        raise node.wrong("its condition is no truth")
    first, count = yield branch(node, then, values)
    second, other = yield branch(node, otherwise, values)
    if count != other:
        raise node.wrong(f"its graphs give {count} and {other} values")
    holds = node.cast(node.shaped(test), BOOL)
    whole = node.builder.named(graph.if_(holds, first, second, node.builder.span))
    return [whole] if count == 1 else [node.field(whole, k) for k in range(count)]


def while_loop(node: AtenNode) -> Task[list[Expr]]:
    """The values after as many runs of the second graph as the first holds for."""
    builder = node.builder
    test_of, body_of = graph_of(node, 0, "cond_fn"), graph_of(node, 1, "body_fn")
    starts, more = as_tensors(node, listed(node, 2)), listed(node, 3)
    states = [graph.var(f"state{k}", s.type) for k, s in enumerate(starts)]
    outer, scope, inner = builder.scope, Scope(), Scope()
    builder.scope = scope
    (test,) = yield run(node, test_of, [*states, *more])
    test = node.shaped(test if isinstance(test, Expr) else node.as_tensor(test, BOOL))
    builder.scope = inner
    again = as_tensors(node, (yield run(node, body_of, [*states, *more])))
    builder.scope = outer
    result = TupleType(tuple(s.type for s in starts))
    loop = graph.var("loop", FuncType(tuple(s.type for s in states), result))
    step = builder.around(graph.call(loop, *again, span=builder.span), inner)
    body = graph.if_(test, step, graph.tuple_of(*states), builder.span)
    made = graph.function(states, builder.around(body, scope), result, pure=True, span=builder.span)
    value = builder.named(graph.let(loop, made, graph.call(loop, *starts)))
    return [node.field(value, k) for k in range(len(starts))]


def scan_rule(node: AtenNode) -> Task[list[Expr]]:
    """States that go from step to step over slices of the first axis, and what each step gives, behind one another."""
    of = graph_of(node, 0, "combine_fn")
    states, xs, more = as_tensors(node, listed(node, 1)), as_tensors(node, listed(node, 2)), listed(node, 3)
    if not xs:
        raise node.unsupported("nothing that it goes over")
    count = aten_type(xs[0]).shape[0]
    if isinstance(count, int) and 0 < count <= MOST_UNROLLED:
        given: list[list[Expr]] = []
        for k in range(count):
            slices = [node.call("take", x, node.constant(k, INT64), axis=0) for x in xs]
            made = as_tensors(node, (yield run(node, of, [*states, *slices, *more])))
            states, own = made[: len(states)], made[len(states) :]
            given.append(own)
        return [*states, *(_stacked(node, column) for column in zip(*given, strict=True))]
    ys = [node.full(t.shape, 0, t.dtype) for t in map(node.result, range(len(states), len(node.declared)))]

    def step(place: Var, values: Sequence[Var]) -> Task[Sequence[Expr]]:
        slices = [node.call("take", x, place, axis=0) for x in xs]
        made = as_tensors(node, (yield run(node, of, [*values[: len(states)], *slices, *more])))
        at = node.shaped(place, 1, 1)
        rows = [node.call("scatter_nd", y, at, node.shaped(v, 1, *aten_type(v).shape), reduction="none")
                for y, v in zip(values[len(states) :], made[len(states) :], strict=True)]  # fmt: skip
        return [*made[: len(states)], *rows]

    return (yield from counted_loop(node, count, [*states, *ys], step))


def _stacked(node: AtenNode, values: Sequence[Expr]) -> Expr:
    rows = [node.shaped(v, 1, *aten_type(v).shape) for v in values]
    return node.call("concat", *rows, axis=0) if len(rows) > 1 else rows[0]


def inlined(place: int, first: int) -> AtenRule:
    """A graph that is an argument, done where it stands; its operands begin with argument `first`."""

    def rule(node: AtenNode) -> Task[list[Any]]:
        values = list(node.args.values())[first:]
        return (yield from run(node, graph_of(node, place), values))

    return rule


TABLE: dict[str, AtenRule] = {
    "cond": cond,
    "invoke_subgraph": inlined(0, 2),
    "scan": scan_rule,
    "while_loop": while_loop,
    "wrap_with_set_grad_enabled": inlined(1, 2),
}
