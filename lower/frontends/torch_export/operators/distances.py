"""Distances of rows (specs/lower.md, "torch.export").

PyTorch: torch.cdist, torch.nn.functional.pdist, and aten/src/ATen/native/Distance.cpp for when products of matrices are
taken.
"""

from __future__ import annotations

import numpy as np

from assay.lower.frontends.torch_export.node import AtenNode, AtenRule, aten_type
from assay.lower.frontends.torch_export.operators.reduction import norm
from assay.semantics.dtypes import INT64
from assay.semantics.graph import Expr
from assay.semantics.ops.common import broadcast_shapes
from assay.semantics.scalar import Dim

FEW = 25
"""So many rows at most have their differences taken, where the program leaves it to PyTorch."""
IF_MANY, ALWAYS, NEVER = range(3)
"""When distances for p = 2 come from products of matrices."""


def distance(node: AtenNode, x: Expr, p: float) -> Expr:
    """The p-norm of differences along the last axis; NaN where one is."""
    axes = (aten_type(x).ndim - 1,)
    if p != 0:
        return norm(node, x, p, axes, False)
    there = node.cast(node.call("not_equal", x, 0), aten_type(x).dtype)
    there = node.call("where", node.call("equal", x, x), there, x)
    return node.call("sum", there, axis=axes, keepdims=False)


def power_of(node: AtenNode) -> float:
    """The p of a norm, which is not negative."""
    p = float(node.number("p", 2.0))
    if not p >= 0:
        raise node.wrong(f"p is {p}; at least 0 is wanted")
    return p


def cdist(node: AtenNode) -> Expr:
    """The distance of each row of x1[..., P, M] from each of x2[..., R, M]."""
    a, b = node.tensor("x1"), node.tensor("x2")
    s, t = aten_type(a).shape, aten_type(b).shape
    if min(len(s), len(t)) < 2 or not aten_type(a).dtype.is_float:
        raise node.wrong(f"x1 is {a.type}, x2 is {b.type}; floats of two axes or more are wanted")
    p, mode = power_of(node), node.get("compute_mode", None) or IF_MANY
    batch = broadcast_shapes("cdist", [s[:-2], t[:-2]])
    if s[-1] == 0:
        return node.full((*batch, s[-2], t[-2]), 0, aten_type(a).dtype)
    many = not all(isinstance(d, int) and d <= FEW for d in (s[-2], t[-2]))
    if p == 2 and (mode == ALWAYS or mode == IF_MANY and many):
        return _by_products(node, a, b)
    a = node.shaped(a, *s[:-1], 1, s[-1])
    b = node.shaped(b, *t[:-2], 1, *t[-2:])
    return distance(node, node.call("subtract", a, b), p)


def _by_products(node: AtenNode, a: Expr, b: Expr) -> Expr:
    """sqrt(|a|^2 + |b|^2 - 2 a b), the square at least 0: what cancels is left open by its bound."""

    def squares(x: Expr, *shape: Dim) -> Expr:
        total = node.call("sum", node.call("multiply", x, x), axis=(aten_type(x).ndim - 1,), keepdims=False)
        return node.shaped(total, *shape)

    s, t = aten_type(a).shape, aten_type(b).shape
    turned = node.permuted(b, (*range(len(t) - 2), len(t) - 1, len(t) - 2))
    both = node.call("matmul", node.call("multiply", a, -2), turned)
    both = node.call("add", node.call("add", both, squares(a, *s[:-1], 1)), squares(b, *t[:-2], 1, t[-2]))
    return node.call("sqrt", node.call("maximum", both, 0))


def pdist(node: AtenNode) -> Expr:
    """The distances of each two rows: of the first from those below it, then of the second, and so on."""
    x = node.tensor()
    of, p = aten_type(x), power_of(node)
    if of.ndim != 2 or not of.dtype.is_float:
        raise node.wrong(f"self is {of}; a matrix of floats is wanted")
    rows, width = of.shape
    if not isinstance(rows, int):
        raise node.unsupported(f"{rows} rows, which have to be a number,")
    first, second = np.triu_indices(rows, 1)
    if width == 0:
        return node.full((len(first),), 0, of.dtype)
    a, b = (node.call("take", x, node.constant(v, INT64), axis=0) for v in (first, second))
    return distance(node, node.call("subtract", a, b), p)


TABLE: dict[str, AtenRule] = {
    "_cdist_forward": cdist,
    "_pdist_forward": pdist,
    "cdist": cdist,
    "pdist": pdist,
}
