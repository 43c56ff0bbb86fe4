"""The operations of CHLO, which the client writes and StableHLO's tools expand (specs/lower.md, "StableHLO")."""

from __future__ import annotations

import math
from dataclasses import replace

from assay.lower.frontends.composing import Composer
from assay.lower.frontends.stablehlo.node import HloNode, HloRule, tensor_of
from assay.lower.frontends.stablehlo.operators.calls import constant
from assay.lower.frontends.stablehlo.operators.contraction import product_of
from assay.lower.frontends.stablehlo.operators.elementwise import ELEMENTWISE as STABLEHLO, function, pair, unary
from assay.lower.frontends.stablehlo.operators.error_function import erf_inv, erfc
from assay.lower.frontends.stablehlo.operators.functions import polynomial, wide
from assay.lower.frontends.stablehlo.operators.sorting import get_second
from assay.semantics import graph
from assay.semantics.dtypes import DTYPES, INT64
from assay.semantics.graph import Expr


def narrow_only(node: HloNode, x: Expr) -> None:
    """Unsupported for float64, where the composition would be less accurate than the bound says."""
    if tensor_of(x).dtype.bits > 32:
        raise node.unsupported(f"elements of {tensor_of(x).dtype}")


def digamma(node: Composer, x: Expr) -> Expr:
    """The derivative of log(gamma(x)): by reflection below 1/2, then ten steps up, then its asymptotic series. NaN at
    the poles."""
    w = wide(node, x)
    of = tensor_of(w).dtype
    reflect = node.call("less", w, 0.5)
    y = node.call("where", reflect, node.call("subtract", node.constant(1, of), w), w)
    steps: Expr = node.constant(0, of)
    for k in range(10):
        steps = node.call("add", steps, node.call("reciprocal", node.call("add", y, k)))
    far = node.call("add", y, 10)
    inverse = node.call("reciprocal", node.call("multiply", far, far))
    bernoulli = [1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12]
    series = node.call("multiply", polynomial(node, inverse, bernoulli[::-1]), inverse)
    value = node.call("subtract", node.call("log", far), node.call("divide", node.constant(0.5, of), far))
    value = node.call("subtract", node.call("subtract", value, series), steps)
    angle = node.call("multiply", node.call("subtract", w, node.call("round", w)), math.pi)
    mirrored = node.call("subtract", value, node.call("divide", node.constant(math.pi, of), node.call("tan", angle)))
    pole = node.call("logical_and", node.call("less_equal", w, 0), node.call("equal", w, node.call("floor", w)))
    found = node.call("where", reflect, mirrored, value)
    found = node.call("where", node.call("equal", w, float("inf")), w, found)
    found = node.call("where", pole, node.constant(float("nan"), of), found)
    return loosened(node, found, w, x)


def lgamma(node: Composer, x: Expr) -> Expr:
    """log(|gamma(x)|): by reflection below 1/2, then ten steps up, then Stirling's series."""
    w = wide(node, x)
    of = tensor_of(w).dtype
    reflect = node.call("less", w, 0.5)
    y = node.call("where", reflect, node.call("subtract", node.constant(1, of), w), w)
    steps: Expr = y
    for k in range(1, 10):
        steps = node.call("multiply", steps, node.call("add", node.call("minimum", y, 1e20), k))
    far = node.call("add", y, 10)
    inverse = node.call("reciprocal", node.call("multiply", far, far))
    stirling = [1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360]
    series = node.call("divide", polynomial(node, inverse, stirling[::-1]), far)
    value = node.call("multiply", node.call("subtract", far, 0.5), node.call("log", far))
    value = node.call("add", node.call("subtract", value, far), 0.5 * math.log(2 * math.pi))
    value = node.call("subtract", node.call("add", value, series), node.call("log", steps))
    value = node.call("where", node.call("greater", y, 1e15), _large_lgamma(node, y), value)
    angle = node.call("multiply", node.call("subtract", w, node.call("round", w)), math.pi)
    sine = node.call("log", node.call("divide", node.call("abs", node.call("sin", angle)), math.pi))
    found = node.call("where", reflect, node.call("negative", node.call("add", sine, value)), value)
    endless = node.call("equal", node.call("abs", w), float("inf"))
    found = node.call("where", endless, node.constant(float("inf"), of), found)
    return loosened(node, found, w, x, times=4 if tensor_of(x).dtype is of else 1)


def _large_lgamma(node: Composer, y: Expr) -> Expr:
    """y (log(y) - 1), which is as near as the numbers are dense there."""
    return node.call("multiply", y, node.call("subtract", node.call("log", y), 1))


def loosened(node: Composer, y: Expr, w: Expr, x: Expr, times: int = 1) -> Expr:
    """`free`, and off by as much, or by several `times` as much, at a root too, where what meets there is rounded: a
    multiple of e^0 - 1, which is 0."""
    of = tensor_of(x).dtype
    unit = node.call("exp", node.constant(0, of))
    size = node.cast(node.call("minimum", node.call("add", node.call("abs", w), 4), 1000), of)
    size = node.call("where", node.call("equal", size, size), size, node.constant(1, of))
    size = node.call("multiply", size, times) if times > 1 else size
    off = node.call("multiply", size, node.call("subtract", unit, 1))
    return node.call("add", node.call("multiply", node.cast(y, of), unit), off)


def bessel_i1e(node: HloNode, x: Expr) -> Expr:
    """e^-|x| I1(x): up to 20 by its power series, above by its asymptotic one."""
    narrow_only(node, x)
    w = wide(node, x)
    of = tensor_of(w).dtype
    size = node.call("abs", w)
    near = node.call("minimum", size, 20)
    half = node.call("multiply", near, 0.5)
    powers = [1 / (math.factorial(k) * math.factorial(k + 1)) for k in range(60)]
    series = node.call("multiply", polynomial(node, node.call("multiply", half, half), powers[::-1]), half)
    low = node.call("multiply", series, node.call("exp", node.call("negative", near)))
    terms, term = [1.0], 1.0
    for k in range(1, 16):
        term *= -(4 - (2 * k - 1) ** 2) / (8 * k)
        terms.append(term)
    far = node.call("maximum", size, 20)
    high = polynomial(node, node.call("reciprocal", far), terms[::-1])
    high = node.call("divide", high, node.call("sqrt", node.call("multiply", far, 2 * math.pi)))
    y = node.call("where", node.call("greater", size, 20), high, low)
    y = node.call("where", node.call("less", w, 0), node.call("negative", y), y)
    y = node.call("where", node.call("equal", w, w), y, w)
    assert of.is_float
    return loosened(node, y, node.constant(0, of), x)


def next_after(node: HloNode) -> Expr:
    """The next number towards another; the other where they are equal, and NaN where one is."""
    x, y = pair(node)
    of = tensor_of(x).dtype
    if not of.is_float or of.bits < 16:
        raise node.unsupported(f"elements of {of}")
    uint = DTYPES[f"uint{of.bits}"]
    raw = node.call("reinterpret", x, dtype=uint.name)
    positive = node.call("greater", x, 0)
    away = node.call("equal", node.call("less", x, y), positive)
    next_ = node.call("where", away, node.call("add", raw, 1), node.call("subtract", raw, 1))
    least = node.call(
        "where", node.call("less", y, 0), node.constant((1 << (of.bits - 1)) + 1, uint), node.constant(1, uint)
    )
    next_ = node.call("where", node.call("equal", x, 0), least, next_)
    found = node.call("reinterpret", next_, dtype=of.name)
    found = node.call("where", node.call("equal", x, y), y, found)
    nan = node.call("logical_or", node.call("not_equal", x, x), node.call("not_equal", y, y))
    return node.call("where", nan, node.call("add", x, y), found)


def square(node: HloNode, x: Expr) -> Expr:
    """x * x."""
    return node.call("multiply", x, x)


def is_inf(node: HloNode, x: Expr) -> Expr:
    """Whether a number is infinite."""
    return node.call("equal", node.call("abs", x), float("inf"))


def top_k(node: HloNode) -> list[Expr]:
    """The k largest along the last axis, and their places as int32; of equal ones the first comes first."""
    node.operands(1)
    (x,) = node.args
    found = node.call("topk", x, k=node.number("k"), axis=tensor_of(x).ndim - 1, largest=True, sorted=True)
    values = node.builder.named(graph.get(found, 0))
    return [values, node.cast(node.builder.named(get_second(found)), DTYPES["int32"])]


def ragged_dot(node: HloNode) -> Expr:
    """A product in which groups of rows, one behind the other, each have a matrix of their own: the rows of a group are
    those behind the rows of the groups before it."""
    node.operands(3)
    x, w, sizes = node.args
    numbers = node.fields("ragged_dot_dimension_numbers")
    ranks = tensor_of(x).ndim, tensor_of(w).ndim
    names = ("lhs_batching", "rhs_batching", "lhs_contracting", "rhs_contracting")
    lb, rb, lc, rc = (node.field(numbers, f"{n}_dimensions", ranks[k % 2]) for k, n in enumerate(names))
    ragged = node.field(numbers, "lhs_ragged_dimensions", ranks[0])
    groups = node.field(numbers, "rhs_group_dimensions", ranks[1])
    if len(ragged) != 1 or len(groups) != 1 or tensor_of(sizes).ndim != 1 or ragged[0] in (*lb, *lc):
        raise node.unsupported("a ragged axis that is summed over or batched, or group sizes for each batch")
    count, rows = tensor_of(w).shape[groups[0]], tensor_of(x).shape[ragged[0]]
    if not isinstance(count, int):
        raise node.unsupported("a number of groups that only a run knows")
    ends = node.call("cumsum", node.cast(sizes, INT64), axis=0)
    line = node.shaped(node.line(rows), *(rows if a == ragged[0] else 1 for a in range(ranks[0])))
    numbers_of = (lb, _without(rb, groups[0]), lc, _without(rc, groups[0]))
    total: Expr | None = None
    for g in range(count):
        below = node.call("less", line, node.take_axis(ends, g, 0))
        if g:
            above = node.call("greater_equal", line, node.take_axis(ends, g - 1, 0))
            below = node.call("logical_and", below, above)
        part = node.call("where", below, x, node.constant(0, tensor_of(x).dtype))
        made = product_of(node, part, node.take_axis(w, g, groups[0]), numbers_of, node.result().dtype)
        total = made if total is None else node.call("add", total, made)
    if total is None:
        raise node.wrong("no group")
    return total


def _without(axes: tuple[int, ...], gone: int) -> tuple[int, ...]:
    return tuple(a - (a > gone) for a in axes)


def broadcasting(of: HloRule) -> HloRule:
    """An operation whose operands are stretched to one another, as NumPy does it."""

    def rule(node: HloNode) -> object:
        if "broadcast_dimensions" in node.op.attrs:
            raise node.unsupported("broadcast_dimensions")
        return of(replace(node, lifted=True))

    return rule


DIRECT = ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "erf", "sinh", "tan")
BROADCAST = {"add": "add", "subtract": "subtract", "multiply": "multiply", "divide": "divide", "maximum": "maximum",
             "minimum": "minimum", "power": "power", "remainder": "remainder", "and": "and", "or": "or", "xor": "xor",
             "compare": "compare", "select": "select", "shift_left": "shift_left"}  # fmt: skip

ELEMENTWISE: dict[str, HloRule] = {
    **{f"chlo.{name}": unary(name, "float") for name in DIRECT},
    **{f"chlo.broadcast_{n}": broadcasting(STABLEHLO[f"stablehlo.{m}"]) for n, m in BROADCAST.items()},
    "chlo.bessel_i1e": function(bessel_i1e),
    "chlo.digamma": function(digamma),
    "chlo.erf_inv": function(erf_inv),
    "chlo.erfc": function(erfc),
    "chlo.is_inf": function(is_inf),
    "chlo.lgamma": function(lgamma),
    "chlo.next_after": next_after,
    "chlo.square": function(square),
}
OTHERS: dict[str, HloRule] = {"chlo.constant": constant, "chlo.ragged_dot": ragged_dot, "chlo.top_k": top_k}
