"""Loops whose variable is taken apart by division become two loops (specs/interp.md, "Vector")."""

from __future__ import annotations

from collections.abc import Mapping

from assay.interp.vector.blocks import (
    Bind,
    Block,
    Blocks,
    Branch,
    Check,
    Drop,
    Fresh,
    Loop,
    Repeat,
    Write,
    expressions,
    walk,
)
from assay.semantics.integers.affine import Affine, AffineQuotient, affine
from assay.semantics.integers.ranges import Interval
from assay.semantics.scalar import Expr, Load, Var, const
from assay.semantics.walk import Worklist, post_order, rewrite


def split_loops(blocks: Blocks) -> None:
    """Make two loops of each loop whose variable is used as a quotient by a divisor of its trip count.

    Then `oc // 4` and `oc % 4` are variables themselves, and an access with them is as regular as any other.
    """
    work = Worklist([i for i in walk(blocks.body) if isinstance(i, Loop)][::-1])
    for loop in work:
        divisor = _divisor(loop, blocks.ranges)
        if divisor is None or loop.trip is None:
            continue
        outer, low = Var(f"{loop.var.name}_q", loop.var.dtype), Var(f"{loop.var.name}_r", loop.var.dtype)
        blocks.ranges[outer] = (0, loop.trip // divisor - 1)
        blocks.ranges[low] = (0, divisor - 1)
        _replace(loop.body, {loop.var: outer * divisor + low}, blocks.ranges)
        count = const(divisor)
        inside = Loop(low, count, Affine({}, divisor), divisor, divisor, loop.kind, loop.body, span=loop.span)
        loop.var, loop.trip, loop.most = outer, loop.trip // divisor, loop.trip // divisor
        loop.extent, loop.form, loop.body = const(loop.trip), Affine({}, loop.trip), [inside]
        work.add([inside, loop])


def _divisor(loop: Loop, ranges: Mapping[Var, Interval]) -> int | None:
    """The least number by which an index in the loop divides its variable, if it divides the trip count as well."""
    if loop.trip is None:
        return None
    found: set[int] = set()
    for item in walk(loop.body):
        for expr in expressions(item):
            for index in _integers(expr, loop.var):
                form = affine(index, ranges)
                if form is not None:
                    found |= {
                        a.divisor for a in form.terms if isinstance(a, AffineQuotient) and _is_just(a.form, loop.var)
                    }
    fitting = [d for d in found if 1 < d < loop.trip and loop.trip % d == 0]
    return min(fitting, default=None)


def _is_just(form: Affine, var: Var) -> bool:
    return form.constant == 0 and dict(form.terms) == {var: 1}


def _integers(expr: Expr, var: Var) -> list[Expr]:
    """The index expressions in `expr` that use `var`, and `expr` itself if it is one."""
    nodes = list(post_order(expr))
    if not any(n is var for n in nodes):
        return []
    out = [i for n in nodes if isinstance(n, Load) for i in n.indices]
    return [*out, expr] if expr.dtype.is_integer else out


def _replace(block: Block, by: Mapping[Var, Expr], ranges: Mapping[Var, Interval]) -> None:
    """Replace variables in every expression of a block."""

    def change(expr: Expr) -> Expr:
        return rewrite(expr, lambda n: by.get(n, n) if isinstance(n, Var) else n)

    for item in walk(block):
        match item:
            case Loop():
                item.extent = change(item.extent)
                item.form = affine(item.extent, ranges)
            case Branch() | Repeat() | Check():
                item.condition = change(item.condition)
            case Bind() | Drop():
                item.value = change(item.value)
            case Write():
                item.indices = tuple(change(i) for i in item.indices)
                item.value = change(item.value)
            case Fresh():
                pass
