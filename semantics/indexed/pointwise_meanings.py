"""Elementwise operators in index notation (specs/semantics.md, "Index notation")."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from assay.semantics.dtypes import FLOAT32, dtype
from assay.semantics.indexed.element import element_value
from assay.semantics.indexed.meaning import ElementRule, Meaning, Use, stretched
from assay.semantics.operator import Attrs, Operator
from assay.semantics.ops import OPERATORS
from assay.semantics.scalar import Expr, apply, cast, const, select

NumberRule: TypeAlias = Callable[..., Expr]
"""rule(attributes, a number of each operand): the number of the result."""


def _element(rule: NumberRule) -> ElementRule:
    def element(use: Use, *i: Expr) -> Expr:
        return rule(use.attrs, *(stretched(b, i, use.out.shape) for b in use.operands))

    return element


def _astype(attrs: Attrs, x: Expr) -> Expr:
    to = dtype(attrs["dtype"])
    if not attrs.get("open") or not x.dtype.is_float or not to.is_integer:
        return cast(x, to)
    wide = cast(x, FLOAT32) if x.dtype.bits < 32 else x
    whole = apply("trunc", wide)
    low, high = const(float(to.min), wide.dtype), const(float(int(to.max) + 1), wide.dtype)
    return cast(select(apply("and", whole >= low, whole < high), wide, const(0.0, wide.dtype)), to)


def _derived(op: Operator) -> NumberRule:
    """What its own value gives of one element that is not known. 4-bit integers NumPy computes as int8, and cuts off:
    of them the operation that the record names."""

    def rule(attrs: Attrs, *terms: Expr) -> Expr:
        narrow = terms[-1].dtype.is_integer and terms[-1].dtype.bits < 8
        return apply(op.scalar, *terms) if narrow and op.scalar else element_value(op, attrs, *terms)

    return rule


SAID: dict[str, NumberRule] = {
    "nn.relu": lambda attrs, x: apply("max", x, const(0, x.dtype)),
    "astype": _astype,
}
"""Those that are said otherwise than their values: NumPy's maximum has a +0 added and its whole numbers are found in
float64."""

NUMBERS: dict[str, NumberRule] = {
    name: SAID.get(name) or _derived(op) for name, op in OPERATORS.items() if op.family == "elementwise" and not op.view
}
"""A number of the result from one of each operand."""

TABLE: dict[str, Meaning] = {name: Meaning(_element(rule)) for name, rule in NUMBERS.items()}
