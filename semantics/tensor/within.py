"""What is known of integers inside a nest: which index is surely within its bounds (specs/semantics.md, "Blocks").

Only what is evident counts: loop variables with constant ends, or ends that are the very same expression, and sums,
quotients and remainders of them. What is not shown here is checked on the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from assay.semantics.integers.ranges import EVERYTHING, Interval, Range, closed, fits_dtype, reach
from assay.semantics.scalar import Apply, Cast, Const, Expr, Load, Number, Var, linear, may_trap, same, variables
from assay.semantics.tensor import Block, Buffer, For, IterVar, LetStmt, PrimFunc, program_order
from assay.semantics.walk import post_order


class Within:
    """The ranges of a function's variables. A variable that is bound twice has none."""

    def __init__(self, func: PrimFunc) -> None:
        self.inputs = set(func.inputs)
        self.intervals: dict[Var, Interval] = {}
        self.extents: dict[Var, Expr] = {}
        """Variables that start at 0, and the expression that they stay below."""
        self.seen = {v for b in func.params for d in b.shape for v in variables(d)} | set(func.scalars)
        self.again: set[Var] = set()
        """Variables that are bound twice: an expression of them may have two values."""
        for stmt in program_order(func.body):
            match stmt:
                case For():
                    self._bind(stmt.var, stmt.start, stmt.extent)
                case Block():
                    for i in stmt.iterators:
                        self._bind(i.var, i.start, i.extent)
                case LetStmt():
                    self._note(stmt.var, self.interval(stmt.value), None)

    def loop(self, var: Var, extent: Expr) -> None:
        """Another variable: it counts from 0 up to an extent."""
        self._bind(var, None, extent)

    def _bind(self, var: Var, start: Expr | None, extent: Expr) -> None:
        if start is not None and _is_zero(start):
            start = None
        low, size = (0, 0) if start is None else self.interval(start), self.interval(extent)
        inside = (low[0], low[1] + size[1] - 1) if low is not None and size is not None and size[1] > 0 else None
        self._note(var, inside, extent if start is None else None)

    def _note(self, var: Var, inside: Interval | None, extent: Expr | None) -> None:
        if var in self.seen:
            self.intervals.pop(var, None)
            self.extents.pop(var, None)
            self.again.add(var)
            return
        self.seen.add(var)
        if inside is not None and fits_dtype(inside, var.dtype):
            self.intervals[var] = inside
        if extent is not None and extent.dtype.max <= var.dtype.max:  # else the variable may wrap
            self.extents[var] = extent

    def interval(self, root: Expr) -> Interval | None:
        """Bounds of an integer expression in which nothing wraps; None where they are not evident."""
        known: dict[int, Interval | None] = {}
        for node in post_order(root):
            args = [a for c in node.children if (a := known[id(c)]) is not None]
            found = self._node(node, args) if len(args) == len(node.children) else EVERYTHING
            known[id(node)] = closed(found) if node.dtype.is_integer and fits_dtype(found, node.dtype) else None
        return known[id(root)]

    def _node(self, node: Expr, args: Sequence[Interval]) -> Range:
        match node:
            case Const() if node.dtype.is_integer:
                return int(node.value), int(node.value)
            case Var():
                return self.intervals.get(node, EVERYTHING)
            case Cast() if node.arg.dtype.is_integer:
                return args[0]
            case Apply():
                return reach(node.op, args)
            case _:
                return EVERYTHING

    def below(self, index: Expr, size: Number, facts: Iterable[Expr] = ()) -> bool:
        """Whether `index` is surely at least 0 and below `size`, where the conditions `facts` hold."""
        if isinstance(size, Expr) and isinstance(size, Const):
            size = int(size.value)
        inside = self.interval(index)
        if isinstance(index, Var) and index in self.extents and not isinstance(size, int):
            return isinstance(size, Expr) and same(self.extents[index], size) and self._is_fixed(size)
        if inside is None or inside[0] < 0 or not isinstance(size, int):
            return False
        return inside[1] < size or any(self._bounds(f, index, size) for f in facts)

    def _is_fixed(self, size: Expr) -> bool:
        """Whether an expression has one value wherever it stands."""
        return not any(isinstance(n, Load) or n in self.again for n in post_order(size))

    def _bounds(self, fact: Expr, index: Expr, size: int) -> bool:
        """Whether a comparison with a constant says that `index` is below `size`."""
        for part in post_order(fact, lambda n: n.children if isinstance(n, Apply) and n.op == "and" else ()):
            match part:
                case Apply(op="lt" | "le" as op, args=(a, Const() as limit)) if limit.dtype.is_integer:
                    last = int(limit.value) - (op == "lt")
                    left, right = linear(a), linear(index)
                    if left is None or right is None or self.interval(a) is None or left.terms != right.terms:
                        continue
                    if last + right.constant - left.constant < size:
                        return True
        return False

    def total(self, node: Expr) -> bool:
        """Whether this step itself, its operands given, surely has a value: it cannot trap."""
        match node:
            case Load():
                return node.buffer in self.inputs and self.inside(node.buffer, node.indices)
            case Apply():
                return not may_trap(node)
            case Cast():
                return not (node.arg.dtype.is_float and node.dtype.is_integer)
            case _:
                return True

    def inside(self, buffer: Buffer, indices: Sequence[Expr]) -> bool:
        """Whether an element surely is one of the buffer's."""
        return all(self.below(i, d) for i, d in zip(indices, buffer.shape, strict=True))

    def in_domain(self, i: IterVar, facts: Iterable[Expr]) -> bool:
        """Whether a block's iterator surely gets a value of its domain."""
        if i.start is None or _is_zero(i.start):
            return self.below(i.value, i.extent, facts)
        inside, low, size = self.interval(i.value), self.interval(i.start), self.interval(i.extent)
        return (
            inside is not None
            and low is not None
            and size is not None
            and low[1] <= inside[0]
            and inside[1] < low[0] + size[0]
        )


def _is_zero(expr: Expr) -> bool:
    return isinstance(expr, Const) and int(expr.value) == 0
