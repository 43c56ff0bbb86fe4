"""Rules for trigonometric and hyperbolic functions (specs/semantics.md, "Numbers").

Where a function is defined it is monotone, or changes by no more than its operand does; at the end of its domain the
corners are NaN, and the interval says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from assay.semantics.bounding.core import Array, Bounded, Floats, implements
from assay.semantics.bounding.model import U64, elementary
from assay.semantics.bounding.rounding import not_below, rounding_bound


def _spread(f: Callable[[Any], Any], x: Bounded, value: Array) -> Any:
    """How far a monotone function gets from its value in the middle; NaN where it is not defined everywhere, and inf
    for what may be anything, NaN too."""
    if x.is_exact:
        return 0.0
    off = np.max([np.abs(f(e) - value) for e in x.interval()], axis=0)
    off = np.where(x.radius == 0, 0.0, off * (1 + 8 * U64) + 4 * U64 * np.abs(value))
    return np.where(np.isinf(x.radius), np.inf, off)


def _ends(f: Callable[[Any], Any], x: Bounded) -> list[Floats]:
    return [f(e) for e in x.interval()]


WITHIN_ONE = frozenset({np.arcsin, np.arccos, np.arctanh})
"""Functions that are defined between -1 and 1 alone."""


def _monotone(name: str, f: Callable[[Any], Any]) -> Callable[[Bounded], Bounded]:
    def corners(x: Bounded) -> list[Floats]:
        ends = _ends(f, x)
        if f not in WITHIN_ONE:
            return ends
        low, high = x.interval()
        return [*ends, f(np.clip(0.0, low, high))]  # between two ends at which it is not defined it may be

    def rule(x: Bounded) -> Bounded:
        value = f(x.value)
        relative = elementary(name, x.of)
        return rounding_bound(x.of, value, _spread(f, x, value), (x,), lambda: corners(x), relative=relative)

    return rule


for _name, _f in (
    ("sinh", np.sinh), ("asinh", np.arcsinh), ("acosh", np.arccosh), ("atanh", np.arctanh),
    ("asin", np.arcsin), ("acos", np.arccos), ("atan", np.arctan),
):  # fmt: skip
    implements(_f)(_monotone(_name, _f))


@implements(np.cosh)
def cosh(x: Bounded) -> Bounded:
    """Even, and least at 0. It is convex: an end is further from the middle's value than what is between the ends."""
    value = np.cosh(x.value)

    def corners() -> list[Floats]:
        return [*_ends(np.cosh, x), np.cosh(np.clip(0.0, *x.interval()))]

    spread = _spread(np.cosh, x, value)
    return not_below(rounding_bound(x.of, value, spread, (x,), corners, relative=elementary("cosh", x.of)), 1.0)


def _wave(name: str, f: Callable[[Any], Any]) -> Callable[[Bounded], Bounded]:
    """The result moves by no more than the operand, and by 2 at most. Of an infinity it is NaN: of what
    may be anything, anything comes."""

    def rule(x: Bounded) -> Bounded:
        value = f(x.value)
        spread = 0.0 if x.is_exact else np.where(np.isinf(x.radius), np.inf, np.minimum(x.radius, 2.0))
        return rounding_bound(x.of, value, spread, (x,), lambda: [value], relative=elementary(name, x.of))

    return rule


implements(np.sin)(_wave("sin", np.sin))
implements(np.cos)(_wave("cos", np.cos))


@implements(np.tan)
def tan(x: Bounded) -> Bounded:
    """Monotone between two poles; an interval that may hold a pole says nothing."""
    value = np.tan(x.value)
    if x.is_exact:
        return rounding_bound(x.of, value, 0.0, (x,), lambda: [value], relative=elementary("tan", x.of))
    low, high = x.interval()
    branch = [np.floor(e / math.pi + 0.5) for e in (low, high)]
    loose = (x.radius > 0) & ((branch[0] != branch[1]) | (np.abs(x.value) > 2.0**40))
    operand = Bounded(x.value, np.where(loose, np.inf, x.radius), x.of)
    spread = np.where(loose, np.inf, _spread(np.tan, x, value))
    return rounding_bound(
        x.of, value, spread, (operand,), lambda: [np.tan(low), np.tan(high)], relative=elementary("tan", x.of)
    )
