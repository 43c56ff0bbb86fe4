"""The elements of a buffer in another order (specs/lower.md, "loops").

A layout puts the axes in another order and cuts some of them into blocks, whose insides come last: `Layout((1, 0))`
transposes a matrix, `Layout((1, 0), ((1, 8),))` of a matrix k by n gives n/8 by k by 8. A block that the axis does not
fill is filled with zeros, which are never read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from assay.lower.loops.rewriting import changed, plain_function
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.scalar import Expr, Load
from assay.semantics.tensor import AllocateConst, Buffer, PrimFunc, Stmt, Store, program_order
from assay.semantics.tensor.sugar import has_sugar
from assay.semantics.walk import rewrite

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Layout:
    """`order` are the axes, outermost first; `blocks` are pairs (axis, elements in a block), whose insides come last,
    in this order. Invalid (`layout.C1`): not every axis once, or a block that is none."""

    order: tuple[int, ...]
    blocks: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        cut = [a for a, _ in self.blocks]
        if (
            sorted(self.order) != list(range(len(self.order)))
            or len(set(cut)) < len(cut)
            or not set(cut) <= set(self.order)
        ):
            raise Invalid(f"{self} does not name every axis once", label="layout.C1")
        if any(n < 1 for _, n in self.blocks):
            raise Invalid(f"{self}: a block has at least 1 element", label="layout.C1")

    def counts(self, shape: Sequence[int]) -> tuple[int, ...]:
        """How many blocks there are along each axis, or elements where it is not cut."""
        if len(shape) != len(self.order):
            raise Invalid(
                f"{self} is for {len(self.order)} axes, the tensor has the shape {tuple(shape)}", label="layout.C1"
            )
        sizes = dict(self.blocks)
        return tuple(-(-n // sizes.get(a, 1)) for a, n in enumerate(shape))

    def shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape that a buffer of this static shape has in the layout."""
        counts = self.counts(shape)
        return (*(counts[a] for a in self.order), *(n for _, n in self.blocks))

    def index(self, index: Sequence[Expr]) -> tuple[Expr, ...]:
        """Where the element of an index is."""
        sizes = dict(self.blocks)
        outer = [index[a] // sizes[a] if a in sizes else index[a] for a in self.order]
        return (*outer, *(index[a] % n for a, n in self.blocks))

    def steps(self, shape: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
        """The same by three movements: zeros that each axis is longer by at its end, then a shape with each cut axis in
        two, then an order of its axes."""
        counts, sizes = self.counts(shape), dict(self.blocks)
        more = [counts[a] * sizes.get(a, 1) - n for a, n in enumerate(shape)]
        split: list[int] = []
        outer: dict[int, int] = {}
        inner: dict[int, int] = {}
        for a, n in enumerate(counts):
            outer[a] = len(split)
            split.append(n)
            if a in sizes:
                inner[a] = len(split)
                split.append(sizes[a])
        return more, split, [*(outer[a] for a in self.order), *(inner[a] for a, _ in self.blocks)]

    def apply(self, data: Array) -> Array:
        """The elements in this layout."""
        more, split, axes = self.steps(data.shape)
        padded = np.pad(data, [(0, n) for n in more]) if any(more) else data
        return np.ascontiguousarray(padded.reshape(split).transpose(axes))


def relayout(func: PrimFunc, buffer: str, layout: Layout) -> PrimFunc:
    """A constant of `func`, or a parameter that it only reads, in another layout; every load follows.

    The data of a constant are laid anew, and it is no longer the constant of the module's table that it was. A
    parameter gets another shape: who calls must hand over the other order. What looks at it through a view, such as
    TVM's `T.decl_buffer(..., data=w)`, follows too: the function is written in plain nodes first. Invalid where there
    is no such buffer (`loops.C2`) or it is stored to (`loops.C12`); Unsupported where a call touches it, or its sizes
    are not known.
    """
    func = plain_function(func) if has_sugar(func) else func
    constants = [s for s in program_order(func.body) if isinstance(s, AllocateConst)]
    found = [b for b in (*func.inputs, *(s.buffer for s in constants)) if b.name == buffer]
    if not found:
        written = any(b.name == buffer for b in (*func.outputs, *func.allocations))
        label, what = ("loops.C12", "writes") if written else ("loops.C2", "has no constant or parameter")
        raise Invalid(f"{func.name} {what} {buffer}; the layout of what is only read can change", label=label)
    if len(found) > 1:
        raise Invalid(f"{func.name} has {len(found)} buffers {buffer}: rename one", label="loops.C2")
    (old,) = found
    if any(isinstance(s, Store) and s.buffer is old for s in program_order(func.body)):
        raise Invalid(f"{func.name} stores to {buffer}; the layout of what is only read can change", label="loops.C12")
    shape = tuple(n for n in old.shape if isinstance(n, int))
    if len(shape) != len(old.shape):
        raise Unsupported(f"{func.name}: the sizes of {buffer} are not numbers", label="loops.C12")
    new = replace(old, shape=layout.shape(shape))

    def load(node: Expr) -> Expr:
        return (
            Load(node.dtype, new, layout.index(node.indices)) if isinstance(node, Load) and node.buffer is old else node
        )

    def statement(stmt: Stmt) -> Stmt:
        made = changed(stmt, stmt.children, lambda e: rewrite(e, load))
        if isinstance(made, AllocateConst) and made.buffer is old:
            data = layout.apply(made.contents)
            data.flags.writeable = False
            return replace(made, buffer=new, data=data, index="")
        return made

    params: tuple[Buffer, ...] = tuple(new if b is old else b for b in func.params)
    return replace(func, params=params, body=rewrite(func.body, statement))
