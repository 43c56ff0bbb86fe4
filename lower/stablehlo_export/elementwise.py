"""Elementwise operators as StableHLO (specs/lower.md, "Export")."""

from __future__ import annotations

import math

from assay.lower.stablehlo_export.use import HloExportRule, HloUse
from assay.lower.stablehlo_export.writer import HloValue
from assay.semantics.dtypes import BOOL, dtype

PLAIN = {
    "abs": "abs", "acos": "chlo.acos", "acosh": "chlo.acosh", "add": "add", "asin": "chlo.asin", "asinh": "chlo.asinh",
    "atan": "chlo.atan", "atanh": "chlo.atanh", "bitwise_and": "and", "bitwise_not": "not", "bitwise_or": "or",
    "bitwise_xor": "xor", "ceil": "ceil", "cos": "cosine", "cosh": "chlo.cosh", "divide": "divide", "erf": "chlo.erf",
    "exp": "exponential", "floor": "floor", "fmod": "remainder", "left_shift": "shift_left", "log": "log",
    "logical_and": "and", "logical_not": "not", "logical_or": "or", "logical_xor": "xor", "maximum": "maximum",
    "minimum": "minimum", "multiply": "multiply", "negative": "negate", "power": "power",
    "round": "round_nearest_even", "sigmoid": "logistic", "sin": "sine", "sinh": "chlo.sinh", "sqrt": "sqrt",
    "subtract": "subtract", "tan": "chlo.tan", "tanh": "tanh", "truncate_divide": "divide",
}  # fmt: skip
"""Operators that are one operation. By 0, and for shifts by the width or more, where the operator traps or is open, an
integer operation of StableHLO gives anything."""

COMPARED = {
    "equal": "EQ", "not_equal": "NE", "less": "LT", "less_equal": "LE", "greater": "GT", "greater_equal": "GE",
}  # fmt: skip


def _itself(name: str) -> HloExportRule:
    return lambda use: use.each(name, *use.args)


def _relation(direction: str) -> HloExportRule:
    return lambda use: use.compared(direction, *use.args)


def absolute(use: HloUse) -> HloValue:
    """StableHLO has no magnitude of unsigned numbers: they are it."""
    return use.args[0] if use.dtype.kind == "uint" else use.op("abs", *use.args)


def right_shift(use: HloUse) -> HloValue:
    """The sign is repeated if there is one."""
    return use.each("shift_right_logical" if use.dtype.kind == "uint" else "shift_right_arithmetic", *use.args)


def floor_divide(use: HloUse) -> HloValue:
    """The quotient rounded to zero, less one where there is a rest and it has not the sign of the divisor."""
    a, b = use.args
    quotient = use.each("divide", a, b)
    if use.dtype.kind == "uint":
        return quotient
    rest, zero = use.each("remainder", a, b), use.filled(0, b)
    some = use.compared("NE", rest, use.filled(0, rest))
    apart = use.compared("NE", use.compared("LT", rest, use.filled(0, rest)), use.compared("LT", b, zero))
    lower = use.op("subtract", quotient, use.filled(1, quotient))
    return use.select(use.op("and", some, apart), lower, quotient)


def reciprocal(use: HloUse) -> HloValue:
    """1 / x."""
    (x,) = use.args
    return use.op("divide", use.filled(1, x), x)


def relu(use: HloUse) -> HloValue:
    """The larger of x and +0."""
    (x,) = use.args
    return x if x.dtype.kind == "uint" else use.op("maximum", x, use.filled(0, x))


def gelu(use: HloUse) -> HloValue:
    """x / 2 * (1 + erf(x / sqrt(2)))."""
    (x,) = use.args
    inner = use.op("chlo.erf", use.op("multiply", x, use.filled(math.sqrt(0.5), x)))
    return _half(use, x, inner)


def gelu_tanh(use: HloUse) -> HloValue:
    """x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))."""
    (x,) = use.args
    cube = use.op("multiply", use.op("multiply", x, x), x)
    inner = use.op("add", x, use.op("multiply", use.filled(0.044715, x), cube))
    return _half(use, x, use.op("tanh", use.op("multiply", use.filled(math.sqrt(2 / math.pi), x), inner)))


def _half(use: HloUse, x: HloValue, inner: HloValue) -> HloValue:
    half = use.op("multiply", use.filled(0.5, x), x)
    return use.op("multiply", half, use.op("add", use.filled(1, x), inner))


def leakyrelu(use: HloUse) -> HloValue:
    """x where it is at least 0, else a multiple of it; NaN stays."""
    (x,) = use.args
    scaled = use.op("multiply", use.filled(use.attrs["alpha"], x), x)
    return use.select(use.compared("GE", x, use.filled(0, x)), x, scaled)


def clip(use: HloUse) -> HloValue:
    """The lower bound first: where they are out of order, the upper one is the result. A bound that no element can
    cross, which an integer type need not have, is left out."""
    (x,) = use.args
    for name, operation in (("min", "maximum"), ("max", "minimum")):
        bound = use.attrs[name]
        of = use.dtype
        if bound is not None and (of.is_float or (bound > of.min if name == "min" else bound < of.max)):
            x = use.op(operation, x, use.filled(bound if of.is_float else int(bound), x))
    return x


def astype(use: HloUse) -> HloValue:
    """A conversion. A number that is not 0 is true, NaN too. Of a float that is out of range StableHLO gives anything,
    where the operator traps or is open."""
    (x,) = use.args
    to = dtype(use.attrs["dtype"])
    if to is BOOL and x.dtype is not BOOL:
        return use.compared("NE", x, use.filled(0, x))
    return use.cast(x, to)


def reinterpret(use: HloUse) -> HloValue:
    """The bits as another type."""
    (x,) = use.args
    to = dtype(use.attrs["dtype"])
    return x if x.dtype is to else use.op("bitcast_convert", x, of=to)


TABLE: dict[str, HloExportRule] = {
    **{name: _itself(operation) for name, operation in PLAIN.items()},
    **{name: _relation(direction) for name, direction in COMPARED.items()},
    "abs": absolute,
    "astype": astype,
    "clip": clip,
    "floor_divide": floor_divide,
    "nn.gelu": gelu,
    "nn.gelu_tanh": gelu_tanh,
    "nn.leakyrelu": leakyrelu,
    "nn.relu": relu,
    "reciprocal": reciprocal,
    "reinterpret": reinterpret,
    "right_shift": right_shift,
    "where": lambda use: use.select(*use.args),
}
