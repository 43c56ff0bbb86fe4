"""Elementwise operators of ATen of several operands (specs/lower.md, "torch.export").

Operands meet in one dtype first (`promotion.py`). A sum or product of narrow floats with a number is computed in
float32 and rounded once, as ATen does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from assay.lower.frontends.stablehlo.operators.elementwise import angle_of
from assay.lower.frontends.stablehlo.operators.functions import free, log1p, wide
from assay.lower.frontends.torch_export.node import AtenNode, AtenRule, aten_type, truth
from assay.lower.frontends.torch_export.operators.elementwise import constant_like, is_float, is_minus, is_nan, trunc
from assay.lower.frontends.torch_export.promotion import Operand
from assay.semantics.dtypes import BOOL, FLOAT32, FLOAT64, DType
from assay.semantics.graph import Expr

Two = Callable[[AtenNode, Expr, Expr], Expr]


def two(of: Two, floats: bool = False, names: tuple[str, str] = ("self", "other"), exact: bool = False) -> AtenRule:
    """A rule of two operands in the dtype in which they meet, which is that of the result. A number is rounded to it
    first; it is taken as it is in float32, if it is `exact`, as ATen's products and quotients do."""

    def rule(node: AtenNode) -> Expr:
        a, b = (node.operand(n) for n in names)
        to = node.promoted(a, b)
        to = FLOAT32 if floats and not to.is_float else to
        work = work_dtype(to)
        x, y = (node.as_tensor(v, work) if exact else node.cast(node.as_tensor(v, to), work) for v in (a, b))
        return node.cast(of(node, x, y), to)

    return rule


def work_dtype(of: DType) -> DType:
    """The dtype in which ATen computes: float32 for narrower floats."""
    return FLOAT32 if of.is_float and of.bits < 32 else of


def compared_tensors(op: str) -> AtenRule:
    """A comparison of operands in the dtype in which they meet."""

    def rule(node: AtenNode) -> Expr:
        return node.call(op, *node.together(node.operand("self"), node.operand("other")))

    return rule


def logical(op: str) -> AtenRule:
    """An operator on whether the operands are not 0."""
    return lambda node: node.call(op, *(truth(node, node.operand(n)) for n in ("self", "other")))


def bits(whole: str, logical_: str) -> AtenRule:
    """An operator on the bits of whole numbers, or on bools."""

    def rule(node: AtenNode) -> Expr:
        a, b = node.together(node.operand("self"), node.operand("other"))
        return node.call(logical_ if aten_type(a).dtype is BOOL else whole, a, b)

    return rule


def scaled(node: AtenNode, y: Expr) -> Expr:
    """The second operand of a sum times `alpha`, which is a number of the dtype of the result: of narrow floats their
    product is too, unless it is kept wider."""
    alpha = node.get("alpha", 1)
    work = aten_type(y).dtype
    if isinstance(alpha, (int, float)) and alpha == 1:
        return y
    if work is BOOL:
        raise node.unsupported("alpha for bools")
    to = node.promoted(node.operand("self"), node.operand("other"))
    return node.cast(node.call("multiply", node.cast(y, to), node.as_tensor(alpha, to)), work)


def add(node: AtenNode, x: Expr, y: Expr) -> Expr:
    """x + alpha y; of bools, whether one holds."""
    if aten_type(x).dtype is BOOL:
        return node.call("logical_or", x, scaled(node, y))
    return node.call("add", x, scaled(node, y))


def subtract(node: AtenNode, x: Expr, y: Expr) -> Expr:
    """x - alpha y."""
    return node.call("subtract", x, scaled(node, y))


def multiply(node: AtenNode, x: Expr, y: Expr) -> Expr:
    """x y; of bools, whether both hold."""
    return node.call("logical_and" if aten_type(x).dtype is BOOL else "multiply", x, y)


def divide(node: AtenNode) -> Any:
    """x / y; with a rounding mode the quotient rounded down, or towards 0."""
    mode = node.get("rounding_mode", None)
    if mode is None:
        return two(lambda node, x, y: node.call("divide", x, y), floats=True, exact=True)(node)
    if mode not in ("floor", "trunc"):
        raise node.wrong(f"rounding_mode is {mode!r}; floor or trunc is wanted")
    return two(floored_quotient if mode == "floor" else truncated_quotient, exact=True)(node)


def truncated_quotient(node: AtenNode, x: Expr, y: Expr) -> Expr:
    """The quotient rounded towards 0. A run in which a whole number is divided by 0 traps."""
    if is_float(x):
        return trunc(node, node.call("divide", x, y))
    return node.call("truncate_divide", x, y)


def floored_quotient(node: AtenNode, x: Expr, y: Expr) -> Expr:
    """The quotient rounded down: of floats by their remainder, so that it is that of the exact quotient, as ATen does
    it (c10/util/generic_math.h, div_floor_floating)."""
    if not is_float(x):
        return node.call("floor_divide", x, y)
    rest = node.call("fmod", x, y)
    exact = node.call("divide", node.call("subtract", x, rest), y)
    other = node.call("not_equal", node.call("less", y, 0), node.call("less", rest, 0))
    off = node.call("logical_and", node.call("not_equal", rest, 0), other)
    exact = node.call("where", off, node.call("subtract", exact, 1), exact)
    down = node.call("floor", exact)
    up = node.call("greater", node.call("subtract", exact, down), 0.5)
    down = node.call("where", up, node.call("add", down, 1), down)
    plain = node.call("divide", x, y)
    zero = node.call("multiply", plain, 0)  # with its sign
    down = node.call("where", node.call("equal", exact, 0), zero, down)
    return node.call("where", node.call("equal", y, 0), plain, down)


def floored_remainder(node: AtenNode, x: Expr, y: Expr) -> Expr:
    """What is left of the quotient rounded down; it has the sign of y."""
    rest = fmod(node, x, y)
    if aten_type(x).dtype.kind == "uint":
        return rest
    other = node.call("not_equal", node.call("less", y, 0), node.call("less", rest, 0))
    off = node.call("logical_and", node.call("not_equal", rest, 0), other)
    if not is_float(x):  # rest + y may overflow where it is not wanted
        return node.call("add", rest, node.call("where", off, y, constant_like(node, 0, y)))
    return node.call("where", off, node.call("add", rest, y), rest)


def fmod(node: AtenNode, x: Expr, y: Expr) -> Expr:
    """What is left of the quotient rounded towards 0; it has the sign of x. Of whole numbers no step overflows."""
    if is_float(x):
        return node.call("fmod", x, y)
    return node.call("subtract", x, node.call("multiply", node.call("truncate_divide", x, y), y))


def power(node: AtenNode) -> Any:
    """x to the power y; of whole numbers by a known whole exponent of 0 or more, modulo 2^width."""
    base, exponent = node.operand("self"), node.operand("exponent")
    to = node.promoted(base, exponent)
    if to.is_float:
        return two(lambda node, x, y: node.call("power", x, y), names=("self", "exponent"))(node)
    if not isinstance(exponent, int) or exponent < 0 or to is BOOL:
        raise node.unsupported(
            f"whole numbers and the exponent {exponent if isinstance(exponent, int) else 'a tensor'}"
        )
    factor, out = node.as_tensor(base, to), None
    rest = exponent
    while rest:
        if rest & 1:
            out = factor if out is None else node.call("multiply", out, factor)
        rest >>= 1
        factor = node.call("multiply", factor, factor) if rest else factor
    return node.full(aten_type(factor).shape, 1, to) if out is None else out


def larger_of(node: AtenNode, x: Expr, y: Expr) -> Expr:
    """The larger one; NaN where one is."""
    return node.call("logical_or" if aten_type(x).dtype is BOOL else "maximum", x, y)


def smallest(node: AtenNode, x: Expr, y: Expr) -> Expr:
    """The smaller one; NaN where one is."""
    return node.call("logical_and" if aten_type(x).dtype is BOOL else "minimum", x, y)


def heaviside(node: AtenNode, x: Expr, y: Expr) -> Expr:
    """0 below 0 and of NaN, 1 above, and y where x is 0."""
    if aten_type(x).dtype is BOOL:
        return node.call("logical_or", x, y)
    above = node.cast(node.call("greater", x, 0), aten_type(x).dtype)
    return node.call("where", node.call("equal", x, 0), y, above)


def number_of_two(of: Two) -> Two:
    """The same, but the other one where one is NaN."""

    def found(node: AtenNode, x: Expr, y: Expr) -> Expr:
        if not is_float(x):
            return of(node, x, y)
        met = node.call("where", is_nan(node, y), x, of(node, x, y))
        return node.call("where", is_nan(node, x), y, met)

    return found


def shift(op: str) -> Two:
    """A shift; by less than 0, or by the width or more, no bit of the operand stays: 0, or the sign all over."""

    def found(node: AtenNode, x: Expr, y: Expr) -> Expr:
        width = aten_type(x).dtype.bits
        fits = node.call("logical_and", node.call("greater_equal", y, 0), node.call("less", y, width))
        moved = node.call(op, x, node.call("where", fits, y, constant_like(node, 0, y)))
        none = node.call("where", node.call("less", x, 0), constant_like(node, -1, x), constant_like(node, 0, x))
        none = none if op == "right_shift" and aten_type(x).dtype.kind == "int" else constant_like(node, 0, x)
        return node.call("where", fits, moved, none)

    return found


def masked_fill(node: AtenNode) -> Expr:
    """A number where the mask holds."""
    x = node.tensor()
    value = node.as_tensor(node.operand("value"), aten_type(x).dtype)
    return node.call("where", truth(node, node.tensor("mask")), value, x)


def clamp(node: AtenNode) -> Expr:
    """min(max(x, least), most); a bound may be left out."""
    name = node.name
    x = node.operand("self")
    least = node.args.get("min") if name != "clamp_max" else None
    most = node.args.get("max") if name != "clamp_min" else None
    given: list[Any] = [v for v in (least, most) if v is not None]
    if not given:
        raise node.wrong("min or max is wanted")
    to = node.promoted(x, *given)
    y = node.as_tensor(x, to)
    if least is not None:
        y = larger_of(node, y, node.as_tensor(least, to))
    return y if most is None else smallest(node, y, node.as_tensor(most, to))


def add_product(quotient: bool) -> AtenRule:
    """x + value a b, or x + value a / b."""

    def rule(node: AtenNode) -> Expr:
        x, a, b = (node.tensor(n) for n in ("self", "tensor1", "tensor2"))
        to = node.promoted(x, a, b)
        to = FLOAT32 if quotient and not to.is_float else to
        x, a, b = (node.as_tensor(v, work_dtype(to)) for v in (x, a, b))
        value = node.as_tensor(node.get("value", 1), aten_type(x).dtype)
        part = node.call("multiply", value, a)
        return node.cast(node.call("add", x, node.call("divide" if quotient else "multiply", part, b)), to)

    return rule


def lerp(node: AtenNode) -> Expr:
    """start + weight (end - start)."""
    start, end = node.tensor(), node.tensor("end")
    weight: Operand = node.operand("weight")
    to = aten_type(start).dtype
    x, y, w = (node.as_tensor(v, work_dtype(to)) for v in (start, end, weight))
    step = node.call("subtract", y, x)
    low = node.call("add", x, node.call("multiply", w, step))
    high = node.call("subtract", y, node.call("multiply", step, node.call("subtract", constant_like(node, 1, w), w)))
    return node.cast(node.call("where", node.call("less", node.call("abs", w), 0.5), low, high), to)


def copysign(node: AtenNode, x: Expr, y: Expr) -> Expr:
    """The size of x with the sign of y."""
    size = node.call("abs", x)
    return node.call("where", is_minus(node, y), node.call("negative", size), size)


def hypot(node: AtenNode, x: Expr, y: Expr) -> Expr:
    """sqrt(x^2 + y^2), in float64; infinite where one is. Where a square of float64 could overflow, the larger number
    times the root of 1 and the square of what the other is of it."""
    a, b = wide(node, x), wide(node, y)
    if aten_type(x).dtype is FLOAT64:
        most, least = (node.call(op, node.call("abs", a), node.call("abs", b)) for op in ("maximum", "minimum"))
        zero = node.call("equal", most, 0.0)
        part = node.call("divide", least, node.call("where", zero, constant_like(node, 1, most), most))
        more = node.call("add", constant_like(node, 1, part), node.call("multiply", part, part))
        root = node.call("multiply", most, node.call("sqrt", more))
    else:
        root = node.call("sqrt", node.call("add", node.call("multiply", a, a), node.call("multiply", b, b)))
    endless = node.call("equal", node.call("maximum", node.call("abs", a), node.call("abs", b)), math.inf)
    some = node.call("logical_or", endless, node.call("equal", node.call("abs", a), math.inf))
    some = node.call("logical_or", some, node.call("equal", node.call("abs", b), math.inf))
    return free(node, node.call("where", some, constant_like(node, math.inf, a), root), x)


def logaddexp(node: AtenNode, x: Expr, y: Expr) -> Expr:
    """log(e^x + e^y)."""
    most = node.call("maximum", x, y)
    apart = node.call("abs", node.call("subtract", x, y))
    found = node.call("add", most, log1p(node, node.call("exp", node.call("negative", apart))))
    same = node.call("logical_and", node.call("equal", x, y), node.call("equal", node.call("abs", x), math.inf))
    return node.call("where", same, x, found)


def xlogy(node: AtenNode, x: Expr, y: Expr) -> Expr:
    """x log(y); 0 where x is 0 and y is not NaN."""
    found = node.call("multiply", x, node.call("log", y))
    found = node.call("where", node.call("equal", x, 0), constant_like(node, 0, x), found)
    return node.call("where", is_nan(node, y), y, found)


def prelu(node: AtenNode) -> Expr:
    """x above 0, else the weight of its channel times x."""
    x, w = node.tensor(), node.tensor("weight")
    rank = aten_type(x).ndim
    if aten_type(w).ndim == 1 and rank > 1:
        w = node.along(w, 1, rank)
    below = node.call("multiply", w, x)
    return node.call("where", node.call("greater", x, 0), x, below)


def glu(node: AtenNode) -> Expr:
    """The first half along an axis times the sigmoid of the second."""
    x = node.work(node.tensor())
    axis = node.axis(aten_type(x).ndim, default=-1)
    size = aten_type(x).shape[axis]
    if not isinstance(size, int) or size % 2:
        raise node.unsupported(f"an axis of size {size}")
    a, b = node.cut(x, axis, 0, size // 2), node.cut(x, axis, size // 2, size)
    return node.cast(node.call("multiply", a, node.call("sigmoid", b)), aten_type(node.tensor()).dtype)


COMPARED = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}
LONG = {"not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge"}

TABLE: dict[str, AtenRule] = {
    **{name: compared_tensors(op) for name, op in COMPARED.items()},
    **{name: compared_tensors(COMPARED[op]) for name, op in LONG.items()},
    "add": two(add),
    "addcdiv": add_product(quotient=True),
    "addcmul": add_product(quotient=False),
    "atan2": two(angle_of, floats=True),
    "arctan2": two(angle_of, floats=True),
    "bitwise_and": bits("bitwise_and", "logical_and"),
    **dict.fromkeys(("__lshift__", "bitwise_left_shift"), two(shift("left_shift"))),
    "bitwise_or": bits("bitwise_or", "logical_or"),
    **dict.fromkeys(("__rshift__", "bitwise_right_shift"), two(shift("right_shift"))),
    "bitwise_xor": bits("bitwise_xor", "logical_xor"),
    "clamp": clamp,
    "clamp_max": clamp,
    "clamp_min": clamp,
    "clip": clamp,
    "copysign": two(copysign, floats=True),
    "div": divide,
    "divide": divide,
    "floor_divide": two(floored_quotient, exact=True),
    "fmax": two(number_of_two(larger_of)),
    "fmin": two(number_of_two(smallest)),
    "fmod": two(fmod),
    "glu": glu,
    "heaviside": two(heaviside, names=("self", "values")),
    "hypot": two(hypot, floats=True),
    "lerp": lerp,
    "logaddexp": two(logaddexp, floats=True),
    "logical_and": logical("logical_and"),
    "logical_or": logical("logical_or"),
    "logical_xor": logical("logical_xor"),
    "masked_fill": masked_fill,
    "maximum": two(larger_of),
    "minimum": two(smallest),
    "mul": two(multiply, exact=True),
    "multiply": two(multiply, exact=True),
    "prelu": prelu,
    "_prelu_kernel": prelu,
    "remainder": two(floored_remainder),
    "rsub": two(lambda node, x, y: node.call("subtract", y, scaled(node, x))),
    "sub": two(subtract),
    "subtract": two(subtract),
    "true_divide": divide,
    "xlogy": two(xlogy, floats=True),
    "special_xlogy": two(xlogy, floats=True),
    "__and__": bits("bitwise_and", "logical_and"),
    "__or__": bits("bitwise_or", "logical_or"),
    "__xor__": bits("bitwise_xor", "logical_xor"),
}
