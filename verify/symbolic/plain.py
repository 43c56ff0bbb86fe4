"""Goals that the extents of loops show by themselves, without z3 (specs/verify.md, "Proofs for all sizes").

Who only wants to know whether all goals hold, and keeps no texts, need not ask z3 that a loop's variable lies between 0
and its extent, nor that iterations which store at their own number store to elements of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from assay.semantics.integers.ranges import EVERYTHING, Range, dtype_range, fits_dtype, reach, union
from assay.semantics.scalar import Apply, Cast, Choice, Const, Expr, Var, operation
from assay.semantics.scalar.arithmetic import OPERATIONS
from assay.semantics.tensor import Buffer
from assay.semantics.walk import post_order
from assay.verify.symbolic.events import AccessEvent, EventScope, Loop, scope_chain

Pair = tuple[AccessEvent, AccessEvent]


def loop_ranges(frame: EventScope | None) -> dict[Var, Range]:
    """Where the variables of the loops around lie, as far as their extents are numbers."""
    found: dict[Var, Range] = {}
    for scope in scope_chain(frame):
        if isinstance(scope, Loop) and scope.stmt.start is None:
            extent = scope.stmt.extent
            last = int(extent.value) - 1 if isinstance(extent, Const) else None
            found[scope.var] = (0, last)
    return found


class PlainRanges:
    """Where expressions lie, and whether no step of them leaves its dtype; variables lie in `known`."""

    def __init__(self, known: dict[Var, Range]) -> None:
        self.known = known
        self.found: dict[int, tuple[Expr, Range, bool]] = {}

    def of(self, expr: Expr) -> Range:
        """Where a whole number lies, wrapping or not."""
        return self._node(expr)[1]

    def stays(self, nodes: Iterable[Expr]) -> bool:
        """Whether these steps do not leave their dtypes."""
        return all(self._node(n)[2] for n in nodes)

    def _node(self, expr: Expr) -> tuple[Expr, Range, bool]:
        for node in post_order(expr, lambda n: () if id(n) in self.found else n.children):
            if id(node) not in self.found:
                self.found[id(node)] = node, *self._one(node)
        return self.found[id(expr)]

    def _one(self, node: Expr) -> tuple[Range, bool]:
        if not node.dtype.is_integer:
            return EVERYTHING, True
        every = dtype_range(node.dtype)
        match node:
            case Const():
                return (int(node.value), int(node.value)), True
            case Var() if node in self.known and fits_dtype(self.known[node], node.dtype):
                return self.known[node], True
            case Choice():
                return union(self.of(node.then), self.of(node.otherwise)), True
            case Cast() if node.arg.dtype.is_integer and fits_dtype(self.of(node.arg), node.dtype):
                return self.of(node.arg), True
            case Apply() if node.op in OPERATIONS and not operation(node.op).fails:
                args = [self.of(a) if a.dtype.is_integer else (0, 1) for a in node.args]
                there = reach(node.op, args)
                return (there, True) if fits_dtype(there, node.dtype) else (every, False)
        return every, isinstance(node, Var)


def plainly_within(access: AccessEvent, root: Buffer) -> bool:
    """Whether an access lies in its buffer, by the extents of the loops around."""
    if access.buffer is not root or not all(isinstance(d, int) for d in root.shape):
        return False
    ranges = PlainRanges(loop_ranges(access.site.frame))
    for index, size in zip(access.indices, root.shape, strict=True):
        low, high = ranges.of(index)
        if low is None or high is None or low < 0 or high >= size:
            return False
    return True


def plainly_apart(loop: Loop, root: Buffer, pairs: Sequence[Pair]) -> bool:
    """Whether iterations of a loop touch elements of their own: of each two accesses some index is, in both, its
    variable."""

    def own(access: AccessEvent) -> set[int]:
        if access.buffer is not root:
            return set()
        return {k for k, i in enumerate(access.indices) if i is loop.var}

    return all(own(a) & own(b) for a, b in pairs)
