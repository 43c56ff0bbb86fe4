"""triangular_solve and cholesky of StableHLO (specs/lower.md, "StableHLO").

One row or column after another, as by hand, each on whole tensors: what is not concerned keeps its elements. An
implementation may go another way, and the specification leaves the accuracy to it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.lower.frontends.stablehlo.node import HloNode, HloRule, tensor_of
from assay.lower.frontends.stablehlo.syntax import Dialect
from assay.semantics.dtypes import BOOL, FLOAT32
from assay.semantics.graph import Expr

MOST_ROWS = 256
"""Rows or columns of a matrix: each becomes operations of its own."""


def mask(node: HloNode, rows: Any, columns: Any) -> Expr:
    """Where both hold: of each row, and of each column."""
    return node.constant(np.logical_and(rows, columns), BOOL)


def stood(size: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """The numbers of rows, one below the other."""
    return np.arange(size).reshape(size, 1)


def column(node: HloNode, a: Expr, index: int) -> Expr:
    """A column of each matrix."""
    return node.cut(a, tensor_of(a).ndim - 1, index, index + 1)


def row(node: HloNode, a: Expr, index: int) -> Expr:
    """A row of each matrix."""
    return node.cut(a, tensor_of(a).ndim - 2, index, index + 1)


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


def at(node: HloNode, a: Expr, place: int) -> Expr:
    """An element of the diagonal of each matrix, as a matrix of one."""
    return node.cut(node.cut(a, tensor_of(a).ndim - 2, place, place + 1), tensor_of(a).ndim - 1, place, place + 1)


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
    rows = stood(size)
    for i in range(size) if lower else range(size - 1, -1, -1):
        if not unit:
            done = node.call("divide", row(node, b, i), at(node, a, i))
            b = node.call("where", mask(node, rows == i, True), done, b)
        behind = mask(node, rows > i if lower else rows < i, True)
        less = node.call("subtract", b, node.call("multiply", column(node, a, i), row(node, b, i)))
        b = node.call("where", behind, less, b)
    return b


def cholesky(node: HloNode) -> Expr:
    """The triangle whose product with its transpose is the operand, which is symmetric; zeros in the other triangle,
    where the specification leaves open what stands."""
    node.operands(1)
    (a,) = node.args
    size, lower = square(node, a), bool(node.attr("lower", False))
    rows = stood(size)
    made = factored(node, a if lower else swapped(node, a), size)
    made = node.call("where", mask(node, rows >= rows.T, True), made, node.constant(0, tensor_of(a).dtype))
    return made if lower else swapped(node, made)


def factored(node: HloNode, a: Expr, size: int) -> Expr:
    """Matrices with their factor in the lower triangle; in the upper one stands what did."""
    rows = stood(size)
    for k in range(size):
        root = node.call("sqrt", at(node, a, k))
        below = node.call("divide", column(node, a, k), root)
        a = node.call("where", mask(node, rows > k, rows.T == k), below, a)
        a = node.call("where", mask(node, rows == k, rows.T == k), root, a)
        across = node.call("multiply", column(node, a, k), swapped(node, column(node, a, k)))
        rest = node.call("subtract", a, across)
        a = node.call("where", mask(node, rows >= rows.T, rows.T > k), rest, a)
    return a


TABLE: dict[str, HloRule] = {"stablehlo.cholesky": cholesky, "stablehlo.triangular_solve": triangular_solve}
