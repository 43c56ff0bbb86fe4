"""triangular_solve and cholesky of StableHLO (specs/lower.md, "StableHLO").

One row after another, as substitution by hand does it; an implementation may go another way, and the specification
leaves the accuracy to it.
"""

from __future__ import annotations

from assay.lower.frontends.stablehlo.node import HloNode, HloRule, tensor_of
from assay.lower.frontends.stablehlo.syntax import Dialect
from assay.semantics.dtypes import FLOAT32
from assay.semantics.graph import Expr

MOST_ROWS = 256
"""Rows of a matrix: each becomes operations of its own."""


def square(node: HloNode, a: Expr) -> int:
    """The rows of square matrices of floats."""
    of = tensor_of(a)
    if of.ndim < 2 or not of.dtype.is_float or not isinstance(of.shape[-1], int) or of.shape[-2] != of.shape[-1]:
        raise node.wrong(f"the operand is {of}; square matrices of floats are wanted")
    size = of.shape[-1]
    if size > MOST_ROWS:
        raise node.unsupported(f"matrices of {size} rows; {MOST_ROWS} are the most")
    return size


def swapped(node: HloNode, a: Expr) -> Expr:
    """Transposed matrices."""
    rank = tensor_of(a).ndim
    return node.call("permute_dims", a, axes=(*range(rank - 2), rank - 1, rank - 2))


def at(node: HloNode, a: Expr, row: int, column: int) -> Expr:
    """An element of each matrix, as a matrix of one."""
    return node.cut(node.cut(a, tensor_of(a).ndim - 2, row, row + 1), tensor_of(a).ndim - 1, column, column + 1)


def triangular_solve(node: HloNode) -> Expr:
    """x where op(a) x = b, or x op(a) = b: of `a` only the triangle is read."""
    node.operands(2)
    a, b = node.args
    of = tensor_of(b).dtype
    size = square(node, a)
    transpose = node.attr("transpose_a", "NO_TRANSPOSE")
    word = transpose.words[-1] if isinstance(transpose, Dialect) and transpose.words else str(transpose)
    lower, left = bool(node.attr("lower", False)), bool(node.attr("left_side", False))
    if of.bits < 32:  # the reference does every step in the dtype; this is no less accurate
        a, b = node.cast(a, FLOAT32), node.cast(b, FLOAT32)
    if word != "NO_TRANSPOSE":
        a, lower = swapped(node, a), not lower
    if not left:
        a, b, lower = swapped(node, a), swapped(node, b), not lower
    x = substituted(node, a, b, size, lower, bool(node.attr("unit_diagonal", False)))
    return node.cast(x if left else swapped(node, x), of)


def substituted(node: HloNode, a: Expr, b: Expr, size: int, lower: bool, unit: bool) -> Expr:
    """x where a x = b, row after row."""
    axis = tensor_of(b).ndim - 2
    rows: dict[int, Expr] = {}
    order = range(size) if lower else range(size - 1, -1, -1)
    for i in order:
        rest = node.cut(b, axis, i, i + 1)
        for j in rows:
            rest = node.call("subtract", rest, node.call("multiply", at(node, a, i, j), rows[j]))
        rows[i] = rest if unit else node.call("divide", rest, at(node, a, i, i))
    if not rows:
        return b
    return rows[0] if size == 1 else node.call("concat", *(rows[i] for i in range(size)), axis=axis)


def cholesky(node: HloNode) -> Expr:
    """The triangle whose product with its transpose is the operand, which is symmetric; zeros in the other triangle,
    where the specification leaves open what stands."""
    node.operands(1)
    (a,) = node.args
    size, rank = square(node, a), tensor_of(a).ndim
    lower = bool(node.attr("lower", False))
    if not lower:
        a = swapped(node, a)
    cells: dict[tuple[int, int], Expr] = {}
    zero = node.call("multiply", at(node, a, 0, 0), 0) if size else a
    for i in range(size):
        for j in range(i + 1):
            rest = at(node, a, i, j)
            for k in range(j):
                rest = node.call("subtract", rest, node.call("multiply", cells[i, k], cells[j, k]))
            cells[i, j] = node.call("sqrt", rest) if i == j else node.call("divide", rest, cells[j, j])
    if not size:
        return a
    zero = node.call("where", node.call("equal", zero, zero), zero, node.constant(0, tensor_of(a).dtype))
    rows = [node.call("concat", *(cells.get((i, j), zero) for j in range(size)), axis=rank - 1) for i in range(size)]
    out = node.call("concat", *rows, axis=rank - 2) if size > 1 else rows[0]
    return out if lower else swapped(node, out)


TABLE: dict[str, HloRule] = {"stablehlo.cholesky": cholesky, "stablehlo.triangular_solve": triangular_solve}
