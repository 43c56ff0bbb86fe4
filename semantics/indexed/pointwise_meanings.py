"""Elementwise operators in index notation (specs/semantics.md, "Index notation")."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from assay.semantics.dtypes import FLOAT32, dtype
from assay.semantics.indexed.meaning import ElementRule, Meaning, Use, stretched
from assay.semantics.operator import Attrs
from assay.semantics.ops import OPERATORS
from assay.semantics.ops.functions import TRIGONOMETRY
from assay.semantics.scalar import Expr, apply, cast, const, reinterpret, select
from assay.semantics.scalar.intrinsics import INTRINSICS

NumberRule: TypeAlias = Callable[..., Expr]
"""rule(attributes, a number of each operand): the number of the result."""


def _element(rule: NumberRule) -> ElementRule:
    def element(use: Use, *i: Expr) -> Expr:
        return rule(use.attrs, *(stretched(b, i, use.out.shape) for b in use.operands))

    return element


def _named(op: str) -> NumberRule:
    return lambda attrs, *args: apply(op, *args)


def _sigmoid(attrs: Attrs, x: Expr) -> Expr:
    small = apply("exp", apply("neg", apply("abs", x)))
    return select(x >= 0, const(1, x.dtype), small) / (1 + small)


def _gelu_tanh(attrs: Attrs, x: Expr) -> Expr:
    return 0.5 * x * (1 + apply("tanh", math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))))


def _clip(attrs: Attrs, x: Expr) -> Expr:
    low, high = attrs["min"], attrs["max"]
    if low is not None and (x.dtype.is_float or low > x.dtype.min):
        x = apply("max", x, const(low, x.dtype))
    if high is not None and (x.dtype.is_float or high < x.dtype.max):
        x = apply("min", x, const(high, x.dtype))
    return x


def _astype(attrs: Attrs, x: Expr) -> Expr:
    to = dtype(attrs["dtype"])
    if not attrs.get("open") or not x.dtype.is_float or not to.is_integer:
        return cast(x, to)
    wide = cast(x, FLOAT32) if x.dtype.bits < 32 else x
    whole = apply("trunc", wide)
    low, high = const(float(to.min), wide.dtype), const(float(int(to.max) + 1), wide.dtype)
    return cast(select(apply("and", whole >= low, whole < high), wide, const(0.0, wide.dtype)), to)


def _quotient(op: str) -> NumberRule:
    def rule(attrs: Attrs, a: Expr, b: Expr) -> Expr:
        if not attrs.get("open"):
            return apply(op, a, b)
        none = apply("eq", b, const(0, b.dtype))
        return select(none, const(0, a.dtype), apply(op, a, select(none, const(1, b.dtype), b)))

    return rule


def _flipped(attrs: Attrs, x: Expr) -> Expr:
    return const(x.dtype.max if x.dtype.kind == "uint" else -1, x.dtype) - x


def _intrinsic(name: str) -> NumberRule:
    return lambda attrs, x: INTRINSICS[name]([x])


NUMBERS: dict[str, NumberRule] = {
    **{op.name: _named(op.scalar) for op in OPERATORS.values() if op.scalar},
    **{name: _intrinsic(name) for name in TRIGONOMETRY},
    "sigmoid": _sigmoid,
    "reciprocal": lambda attrs, x: 1 / x,
    "nn.relu": lambda attrs, x: apply("max", x, const(0, x.dtype)),
    "nn.leakyrelu": lambda attrs, x: select(x >= 0, x, x * attrs["alpha"]),
    "nn.gelu": lambda attrs, x: 0.5 * x * (1 + apply("erf", x * math.sqrt(0.5))),
    "nn.gelu_tanh": _gelu_tanh,
    "clip": _clip,
    "astype": _astype,
    "truncate_divide": _quotient("truncdiv"),
    "floor_divide": _quotient("floordiv"),
    "where": lambda attrs, condition, a, b: select(condition, a, b),
    "bitwise_not": _flipped,
    "reinterpret": lambda attrs, x: reinterpret(x, attrs["dtype"]),
}
"""A number of the result from one of each operand."""

TABLE: dict[str, Meaning] = {name: Meaning(_element(rule)) for name, rule in NUMBERS.items()}
