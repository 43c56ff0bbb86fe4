"""erfc and erf_inv, in float64 (specs/lower.md, "StableHLO")."""

from __future__ import annotations

import math

from assay.lower.frontends.composing import Composer
from assay.lower.frontends.stablehlo.node import tensor_of
from assay.lower.frontends.stablehlo.operators.functions import free, polynomial, wide
from assay.semantics.graph import Expr

LEAST = 0.46875
"""From here on erfc is e^(-x^2) times a ratio of polynomials; below it is 1 - erf, where both are of one size."""

MIDDLE = (
    [2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594, 6.61191906371416295e1,
     2.98635138197400131e2, 8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3,
     1.23033935479799725e3],
    [1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3,
     3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3],
)  # fmt: skip
OUTER = (
    [1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1, 1.25781726111229246e-1,
     1.60837851487422766e-2, 6.58749161529837803e-4],
    [1.0, 2.56852019228982242, 1.87295284992346725, 5.27905102951428412e-1, 6.05183413124413191e-2,
     2.33520497626869185e-3],
)  # fmt: skip
"""W. J. Cody, Rational Chebyshev approximations for the error function (1969): right to 18 digits."""

NEAR = [2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
        -0.00417768164, 0.246640727, 1.50140941]  # fmt: skip
FAR = [-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
       1.00167406, 2.83297682]  # fmt: skip
"""M. Giles, Approximating the erfinv function (2010): polynomials that are right to about seven digits."""


def ratio(node: Composer, x: Expr, of: tuple[list[float], list[float]]) -> Expr:
    """One polynomial by another."""
    return node.call("divide", polynomial(node, x, of[0]), polynomial(node, x, of[1]))


def scaled(node: Composer, y: Expr) -> Expr:
    """e^(y^2) erfc(y) for y of at least `LEAST`."""
    near, far = node.call("minimum", y, 4), node.call("maximum", y, 4)
    inverse = node.call("reciprocal", node.call("multiply", far, far))
    less = node.call("multiply", inverse, ratio(node, inverse, OUTER))
    above = node.call("subtract", node.constant(1 / math.sqrt(math.pi), tensor_of(y).dtype), less)
    above = node.call("divide", above, far)
    return node.call("where", node.call("greater", y, 4), above, ratio(node, near, MIDDLE))


def bell(node: Composer, y: Expr) -> Expr:
    """e^(-y^2). The square of y rounded to a sixteenth is exact; what is left of it is small."""
    coarse = node.call("divide", node.call("floor", node.call("multiply", y, 16)), 16)
    rest = node.call("multiply", node.call("subtract", y, coarse), node.call("add", y, coarse))
    large = node.call("exp", node.call("negative", node.call("multiply", coarse, coarse)))
    return node.call("multiply", large, node.call("exp", node.call("negative", rest)))


def erfc(node: Composer, x: Expr) -> Expr:
    """1 - erf(x), without that difference where it would lose digits."""
    w = wide(node, x)
    of = tensor_of(w).dtype
    below = node.call("subtract", node.constant(1, of), node.call("erf", w))
    y = node.call("minimum", node.call("maximum", w, LEAST), 30)  # erfc(30) is 0 in float64
    above = node.call("multiply", bell(node, y), scaled(node, y))
    return free(node, node.call("where", node.call("greater", w, LEAST), above, below), x)


def erf_inv(node: Composer, x: Expr) -> Expr:
    """The number whose error function is x: up to 1/2 by Newton's method on erf, above on the logarithm of erfc, of
    which 1 - |x| is exact."""
    w = wide(node, x)
    of = tensor_of(w).dtype
    size = node.call("minimum", node.call("abs", w), 1 - 2.0**-53)
    left = node.call("subtract", node.constant(1, of), size)
    y = guessed(node, size, left)
    inner, outer = y, node.call("maximum", y, LEAST)
    for _ in range(2):
        slope = node.call("multiply", bell(node, inner), 2 / math.sqrt(math.pi))
        off = node.call("divide", node.call("subtract", node.call("erf", inner), size), slope)
        inner = node.call("subtract", inner, off)
    wanted = node.call("log", left)
    for _ in range(4):
        found = scaled(node, outer)
        off = node.call("subtract", node.call("subtract", node.call("log", found), wanted),
                        node.call("multiply", outer, outer))  # fmt: skip
        step = node.call("multiply", node.call("multiply", off, found), math.sqrt(math.pi) / 2)
        outer = node.call("maximum", node.call("add", outer, step), LEAST)
    y = node.call("where", node.call("greater", size, 0.5), outer, inner)
    y = node.call("where", node.call("less", w, 0), node.call("negative", y), y)
    y = node.call("where", node.call("equal", w, 0), w, y)
    edge = node.call("equal", node.call("abs", w), 1)
    y = node.call("where", edge, node.call("multiply", w, float("inf")), y)
    outside = node.call("logical_or", node.call("greater", node.call("abs", w), 1), node.call("not_equal", w, w))
    return free(node, node.call("where", outside, node.constant(float("nan"), of), y), x)


def guessed(node: Composer, size: Expr, left: Expr) -> Expr:
    """Where Newton's method begins, from |x| and 1 - |x|: Giles' polynomials, and where float32 has no numbers the root
    of -log(1 - |x|)."""
    depth = node.call("negative", node.call("log", node.call("multiply", left, node.call("add", size, 1))))
    near = polynomial(node, node.call("subtract", node.call("minimum", depth, 5), 2.5), NEAR)
    root = node.call("sqrt", depth)
    far = polynomial(node, node.call("subtract", node.call("minimum", root, 4), 3), FAR)
    small = node.call("multiply", node.call("where", node.call("less", depth, 5), near, far), size)
    return node.call("where", node.call("greater", depth, 16), node.call("subtract", root, 0.2), small)
