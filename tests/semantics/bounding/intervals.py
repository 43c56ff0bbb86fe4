"""What the tests of intervals share: functions with the domains they are tried on, and points inside intervals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from assay.semantics.bounds import Bounded, contains, erf
from assay.semantics.dtypes import dtype

Array = np.ndarray[Any, Any]
F32 = np.float32
FLOATS = ("float16", "bfloat16", "float32", "float64")
INF, NAN = float("inf"), float("nan")

UNARY: dict[str, tuple[Callable[[Any], Any], tuple[float, float]]] = {
    "negative": (np.negative, (-9, 9)),
    "absolute": (np.absolute, (-9, 9)),
    "exp": (np.exp, (-7, 7)),
    "log": (np.log, (0.01, 90)),
    "sqrt": (np.sqrt, (0.01, 90)),
    "tanh": (np.tanh, (-4, 4)),
    "erf": (erf, (-3, 3)),
    "floor": (np.floor, (-9, 9)),
    "ceil": (np.ceil, (-9, 9)),
    "rint": (np.rint, (-9, 9)),
    "sign": (np.sign, (-9, 9)),
    "reciprocal": (np.reciprocal, (0.1, 9)),
    "square": (np.square, (-9, 9)),
    "sin": (np.sin, (-9, 9)),
    "cos": (np.cos, (-9, 9)),
    "tan": (np.tan, (-1.2, 1.2)),
    "asin": (np.arcsin, (-0.9, 0.9)),
    "acos": (np.arccos, (-0.9, 0.9)),
    "atan": (np.arctan, (-9, 9)),
    "sinh": (np.sinh, (-7, 7)),
    "cosh": (np.cosh, (-7, 7)),
    "asinh": (np.arcsinh, (-9, 9)),
    "acosh": (np.arccosh, (1.1, 90)),
    "atanh": (np.arctanh, (-0.9, 0.9)),
}
BINARY: dict[str, tuple[Callable[[Any, Any], Any], tuple[float, float], tuple[float, float]]] = {
    "add": (np.add, (-9, 9), (-9, 9)),
    "subtract": (np.subtract, (-9, 9), (-9, 9)),
    "multiply": (np.multiply, (-9, 9), (-9, 9)),
    "divide": (np.divide, (-9, 9), (0.1, 9)),
    "power": (np.power, (0.1, 5), (-3, 3)),
    "maximum": (np.maximum, (-2, 2), (-2, 2)),
    "minimum": (np.minimum, (-2, 2), (-2, 2)),
}


def around(rng: np.random.Generator, values: Array, relative: float) -> tuple[Bounded, list[Array]]:
    """Intervals about the elements of an array, and arrays of the same dtype inside: both ends and in between."""
    of = dtype(values.dtype)
    centre = values.astype(np.float64)
    radius = np.abs(centre) * relative * rng.uniform(0, 1, values.shape)
    radius[rng.uniform(size=values.shape) < 0.2] = 0
    x = Bounded(centre, radius, of)
    points = []
    for part in (-1.0, 1.0, *(rng.uniform(-1, 1, values.shape) for _ in range(3))):
        p = (centre + part * radius).astype(of.numpy)
        points.append(np.where(contains(x, p), p, values))
    return x, points


def random_tree(rng: np.random.Generator, terms: list[Any]) -> Any:
    """The sum in a random association, each step rounded in the terms' dtype."""
    while len(terms) > 1:
        i, j = sorted(rng.choice(len(terms), 2, replace=False))
        b, a = terms.pop(j), terms.pop(i)
        terms.append(a + b)
    return terms[0]


def orders(rng: np.random.Generator, terms: Array) -> list[Any]:
    """Sums of a vector: forwards, backwards, by magnitude, in a random tree, and with a wider accumulator."""
    of = terms.dtype.type
    runs = [terms, terms[::-1], terms[np.argsort(np.abs(terms.astype(np.float64)))]]
    out = []
    for run in runs:
        total = of(0)
        for t in run:
            total = of(total + t)
        out.append(total)
    out.append(random_tree(rng, list(terms)))
    out.append(of(terms.astype(np.float64).sum()))
    return out
