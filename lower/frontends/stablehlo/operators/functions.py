"""Elementary functions that are composed of ours (specs/lower.md, "StableHLO").

StableHLO leaves the accuracy of an elementary function to the implementation. A composition is computed in float64
where the dtype is narrower, so that what is subtracted loses nothing, and rounded once. `free` gives the result the
bound that our own elementary functions have.
"""

from __future__ import annotations

from assay.lower.frontends.composing import Composer
from assay.lower.frontends.stablehlo.node import tensor_of
from assay.semantics.dtypes import FLOAT64
from assay.semantics.graph import Expr


def free(node: Composer, y: Expr, to: Expr) -> Expr:
    """`y` in the dtype of `to`, times e^0: the number itself, with the bound of an elementary function."""
    of = tensor_of(to).dtype
    return node.call("multiply", node.cast(y, of), node.call("exp", node.constant(0, of)))


def wide(node: Composer, x: Expr) -> Expr:
    """`x` in float64."""
    return node.cast(x, FLOAT64)


def polynomial(node: Composer, x: Expr, coefficients: list[float]) -> Expr:
    """A polynomial by Horner's rule; the highest power first."""
    total: Expr = node.constant(coefficients[0], tensor_of(x).dtype)
    for c in coefficients[1:]:
        total = node.call("add", node.call("multiply", total, x), c)
    return total


def expm1(node: Composer, x: Expr) -> Expr:
    """e^x - 1. With u = e^x rounded it is (u - 1) * x / log(u), where the error of u cancels (Kahan)."""
    w = wide(node, x)
    u = node.call("exp", w)
    less = node.call("subtract", u, 1)
    ratio = node.call("divide", node.call("multiply", less, w), node.call("log", u))
    near = node.call("equal", u, 1)
    far = node.call("logical_or", node.call("equal", less, -1), node.call("greater", node.call("abs", w), 36))
    y = node.call("where", near, w, node.call("where", far, less, ratio))
    return free(node, y, x)


def log1p(node: Composer, x: Expr) -> Expr:
    """log(1 + x). With u = 1 + x rounded it is log(u) * x / (u - 1), where the error of u cancels (Kahan)."""
    w = wide(node, x)
    u = node.call("add", w, 1)
    less = node.call("subtract", u, 1)
    ratio = node.call("divide", node.call("multiply", node.call("log", u), w), less)
    near = node.call("equal", u, 1)
    far = node.call("logical_or", node.call("greater", w, 1e16), node.call("less_equal", u, 0))
    y = node.call("where", near, w, node.call("where", far, node.call("log", u), ratio))
    return free(node, y, x)


def cbrt(node: Composer, x: Expr) -> Expr:
    """The cube root, with the sign of x: a power of 1/3, and one step of Newton's method."""
    w = wide(node, x)
    size = node.call("abs", w)
    y = node.call("power", size, 1 / 3)
    off = node.call("subtract", y, node.call("divide", size, node.call("multiply", y, y)))
    better = node.call("subtract", y, node.call("divide", off, 3))
    still = node.call("logical_or", node.call("equal", size, 0), node.call("equal", size, float("inf")))
    y = node.call("where", still, size, better)
    y = node.call("where", node.call("less", w, 0), node.call("negative", y), y)
    y = node.call("where", node.call("equal", w, 0), w, y)
    return free(node, y, x)
