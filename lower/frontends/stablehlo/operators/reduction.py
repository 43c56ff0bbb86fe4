"""reduce, and what it shares with other operations that have a region (specs/lower.md, "StableHLO").

StableHLO leaves open in which tree the elements meet, and where initial values stand between them, as long as the order
of the elements stays. A region of one operation is an operator of ours. Any other is done on whole tensors, on pairs of
neighbours: after log2(n) steps one is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from assay.lower.frontends.stablehlo.node import HloNode, HloRule, tensor_of
from assay.lower.frontends.stablehlo.operators.elementwise import ELEMENTWISE
from assay.lower.frontends.stablehlo.operators.loops import counted_loop
from assay.lower.frontends.stablehlo.operators.movement import known_number
from assay.lower.frontends.stablehlo.syntax import Operation, Region
from assay.semantics.dtypes import BOOL, DType
from assay.semantics.graph import Expr, Var
from assay.semantics.ops.sizes import product
from assay.semantics.scalar import Dim
from assay.semantics.tasks import Task

ONE_OPERATION = {"stablehlo.add": "add", "stablehlo.multiply": "mul", "stablehlo.maximum": "max",
                 "stablehlo.minimum": "min", "stablehlo.and": "and", "stablehlo.or": "or"}  # fmt: skip
"""The operations whose order does not matter to us, by what the region of one of them does."""

LOGICAL = {"add": "or", "mul": "and", "max": "or", "min": "and", "and": "and", "or": "or"}
REDUCED = {"add": "sum", "mul": "prod", "max": "max", "min": "min"}


def region_of(op: Operation, index: int = 0) -> Region | None:
    """A region, also where the text names an operation instead of one."""
    return op.regions[index] if index < len(op.regions) else None


def recognised(node: HloNode, of: DType, index: int = 0) -> str:
    """What a region of two scalars does: "add", "mul", "max", "min"; "second" where it gives the second; "" if it is
    another. For bools `max` is or, and `min` is and."""
    applied = node.op.attrs.get("applies")
    if applied:
        how = ONE_OPERATION.get(applied if "." in applied else f"stablehlo.{applied}", "")
    else:
        how = _of_region(region_of(node.op, index))
    if how in ("", "second"):
        return how
    if of is BOOL:
        return {"or": "max", "and": "min"}[LOGICAL[how]]
    return how if how in REDUCED else ""


def _of_region(region: Region | None) -> str:
    if region is None or len(region.params) != 2 or not region.body:
        return ""
    names = [p.name for p in region.params]
    *ops, last = region.body
    returned = [u.name for u in last.operands]
    if not ops:
        return "second" if returned == names[1:] else ""
    if len(ops) != 1 or returned != [n for n, _ in ops[0].results]:
        return ""
    return ONE_OPERATION.get(ops[0].name, "") if sorted(u.name for u in ops[0].operands) == sorted(names) else ""


def combined(node: HloNode, args: Sequence[Expr], shapes: Sequence[tuple[Dim, ...]]) -> Task[list[Expr]]:
    """What the region gives for whole tensors, each of the shape that is wanted."""
    applied = node.op.attrs.get("applies")
    if applied:
        name = applied if "." in applied else f"stablehlo.{applied}"
        if name not in ELEMENTWISE or len(args) != 2:
            raise node.wrong(f"applies {applied}: an elementwise operation of two operands is wanted")
        inner = replace(node, op=Operation(name, node.op.start, node.op.end), args=list(args), lifted=True)
        found = [ELEMENTWISE[name](inner)]
    else:
        found = yield node.run_region(0, list(args), True)
    if len(found) != len(shapes):
        raise node.wrong(f"its region gives {len(found)} values; {len(shapes)} are wanted")
    return [node.stretched(x, *s) for x, s in zip(found, shapes, strict=True)]


def reduce(node: HloNode) -> Task[list[Expr]]:
    """The elements along axes as one."""
    count = len(node.args) // 2
    if not count or len(node.args) % 2:
        raise node.wrong("as many initial values as operands are wanted")
    node.operands(2 * count)
    xs = node.alike(*node.args[:count])
    axes = node.axes(tensor_of(xs[0]).ndim, "dimensions")
    return (yield from reduced(node, xs, node.args[count:], tuple(sorted(axes))))


def reduced(node: HloNode, xs: Sequence[Expr], inits: Sequence[Expr], axes: Sequence[int]) -> Task[list[Expr]]:
    """Tensors of one shape, reduced along axes by the region."""
    shape = tensor_of(xs[0]).shape
    for x, init in zip(xs, inits, strict=True):
        if tensor_of(init).ndim and not node.lifted or tensor_of(init).dtype is not tensor_of(x).dtype:
            raise node.wrong(f"an initial value is {init.type} for an operand {x.type}")
    kept = [d for a, d in enumerate(shape) if a not in axes]
    if not axes:
        return (yield from combined(node, [*inits, *xs], [shape] * len(xs)))
    if any(isinstance(shape[a], int) and shape[a] == 0 for a in axes):
        return [node.stretched(i, *kept) for i in inits]
    how = recognised(node, tensor_of(xs[0]).dtype) if len(xs) == 1 else ""
    if how in REDUCED:
        return [whole(node, xs[0], inits[0], axes, how)]
    size = product([shape[a] for a in axes])
    rest = [a for a in range(len(shape)) if a not in axes]
    flat = [node.shaped(_moved(node, x, (*axes, *rest)), size, *kept) for x in xs]
    if not isinstance(size, int):
        return (yield from folded(node, flat, inits, size))
    return (yield from halved(node, flat, inits, size))


def _moved(node: HloNode, x: Expr, axes: Sequence[int]) -> Expr:
    return x if list(axes) == list(range(len(axes))) else node.call("permute_dims", x, axes=tuple(axes))


def whole(node: HloNode, x: Expr, init: Expr, axes: Sequence[int], how: str) -> Expr:
    """A reduction that is an operator of ours, and the initial value where it changes something."""
    of, shape = tensor_of(x).dtype, tensor_of(x).shape
    if how in ("max", "min") and not all(isinstance(shape[a], int) for a in axes):
        start = node.stretched(init, *(1 if a == axes[0] else d for a, d in enumerate(shape)))
        return node.call(how, node.call("concat", start, x, axis=axes[0]), axis=tuple(axes), keepdims=False)
    found = node.call(REDUCED[how], x, axis=tuple(axes), keepdims=False)
    neutral = {"add": 0, "mul": 1, "max": float("-inf") if of.is_float else of.min,
               "min": float("inf") if of.is_float else of.max}[how]  # fmt: skip
    if known_number(node, init) == neutral:
        return found
    if of is BOOL:
        return node.call("logical_or" if how == "max" else "logical_and", init, found)
    names = {"add": "add", "mul": "multiply", "max": "maximum", "min": "minimum"}
    return node.call(names[how], init, found)


def halved(node: HloNode, xs: Sequence[Expr], inits: Sequence[Expr], size: int) -> Task[list[Expr]]:
    """Elements along the first axis, pairs of neighbours at a time; the initial value stands before them."""
    xs = list(xs)
    while size > 1:
        half = size // 2
        firsts = [node.cut(x, 0, 0, 2 * half, 2) for x in xs]
        seconds = [node.cut(x, 0, 1, 2 * half, 2) for x in xs]
        met = yield combined(node, [*firsts, *seconds], [tensor_of(f).shape for f in firsts])
        if size % 2:
            met = [node.call("concat", m, node.cut(x, 0, size - 1, size), axis=0) for m, x in zip(met, xs, strict=True)]
        xs, size = met, half + size % 2
    last = [node.shaped(x, *tensor_of(x).shape[1:]) for x in xs]
    return (yield from combined(node, [*inits, *last], [tensor_of(x).shape for x in last]))


def folded(node: HloNode, xs: Sequence[Expr], inits: Sequence[Expr], size: Dim) -> Task[list[Expr]]:
    """Elements along the first axis, one after another. For sizes that are not known."""
    starts = [node.stretched(i, *tensor_of(x).shape[1:]) for i, x in zip(inits, xs, strict=True)]

    def meet(place: Var, states: Sequence[Var]) -> Task[Sequence[Expr]]:
        items = [node.call("take", x, place, axis=0) for x in xs]
        return (yield from combined(node, [*states, *items], [tensor_of(s).shape for s in starts]))

    return (yield from counted_loop(node, size, starts, meet))


TABLE: dict[str, HloRule] = {"stablehlo.reduce": reduce}
