"""The most that sizes can be which only a run tells (specs/lower.md, "liveness").

A measured size has no plan of its own: what depends on it is planned at the greatest size that an assertion next to the
measure lets pass, as an expression in the sizes that are known when a run begins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from assay.lower.liveness.items import Assert, Item, Measured, Resized, Run
from assay.lower.liveness.problem import bytes_of
from assay.semantics.errors import Unsupported
from assay.semantics.graph.effects import kernel_can_trap
from assay.semantics.integers.polynomials import Polynomials
from assay.semantics.integers.ranges import at_least
from assay.semantics.module import Module
from assay.semantics.scalar import Apply, Const, Dim, Expr, Var, apply, simplify, variables
from assay.semantics.types import TensorType
from assay.semantics.walk import post_order

Most: TypeAlias = Mapping[Var, Dim]
"""The greatest values of measured symbols, over symbols that are known when a run begins."""
Ends: TypeAlias = tuple[Dim, Dim | None] | None
"""The least and the greatest value of a dim; no greatest: none is known. None: nothing is known."""


def most_of(items: Sequence[Item], at: int, known: Most, module: Module) -> list[Dim | None]:
    """The greatest values that the symbols of the measure at an index can have where the run goes on: by assertions
    behind it, before which nothing else can fail. None where there are none."""
    measure = items[at]
    assert isinstance(measure, Measured)
    found: dict[Var, Dim | None] = {**known, **dict.fromkeys(measure.symbols)}
    for item in items[at + 1 :]:
        match item:
            case Assert(sizes=pairs):
                for a, b in (*pairs, *((b, a) for a, b in pairs)):
                    if isinstance(b, Var) and b in found and found[b] is None:
                        ends = ends_of(a, found)
                        found[b] = ends[1] if ends is not None else None
            case Run() if not kernel_can_trap(module.kernel(item.kernel)):
                pass
            case Measured() | Resized():
                found.update(dict.fromkeys(s for s in item.symbols if s not in found))
            case _:
                break
    return [found[v] for v in measure.symbols]


def room_of(of: TensorType, most: Most) -> Dim | None:
    """The bytes that a tensor takes at most, where its type has measured symbols; else None. Unsupported (liveness.C10)
    where that is not seen."""
    if not any(v in most for d in of.shape for v in variables(d)):
        return None
    greatest: list[Dim] = []
    for d in of.shape:
        ends = ends_of(d, most)
        if ends is None or ends[1] is None:
            what = f"how great {d} of {of} can be is not seen: it has sizes that only a run tells"
            raise Unsupported(what, label="liveness.C10")
        greatest.append(ends[1])
    return simplify(bytes_of(TensorType(tuple(greatest), of.dtype)))


def ends_of(dim: Dim, most: Mapping[Var, Dim | None]) -> Ends:
    """Between which dims a dim lies, by arithmetic on intervals: a measured symbol between 0 and its greatest value."""
    if not isinstance(dim, Expr):
        return dim, dim
    known: dict[int, Ends] = {}
    for node in post_order(dim):
        known[id(node)] = _ends(node, [known[id(c)] for c in node.children], most)
    return known[id(dim)]


def _ends(node: Expr, parts: Sequence[Ends], most: Mapping[Var, Dim | None]) -> Ends:
    if not any(v in most for v in variables(node)):
        same = int(node.value) if isinstance(node, Const) else node
        return same, same
    if isinstance(node, Var):
        return 0, most[node]
    if not isinstance(node, Apply) or any(p is None for p in parts):
        return None
    (low, high), *others = (p for p in parts if p is not None)
    if len(others) != 1:
        return None
    least, greatest = others[0]
    match node.op:
        case "add":
            return low + least, None if high is None or greatest is None else high + greatest
        case "sub" if greatest is not None:
            return low - greatest, None if high is None else high - least
        case "mul" if isinstance(least, int) and least == greatest and least < 0 and high is not None:
            return high * least, low * least
        case "mul" if _is_natural(low) and _is_natural(least):
            return low * least, None if high is None or greatest is None else high * greatest
        case "min":
            tops = [d for d in (high, greatest) if d is not None]
            top = _extreme("min", *tops) if len(tops) == 2 else tops[0] if tops else None
            return _extreme("min", low, least), top
        case "max":
            top = None if high is None or greatest is None else _extreme("max", high, greatest)
            return _extreme("max", low, least), top
        case "floordiv" if isinstance(least, int) and least == greatest and least > 0:
            return low // least, None if high is None else high // least
        case _:
            return None


def greater(a: Dim, b: Dim) -> Dim:
    """A dim that is at least each of two."""
    return b if _is_natural(b - a) else a if _is_natural(a - b) else _extreme("max", a, b)


def _extreme(op: str, a: Dim, b: Dim) -> Dim:
    found = simplify(apply(op, a, b))
    return int(found.value) if isinstance(found, Const) else found


def _is_natural(dim: Dim) -> bool:
    """Whether a dim is shown never to be negative, as no symbol is."""
    sizes = Polynomials({})
    return at_least(sizes.range(sizes.of(dim)), 0)
