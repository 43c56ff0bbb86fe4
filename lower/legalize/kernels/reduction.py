"""Kernels of reductions over whole axes (specs/lower.md, "Kernels").

The elements are taken in row-major order of the reduced axes, one after another, from the neutral element.
"""

from __future__ import annotations

from assay.lower.legalize.kernels.common import Kernel, accumulated, divided, kernel, nest
from assay.semantics.operator import Attrs
from assay.semantics.ops.sizes import product
from assay.semantics.scalar import Expr, const, neutral
from assay.semantics.tensor import Buffer, Stmt, seq


def _reduction(op: str, *, mean: bool = False) -> Kernel:
    def body(name: str, attrs: Attrs, x: Buffer, out: Buffer) -> Stmt:
        rank = len(x.shape)
        axes = range(rank) if attrs["axis"] is None else sorted(a % rank for a in attrs["axis"])
        first = min(axes, default=rank)
        # Loops over the kept axes before the first reduced one stand outside, those over the others inside.
        inner = [a for a in range(first, rank) if a not in axes]
        inner_shape, reduced_shape = [x.shape[a] for a in inner], [x.shape[a] for a in axes]

        def one(*outer: Expr) -> Stmt:
            def at(*i: Expr) -> tuple[Expr, ...]:
                kept = dict(zip([*range(first), *inner], (*outer, *i), strict=True))
                there = [kept.get(a, const(0)) for a in range(rank)]
                return tuple(there if attrs["keepdims"] else (there[a] for a in kept))

            def read(i: tuple[Expr, ...], k: tuple[Expr, ...]) -> Expr:
                whole = dict(zip([*range(first), *inner, *axes], (*outer, *i, *k), strict=True))
                return x[tuple(whole[a] for a in range(rank))]

            count = product(reduced_shape) if mean else 0
            finish = (lambda total, i: divided(total, count)) if mean else None
            return seq(*accumulated(out, at, inner_shape, op, neutral(op, out.dtype), reduced_shape, read, finish))

        return nest("o", x.shape[:first], one)

    return kernel("x", body)


TABLE: dict[str, Kernel] = {
    "sum": _reduction("add"),
    "mean": _reduction("add", mean=True),
    "prod": _reduction("mul"),
    "max": _reduction("max"),
    "min": _reduction("min"),
}
