"""Elementwise operations of StableHLO (specs/lower.md, "StableHLO").

Where StableHLO names one operation for numbers and bools, these are `or` and `and` for bools. What an elementary
function gives is implementation-defined there; here it is within the bound of ours.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from assay.lower.frontends.composing import Composer
from assay.lower.frontends.stablehlo.node import HloNode, HloRule, tensor_of
from assay.lower.frontends.stablehlo.operators.functions import cbrt, expm1, free, log1p, wide
from assay.lower.frontends.stablehlo.syntax import Dialect
from assay.semantics.dtypes import BOOL, DTYPES, FLOAT64
from assay.semantics.graph import Expr


def unary(op: str, *kinds: str) -> HloRule:
    """A rule of one operand for these kinds of dtypes, any if none is said."""

    def rule(node: HloNode) -> Expr:
        node.operands(1)
        (x,) = node.args
        require(node, x, *kinds)
        return node.call(op, x)

    return rule


def require(node: HloNode, x: Expr, *kinds: str) -> None:
    """Invalid unless an operand is of one of these kinds."""
    if kinds and tensor_of(x).dtype.kind not in kinds:
        raise node.wrong(f"an operand is {x.type}; {' or '.join(kinds)} is wanted")


def binary(op: str, logical: str = "", *kinds: str) -> HloRule:
    """A rule of two operands of one type; `logical` is what it is for bools."""

    def rule(node: HloNode) -> Expr:
        a, b = pair(node)
        if tensor_of(a).dtype is BOOL and logical:
            return node.call(logical, a, b)
        require(node, a, *(kinds or ("int", "uint", "float")))
        return node.call(op, a, b)

    return rule


def pair(node: HloNode) -> list[Expr]:
    """Two operands of one type."""
    node.operands(2)
    if tensor_of(node.args[0]).dtype is not tensor_of(node.args[1]).dtype:
        raise node.wrong(f"the operands are {node.args[0].type} and {node.args[1].type}; one type is wanted")
    return node.alike(*node.args)


def bits(logical: str, whole: str) -> HloRule:
    """A rule on bools or on the bits of whole numbers."""

    def rule(node: HloNode) -> Expr:
        a, b = pair(node)
        require(node, a, "bool", "int", "uint")
        return node.call(logical if tensor_of(a).dtype is BOOL else whole, a, b)

    return rule


def not_(node: HloNode) -> Expr:
    """The opposite of bools, the complement of whole numbers."""
    node.operands(1)
    (x,) = node.args
    require(node, x, "bool", "int", "uint")
    return node.call("logical_not" if tensor_of(x).dtype is BOOL else "bitwise_not", x)


def divide(node: HloNode) -> Expr:
    """Division by IEEE 754, or of whole numbers with the fraction discarded; by 0 StableHLO leaves it open."""
    a, b = pair(node)
    if tensor_of(a).dtype.is_float:
        return node.call("divide", a, b)
    require(node, a, "int", "uint")
    return node.call("truncate_divide", a, b, open=True)


def remainder(node: HloNode) -> Expr:
    """What is left of the quotient rounded towards 0; it has the sign of the dividend."""
    a, b = pair(node)
    if tensor_of(a).dtype.is_float:
        return node.call("fmod", a, b)
    require(node, a, "int", "uint")
    quotient = node.call("truncate_divide", a, b, open=True)
    return node.call("subtract", a, node.call("multiply", quotient, b))


def power(node: HloNode) -> Expr:
    """By IEEE 754 for floats; for whole numbers the product modulo 2^width. Of a negative exponent it is 0, but for the
    bases 1 and -1."""
    a, b = pair(node)
    of = tensor_of(a).dtype
    if of.is_float:
        return node.call("power", a, b)
    require(node, a, "int", "uint")
    out: Expr = node.constant(1, of)
    factor, rest = a, unsigned(node, b)
    for k in range(of.bits):
        odd = node.call("not_equal", node.call("bitwise_and", rest, 1), 0)
        out = node.call("where", odd, node.call("multiply", out, factor), out)
        if k + 1 < of.bits:
            factor = node.call("multiply", factor, factor)
            rest = node.call("right_shift", rest, 1)
    if of.kind == "uint":
        return out
    # the bits of a negative exponent are those of 2^width + b, so 1 and -1 are right as they are
    is_unit = node.call("equal", node.call("abs", a), 1)
    fraction = node.call("logical_and", node.call("less", b, 0), node.call("logical_not", is_unit))
    return node.call("where", fraction, node.constant(0, of), out)


def unsigned(node: HloNode, x: Expr) -> Expr:
    """The bits of whole numbers as unsigned ones of the same width."""
    of = tensor_of(x).dtype
    return x if of.kind == "uint" else node.call("reinterpret", x, dtype=f"uint{of.bits}")


def as_bits(node: HloNode, x: Expr) -> Expr:
    """The bits of floats or whole numbers as unsigned ones of the same width."""
    of = tensor_of(x).dtype
    return x if of.kind == "uint" else node.call("reinterpret", x, dtype=f"uint{of.bits}")


def shift(op: str, logical: bool) -> HloRule:
    """A shift. An amount that is negative, or the width or more, leaves no bit of the operand: the result is 0, or the
    sign all over."""

    def rule(node: HloNode) -> Expr:
        a, b = pair(node)
        require(node, a, "int", "uint")
        of = tensor_of(a).dtype
        amount = unsigned(node, b)
        fits = node.call("less", amount, of.bits) if of.bits <= tensor_of(amount).dtype.max else None
        moved = unsigned(node, a) if logical else a
        if op == "right_shift" and not logical and of.kind == "uint":
            moved = node.call("reinterpret", a, dtype=f"int{of.bits}")  # the highest bit is repeated all the same
        to = tensor_of(moved).dtype
        steps = amount if to.kind == "uint" else node.call("reinterpret", amount, dtype=to.name)
        if fits is not None:
            steps = node.call("where", fits, steps, node.constant(0, to))
        done = node.call(op, moved, steps)
        if fits is not None:
            none: Expr = node.constant(0, to)
            if to.kind == "int" and op == "right_shift":
                none = node.call("where", node.call("less", moved, 0), node.constant(-1, to), none)
            done = node.call("where", fits, done, none)
        return done if to is of else node.call("reinterpret", done, dtype=of.name)

    return rule


def sign(node: HloNode) -> Expr:
    """-1, 0 or 1; a zero keeps its sign, and a NaN is one."""
    node.operands(1)
    (x,) = node.args
    of = tensor_of(x).dtype
    require(node, x, "int", "uint", "float")
    one: Expr = node.constant(1, of)
    if of.kind != "uint":
        one = node.call("where", node.call("less", x, 0), node.constant(-1, of), one)
    still = node.call("equal", x, 0)
    if of.is_float:
        still = node.call("logical_or", still, node.call("not_equal", x, x))
    return node.call("where", still, x, one)


def rsqrt(node: HloNode) -> Expr:
    """1 / sqrt(x): the root is rounded and then its reciprocal."""
    node.operands(1)
    require(node, node.args[0], "float")
    return node.call("reciprocal", node.call("sqrt", node.args[0]))


def round_away(node: HloNode) -> Expr:
    """To the nearest whole number, halves away from 0; the sign stays."""
    node.operands(1)
    (x,) = node.args
    require(node, x, "float")
    size = node.call("abs", x)
    down = node.call("floor", size)
    up = node.call("greater_equal", node.call("subtract", size, down), 0.5)
    whole = node.call("where", up, node.call("add", down, 1), down)
    whole = node.call("where", node.call("less", size, node.call("add", whole, 1)), whole, size)  # infinities
    return with_sign(node, whole, x)


def is_minus(node: Composer, x: Expr) -> Expr:
    """Whether the sign of a number is minus, that of a zero too: then its reciprocal is below 0."""
    zero = node.call("less", node.call("reciprocal", x), 0)
    return node.call("where", node.call("equal", x, 0), zero, node.call("less", x, 0))


def with_sign(node: Composer, size: Expr, x: Expr) -> Expr:
    """A number of at least 0 with the sign of another, that of a zero too; NaN where the other is."""
    signed = node.call("where", is_minus(node, x), node.call("negative", size), size)
    return node.call("where", node.call("equal", x, x), signed, x)


def atan2(node: HloNode) -> Expr:
    """The angle of the point (x, y), from -pi to pi, with the sign of y, that of a zero too; by the arc tangent of the
    smaller magnitude through the larger."""
    a, b = pair(node)
    require(node, a, "float")
    return angle_of(node, a, b)


def angle_of(node: Composer, a: Expr, b: Expr) -> Expr:
    """The angle of the point (b, a)."""
    y, x = wide(node, a), wide(node, b)
    high, wide_side = node.call("abs", y), node.call("abs", x)
    least, most = node.call("minimum", high, wide_side), node.call("maximum", high, wide_side)
    ratio = node.call("where", node.call("equal", least, most), node.constant(1, FLOAT64),
                      node.call("divide", least, most))  # fmt: skip
    ratio = node.call("where", node.call("equal", least, 0), least, ratio)
    angle = node.call("atan", ratio)
    steep = node.call("subtract", node.constant(math.pi / 2, FLOAT64), angle)
    angle = node.call("where", node.call("greater", high, wide_side), steep, angle)
    angle = node.call("where", is_minus(node, x), node.call("subtract", node.constant(math.pi, FLOAT64), angle), angle)
    nan = node.call("add", y, x)
    known = node.call("logical_and", node.call("equal", y, y), node.call("equal", x, x))
    return free(node, node.call("where", known, with_sign(node, angle, y), nan), a)


def is_finite(node: HloNode) -> Expr:
    """Whether a number is neither infinite nor NaN."""
    node.operands(1)
    (x,) = node.args
    require(node, x, "float")
    return node.call("equal", node.call("subtract", x, x), 0)


def popcnt(node: HloNode) -> Expr:
    """How many bits are 1."""
    node.operands(1)
    (x,) = node.args
    require(node, x, "int", "uint")
    return node.cast(ones(node, unsigned(node, x)), tensor_of(x).dtype)


def ones(node: HloNode, x: Expr) -> Expr:
    """How many bits of unsigned numbers are 1, added one bit after another."""
    width = tensor_of(x).dtype.bits
    wide = x if width >= 8 else node.cast(x, DTYPES["uint8"])
    total = node.call("bitwise_and", wide, 1)
    for k in range(1, width):
        total = node.call("add", total, node.call("bitwise_and", node.call("right_shift", wide, k), 1))
    return total


def count_leading_zeros(node: HloNode) -> Expr:
    """How many bits above the highest 1 there are: the width, less the bits below and at it."""
    node.operands(1)
    (x,) = node.args
    require(node, x, "int", "uint")
    of = tensor_of(x).dtype
    y = unsigned(node, x)
    step = 1
    while step < of.bits:
        y = node.call("bitwise_or", y, node.call("right_shift", y, step))
        step *= 2
    count = ones(node, y)
    return node.cast(node.call("subtract", node.constant(of.bits, tensor_of(count).dtype), count), of)


def convert(node: HloNode) -> Expr:
    """The same number in another type; what it does not have StableHLO leaves open."""
    node.operands(1)
    return node.cast(node.args[0], node.result().dtype)


def real(node: HloNode) -> Expr:
    """The number itself: the operand is real."""
    node.operands(1)
    require(node, node.args[0], "float")
    return node.args[0]


def imag(node: HloNode) -> Expr:
    """0: the operand is real."""
    node.operands(1)
    (x,) = node.args
    require(node, x, "float")
    return node.stretched(node.constant(0, tensor_of(x).dtype), *tensor_of(x).shape)


COMPARED = {"EQ": "equal", "NE": "not_equal", "LT": "less", "LE": "less_equal", "GT": "greater", "GE": "greater_equal"}


def compare(node: HloNode) -> Expr:
    """A comparison: of numbers, or in the total order of floats, -NaN < -inf < ... < -0 < 0 < ... < inf < NaN."""
    a, b = pair(node)
    words = [w for w in node.op.words if isinstance(w, str)]
    for name in ("comparison_direction", "compare_type"):
        if name in node.op.attrs:
            value = node.op.attrs[name]
            words.append(value.words[-1] if isinstance(value, Dialect) and value.words else str(value))
    direction = next((w for w in words if w in COMPARED), None)
    if direction is None:
        raise node.wrong(f"the direction is missing; it is one of {', '.join(COMPARED)}")
    if "TOTALORDER" in words and tensor_of(a).dtype.is_float:
        a, b = total_order(node, a), total_order(node, b)
    return node.call(COMPARED[direction], a, b)


def total_order(node: HloNode, x: Expr) -> Expr:
    """Whole numbers that are in the total order in which the floats are."""
    of = tensor_of(x).dtype
    if of.bits < 8:
        raise node.unsupported(f"TOTALORDER of {of}")
    as_int = node.call("reinterpret", x, dtype=f"int{of.bits}")
    flipped = node.call("bitwise_xor", as_int, (1 << (of.bits - 1)) - 1)
    return node.call("where", node.call("less", as_int, 0), flipped, as_int)


def select(node: HloNode) -> Expr:
    """The second operand where the first holds, else the third; a scalar decides for all."""
    node.operands(3)
    condition, a, b = node.args
    if not node.lifted and tensor_of(condition).ndim != 0:
        a, b, condition = node.alike(a, b, condition)
    else:
        a, b = node.alike(a, b)
    return node.call("where", condition, a, b)


def clamp(node: HloNode) -> Expr:
    """min(max(x, low), high); scalars bound all."""
    node.operands(3)
    low, x, high = node.args
    if not node.lifted:
        low, high = (e if tensor_of(e).ndim == 0 else node.claimed(e, tensor_of(x).shape) for e in (low, high))
    if tensor_of(x).dtype is BOOL:
        return node.call("logical_and", node.call("logical_or", x, low), high)
    return node.call("minimum", node.call("maximum", low, x), high)


def reduce_precision(node: HloNode) -> Expr:
    """x rounded, to nearest even, to fewer bits of mantissa and of exponent, by arithmetic on its bits: what is too
    large is infinite, what is too small for the smallest normal number is 0 with its sign."""
    node.operands(1)
    (x,) = node.args
    require(node, x, "float")
    of = tensor_of(x).dtype
    exponent, mantissa = precision(node)
    own_mantissa = {"float64": 52, "float32": 23, "float16": 10, "bfloat16": 7}.get(of.name)
    if own_mantissa is None:
        raise node.unsupported(f"elements of {of}")
    raw = as_bits(node, x)
    own_exponent = of.bits - 1 - own_mantissa
    y = raw
    if mantissa < own_mantissa:
        cut = own_mantissa - mantissa
        last = node.call("bitwise_and", node.call("right_shift", y, cut), 1)
        y = node.call("add", y, node.call("add", last, (1 << (cut - 1)) - 1))
        y = node.call("bitwise_and", y, ((1 << of.bits) - 1) ^ ((1 << cut) - 1))
    top = node.call("bitwise_and", y, 1 << (of.bits - 1))
    if exponent < own_exponent:
        bias, reduced = (1 << (own_exponent - 1)) - 1, (1 << (exponent - 1)) - 1
        size = node.call("bitwise_and", y, ((1 << own_exponent) - 1) << own_mantissa)
        infinite = node.call("bitwise_or", top, ((1 << own_exponent) - 1) << own_mantissa)
        y = node.call("where", node.call("greater", size, (bias + reduced) << own_mantissa), infinite, y)
        y = node.call("where", node.call("less_equal", size, (bias - reduced) << own_mantissa), top, y)
    out = node.call("reinterpret", y, dtype=of.name)
    return node.call("where", node.call("equal", x, x), out, x)


def precision(node: HloNode) -> tuple[int, int]:
    """The bits of exponent and mantissa."""
    if "exponent_bits" in node.op.attrs:
        exponent, mantissa = node.number("exponent_bits"), node.number("mantissa_bits")
    else:
        found = re.fullmatch(r"e([0-9]{1,3})m([0-9]{1,3})", str(node.attr("format")))
        if found is None:
            raise node.wrong("format is written as e5m10")
        exponent, mantissa = int(found[1]), int(found[2])
    if exponent < 1 or mantissa < 0:
        raise node.wrong("exponent_bits is at least 1 and mantissa_bits at least 0")
    return exponent, mantissa


def map_(node: HloNode) -> Any:
    """The region's operations on whole tensors, which are elementwise."""
    return node.run_region(0, node.alike(*node.args), True)


def function(of: Callable[[HloNode, Expr], Expr]) -> HloRule:
    """A rule for an elementary function that is composed."""

    def rule(node: HloNode) -> Expr:
        node.operands(1)
        require(node, node.args[0], "float")
        return of(node, node.args[0])

    return rule


def same(node: HloNode) -> list[Expr]:
    """The operands themselves."""
    return list(node.args)


ELEMENTWISE: dict[str, HloRule] = {
    "stablehlo.abs": unary("abs", "int", "uint", "float"),
    "stablehlo.add": binary("add", "logical_or"),
    "stablehlo.and": bits("logical_and", "bitwise_and"),
    "stablehlo.atan2": atan2,
    "stablehlo.cbrt": function(cbrt),
    "stablehlo.ceil": unary("ceil", "float"),
    "stablehlo.clamp": clamp,
    "stablehlo.compare": compare,
    "stablehlo.convert": convert,
    "stablehlo.cosine": unary("cos", "float"),
    "stablehlo.count_leading_zeros": count_leading_zeros,
    "stablehlo.divide": divide,
    "stablehlo.exponential": unary("exp", "float"),
    "stablehlo.exponential_minus_one": function(expm1),
    "stablehlo.floor": unary("floor", "float"),
    "stablehlo.imag": imag,
    "stablehlo.is_finite": is_finite,
    "stablehlo.log": unary("log", "float"),
    "stablehlo.log_plus_one": function(log1p),
    "stablehlo.logistic": unary("sigmoid", "float"),
    "stablehlo.maximum": binary("maximum", "logical_or"),
    "stablehlo.minimum": binary("minimum", "logical_and"),
    "stablehlo.multiply": binary("multiply", "logical_and"),
    "stablehlo.negate": unary("negative", "int", "uint", "float"),
    "stablehlo.not": not_,
    "stablehlo.optimization_barrier": same,
    "stablehlo.or": bits("logical_or", "bitwise_or"),
    "stablehlo.popcnt": popcnt,
    "stablehlo.power": power,
    "stablehlo.real": real,
    "stablehlo.reduce_precision": reduce_precision,
    "stablehlo.remainder": remainder,
    "stablehlo.round_nearest_afz": round_away,
    "stablehlo.round_nearest_even": unary("round", "float"),
    "stablehlo.rsqrt": rsqrt,
    "stablehlo.select": select,
    "stablehlo.shift_left": shift("left_shift", logical=True),
    "stablehlo.shift_right_arithmetic": shift("right_shift", logical=False),
    "stablehlo.shift_right_logical": shift("right_shift", logical=True),
    "stablehlo.sign": sign,
    "stablehlo.sine": unary("sin", "float"),
    "stablehlo.sqrt": unary("sqrt", "float"),
    "stablehlo.subtract": binary("subtract"),
    "stablehlo.tan": unary("tan", "float"),
    "stablehlo.tanh": unary("tanh", "float"),
    "stablehlo.xor": bits("logical_xor", "bitwise_xor"),
}
"""The operations that do the same to each element: these may stand in a region that is done on whole tensors."""
