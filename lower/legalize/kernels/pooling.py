"""Kernels of pooling (specs/lower.md, "Kernels").

The padding is written out: -inf for a maximum, which it never is, and 0 for an average, whose divisor says what counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from math import prod
from operator import mul

from assay.lower.legalize.kernels.common import (
    Kernel,
    accumulated,
    divided,
    kernel,
    padded,
    strided,
    window_extent,
)
from assay.semantics.operator import Attrs
from assay.semantics.scalar import Const, Dim, Expr, apply, cast, const, neutral, provably_equal, simplify
from assay.semantics.tensor import Buffer, Stmt, loops, seq


@dataclass(frozen=True)
class _Axis:
    """Windows along one spatial axis."""

    size: Dim
    count: Dim
    window: int
    stride: int
    dilation: int
    before: int
    after: int
    ceil: bool

    @property
    def extent(self) -> Dim:
        """Elements of the padded axis, as far as windows reach; ceil_mode may go beyond the explicit padding. Where
        sizes are symbolic, as far as they may reach."""
        if isinstance(self.size, int) and isinstance(self.count, int):
            return max(self.before + self.size, self._reach(self.count))
        return simplify(self.size + (self.before + self._most_after()))

    def _reach(self, count: int) -> int:
        return window_extent(count, self.stride, self.window, self.dilation)

    def _most_after(self) -> int:
        """How far beyond the tensor the last window may end. With ceil_mode it starts before the padding after it, and
        within a stride of where a whole one would fit."""
        span = (self.window - 1) * self.dilation + 1
        return min(span - 1, self.after + self.stride - 1) if self.ceil else self.after

    def may_pass(self, include_padding: bool) -> bool:
        """Whether, at some size, a window takes positions behind those that count."""
        return self._most_after() > (self.after if include_padding else 0)

    def passes(self, include_padding: bool) -> bool:
        """Whether a window does; whether it may, where sizes are symbolic."""
        if isinstance(self.size, int) and isinstance(self.count, int):
            return self._reach(self.count) - self.before > self.size + (self.after if include_padding else 0)
        return self.may_pass(include_padding)

    def counted(self, i: Expr, include_padding: bool, cut: bool) -> Expr | int:
        """How many positions of window i count: those in the tensor, or in the explicit padding too. `cut`: the last
        may take others behind them."""
        low, high = (-self.before, self.size + self.after) if include_padding else (0, self.size)
        first, end = (
            _ceil_divide(simplify(edge + self.before) - i * self.stride, self.dilation) for edge in (low, high)
        )
        here: Expr | int = apply("min", end, self.window) if cut else self.window
        if low > -self.before:
            here = here - apply("max", first, 0)
        return here


def _ceil_divide(a: Expr, by: int) -> Expr:
    return a if by == 1 else (a + (by - 1)) // by


def _axes(attrs: Attrs, x: Buffer, out: Buffer) -> list[_Axis]:
    rank = len(x.shape) - 2
    columns = (
        x.shape[2:],
        out.shape[2:],
        attrs["pool_size"],
        attrs["strides"],
        attrs["dilation"],
        attrs["padding"][:rank],
        attrs["padding"][rank:],
        [attrs["ceil_mode"]] * rank,
    )
    return [_Axis(*row) for row in zip(*columns, strict=True)]


def _pool(
    x: Buffer,
    out: Buffer,
    axes: list[_Axis],
    op: str,
    start: Const,
    finish: Callable[[Expr, tuple[Expr, ...]], Expr] | None,
) -> Stmt:
    plane = [a.count for a in axes]
    strides, dilation = [a.stride for a in axes], [a.dilation for a in axes]

    def pool(source: Buffer) -> Stmt:
        def one_plane(n: Expr, c: Expr) -> Stmt:
            def read(i: tuple[Expr, ...], k: tuple[Expr, ...]) -> Expr:
                return source[(n, c, *strided(i, strides, k, dilation))]

            window = [a.window for a in axes]
            return seq(*accumulated(out, lambda *i: (n, c, *i), plane, op, start, window, read, finish))

        return loops("n c", x.shape[:2], one_plane, "parallel")

    extents = tuple(a.extent for a in axes)
    if all(provably_equal(a.size, e) for a, e in zip(axes, extents, strict=True)):
        return pool(x)
    return padded(x, (0, 0, *(a.before for a in axes)), (*x.shape[:2], *extents), start, pool)


def _max_pool(name: str, attrs: Attrs, x: Buffer, out: Buffer) -> Stmt:
    return _pool(x, out, _axes(attrs, x, out), "max", neutral("max", x.dtype), None)


def _avg_pool(name: str, attrs: Attrs, x: Buffer, out: Buffer) -> Stmt:
    axes = _axes(attrs, x, out)
    include_padding: bool = attrs["count_include_pad"]
    # A product of counts may be too large for the dtype. They are divided by one after another then, whatever the size
    # is: the order of divisions may not hang on whether it is a number.
    large = prod(a.window for a in axes) > out.dtype.max

    def average(total: Expr, i: tuple[Expr, ...]) -> Expr:
        counts = []
        for axis, at in zip(axes, i, strict=True):
            cut = axis.may_pass(include_padding) if large else axis.passes(include_padding)
            counts.append(axis.counted(at, include_padding, cut))
        fixed = prod(c for c in counts if isinstance(c, int))
        varying = [c for c in counts if isinstance(c, Expr)]
        if not varying:
            return divided(total, fixed)
        if large:
            return reduce(lambda t, c: t / cast(c, out.dtype), varying, divided(total, fixed))
        return total / cast(reduce(mul, varying, const(fixed)), out.dtype)

    return _pool(x, out, axes, "add", const(0, x.dtype), average)


TABLE: dict[str, Kernel] = {
    **{f"nn.max_pool{d}d": kernel("x", _max_pool) for d in (1, 2, 3)},
    **{f"nn.avg_pool{d}d": kernel("x", _avg_pool) for d in (1, 2, 3)},
}
