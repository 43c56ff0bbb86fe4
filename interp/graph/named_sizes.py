"""Sizes as a run knows them: computed from symbols, or by the names that statements gave them (rule M4.7;
specs/interp.md, "Graph").
"""

from __future__ import annotations

from typing import Any

from assay.interp.values import Frame, Shape, Value
from assay.semantics.errors import Trap
from assay.semantics.graph import MatchCast, show_head
from assay.semantics.ops.selection import decided_array
from assay.semantics.scalar import Dim, Expr as Scalar, Interner, Var as Symbol, evaluate_dim, show
from assay.semantics.types import ShapeType


class Sizes:
    """The sizes of a run's activations. `number` tells expressions of one structure from others."""

    def __init__(self) -> None:
        self.number = Interner()

    def value(self, d: Dim, frame: Frame) -> int:
        """A dim as a number. With explicit shapes nothing is computed: a size has the name that a statement gave it in
        this activation, or in one around it."""
        if not frame.explicit or isinstance(d, int):
            return evaluate_dim(d, frame.symbols)
        at: Frame | None = frame
        while at is not None:
            if isinstance(d, Symbol) and d in at.symbols:
                return at.symbols[d]
            if not isinstance(d, Symbol) and self.number(d) in at.slots:
                return at.slots[self.number(d)]
            at = at.parent
        raise Trap("shape", f"the size {show(d)} has no name here", label="size.T2")

    def attribute(self, value: Any, frame: Frame) -> Any:
        """An attribute with its symbolic dims as numbers."""
        if isinstance(value, Scalar):
            return self.value(value, frame)
        if isinstance(value, tuple):
            return tuple(self.attribute(v, frame) for v in value)
        return value

    def put(self, node: MatchCast, value: Value, frame: Frame) -> None:
        """Sizes that have no name in this activation get one, if the match-cast is to a shape; nothing is compared."""
        if isinstance(node.type, ShapeType):
            for d, n in zip(node.type.dims, value.dims, strict=True):
                if isinstance(d, Symbol):
                    frame.symbols.setdefault(d, n)
                    frame.places.setdefault(d, "a match-cast")
                elif isinstance(d, Scalar):
                    frame.slots.setdefault(self.number(d), n)


def as_shape(node: MatchCast, vector: Value, frame: Frame) -> Shape:
    """A vector of sizes as a shape. With explicit shapes a number may be negative: a name is given to it, no tensor
    (rule M4.8)."""
    sizes = tuple(int(n) for n in decided_array(vector, "which sizes there are"))
    for i, n in enumerate(sizes):
        if n < 0 and not frame.explicit:
            raise Trap("shape", f"{show_head(node)}: size {i} is {n}", where=node.span, label="size.T1")
    return Shape(sizes)
