"""How the programs of transcendental functions are written (rule M10; specs/semantics.md, "Transcendental
functions")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.semantics.dtypes import FLOAT64
from assay.semantics.scalar.evaluation import evaluate
from assay.semantics.scalar.expression import Expr, Var, apply, const, select

MANTISSA = 2**52 - 1
HALF_WIDTH = -(2**27)  # a mask that leaves 26 of the 53 bits: products of two such numbers are exact
INFINITY, NAN = float("inf"), float("nan")


@dataclass(frozen=True)
class Routine:
    """A function of float64: bind `lets` one after another, then `result` is its value.

    `ulps` bounds the error of the float64 result in units in the last place, subnormal results included.
    """

    name: str
    params: tuple[Var, ...]
    lets: tuple[tuple[Var, Expr], ...]
    result: Expr
    ulps: float
    doc: str

    def __call__(self, *args: Any) -> Any:
        """The value at float64 operands: NumPy scalars, or lanes of one shape."""
        env: dict[Var, Any] = dict(zip(self.params, args, strict=True))
        for var, value in self.lets:
            env[var] = evaluate(value, env)
        return evaluate(self.result, env)


class RoutineBuilder:
    """A routine under construction."""

    def __init__(self, *params: str) -> None:
        self.params = tuple(Var(p, FLOAT64) for p in params)
        self.lets: list[tuple[Var, Expr]] = []

    def let(self, name: str, value: Expr) -> Var:
        """Binds `name` to `value` and returns the variable."""
        var = Var(name, value.dtype)
        self.lets.append((var, value))
        return var

    def returns(self, name: str, result: Expr, ulps: float, doc: str) -> Routine:
        """The finished routine; `ulps` bounds the error of `result` in units in the last place."""
        return Routine(name, self.params, tuple(self.lets), result, ulps, doc)


def hexadecimal(text: str) -> tuple[float, ...]:
    """The float64 numbers of a text: hexadecimal words with spaces between them."""
    return tuple(float.fromhex(word) for word in text.split())


def pattern(x: float) -> int:
    """The 64 bits of a float64 as a signed integer."""
    return int(np.float64(x).view(np.int64))


def polynomial(coefficients: tuple[float, ...], x: Expr) -> Expr:
    """Horner's rule, lowest coefficient first."""
    result: Expr = const(coefficients[-1], FLOAT64)
    for c in reversed(coefficients[:-1]):
        result = result * x + c
    return result


def bits_of(x: Expr) -> Expr:
    """The bits of a float as an integer of its width."""
    return apply("bits_of", x)


def high_part(x: Expr) -> Expr:
    """The leading 26 bits of x."""
    return apply("float_of", apply("bitand", bits_of(x), HALF_WIDTH))


def is_nan(x: Expr) -> Expr:
    """Whether `x` is NaN: it differs from itself."""
    return apply("ne", x, x)


def is_negative(x: Expr) -> Expr:
    """Whether the sign bit of x is set."""
    return bits_of(x) < 0


def clamp(x: Expr, low: float, high: float) -> Expr:
    """x between low and high; NaN becomes low."""
    return select(x >= low, select(x <= high, x, high), low)
