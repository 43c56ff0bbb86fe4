"""The comparisons of StableHLO's own tests, as assertions (specs/lower.md, "StableHLO").

What each compares is what the reference interpreter's `check` operations compare; a run in which one fails traps.
"""

from __future__ import annotations

from collections.abc import Callable

from assay.lower.frontends.stablehlo.node import HloNode, HloRule, tensor_of
from assay.lower.frontends.stablehlo.operators.elementwise import as_bits
from assay.lower.frontends.stablehlo.syntax import Dense
from assay.semantics import graph
from assay.semantics.dtypes import DTYPES, FLOAT64
from assay.semantics.graph import Expr
from assay.semantics.types import flatten

Compared = Callable[[HloNode, Expr, Expr], Expr]


def equal(node: HloNode, a: Expr, b: Expr) -> Expr:
    """Equal elements: NaN is not equal to NaN, and zeros of both signs are equal."""
    return node.call("equal", a, b)


def almost(node: HloNode, a: Expr, b: Expr) -> Expr:
    """Equal, or both NaN, or finite, of one sign, and no further apart than the tolerance: 0.0001 unless it is said,
    0.001 for the custom call of that name."""
    tolerance = node.op.attrs.get("tolerance", 0.001 if called(node, "check.expect_almost_eq") else 0.0001)
    if not isinstance(tolerance, (int, float)):
        raise node.wrong("tolerance is a number")
    both_nan = node.call("logical_and", node.call("not_equal", a, a), node.call("not_equal", b, b))
    same = node.call("logical_or", node.call("equal", a, b), both_nan)
    x, y = node.cast(a, FLOAT64), node.cast(b, FLOAT64)
    near = node.call("less_equal", node.call("abs", node.call("subtract", x, y)), float(tolerance))
    near = node.call("logical_and", near, node.call("equal", negative(node, a), negative(node, b)))
    return node.call("logical_or", same, near)


def called(node: HloNode, name: str) -> bool:
    """Whether the operation is a custom call of that name."""
    names = (node.op.attrs.get("callee"), node.op.attrs.get("call_target_name"))
    return node.op.name == "stablehlo.custom_call" and name in names


def negative(node: HloNode, x: Expr) -> Expr:
    """Whether the sign of a float is minus, that of a zero too."""
    if tensor_of(x).dtype.bits < 8:
        return node.call("less", x, 0)
    raw = as_bits(node, x)
    return node.call("greater_equal", raw, 1 << (tensor_of(raw).dtype.bits - 1))


def close(node: HloNode, a: Expr, b: Expr) -> Expr:
    """No fewer floats between them than `min_ulp_difference`, 0, and no more than `max_ulp_difference`, 3; two NaN are
    equal, and an infinity is near nothing else."""
    least = node.number("min_ulp_difference", default=0)
    most = node.number("max_ulp_difference", default=3)
    of = tensor_of(a).dtype
    if not of.is_float or of.bits < 8:
        raise node.wrong(f"the operands are {a.type}; floats are wanted")
    uint = DTYPES[f"uint{of.bits}"]
    top = 1 << (of.bits - 1)
    x, y = (node.call("bitwise_and", as_bits(node, e), top - 1) for e in (a, b))
    apart = node.call("subtract", node.call("maximum", x, y), node.call("minimum", x, y))
    total = node.call("add", x, y)  # two sizes of less than half of all numbers
    steps = node.call("where", node.call("equal", negative(node, a), negative(node, b)), apart, total)
    finite = [node.call("equal", node.call("subtract", e, e), 0) for e in (a, b)]
    both_nan = node.call("logical_and", node.call("not_equal", a, a), node.call("not_equal", b, b))
    same = node.call("logical_or", node.call("equal", as_bits(node, a), as_bits(node, b)), both_nan)
    steps = node.call("where", node.call("logical_and", *finite), steps, node.constant(uint.max, uint))
    steps = node.call("where", same, node.constant(0, uint), steps)
    within = node.call("less_equal", steps, min(most, int(uint.max)))
    return node.call("logical_and", within, node.call("greater_equal", steps, min(least, int(uint.max))))


def every(node: HloNode, holds: Expr) -> Expr:
    """Whether all elements hold, as a bool scalar."""
    if 0 in tensor_of(holds).shape:
        return graph.constant(True, "bool")
    return node.call("min", holds, axis=None, keepdims=False)


def check(how: Compared, is_constant: bool = False) -> HloRule:
    """The rule for a comparison of two operands, or of one with a constant."""

    def rule(node: HloNode) -> list[Expr]:
        a, b = sides(node, is_constant)
        if tensor_of(a).dtype is not tensor_of(b).dtype:
            raise node.wrong(f"{a.type} is compared with {b.type}; one type is wanted")
        b = node.claimed(b, tensor_of(a).shape)
        holds = every(node, how(node, a, b))
        text = f"{node.op.name} does not hold"
        if node.builder.span is not None:
            text += f" in line {node.builder.span.line}"
        node.builder.named(graph.assert_op(holds, a, b, format=text, span=node.builder.span), "checked")
        return []

    return rule


def sides(node: HloNode, is_constant: bool) -> tuple[Expr, Expr]:
    """What is compared."""
    if not is_constant:
        node.operands(2)
        return node.args[0], node.args[1]
    node.operands(1)
    value = node.op.attrs.get("value") or next((w for w in node.op.words if isinstance(w, Dense)), None)
    if not isinstance(value, Dense):
        raise node.wrong("the constant is missing, dense<...>")
    of = value.type or node.arg_types[0]
    return node.args[0], graph.constant(node.array(value, of))


def check_eq(node: HloNode) -> Expr:
    """`check.eq`: equal, for floats almost; its result is true, since a run in which it does not hold fails."""
    node.operands(2)
    how = almost if tensor_of(node.args[0]).dtype.is_float else equal
    check(how)(node)
    return graph.constant(True, "bool")


def print_(node: HloNode) -> list[Expr]:
    """A print of the operands."""
    for a in node.args:
        flatten(a.type)
    node.builder.named(graph.print_(*node.args, format="", span=node.builder.span), "printed")
    return []


CHECKS: dict[str, HloRule] = {
    "check.expect_eq": check(equal),
    "check.expect_eq_const": check(equal, True),
    "check.expect_almost_eq": check(almost),
    "check.expect_almost_eq_const": check(almost, True),
    "check.expect_close": check(close),
    "interpreter.print": print_,
}
CALLED = {"check.expect_eq": check(equal), "check.expect_almost_eq": check(almost), "check.expect_close": check(close),
          "check.eq": check_eq}  # fmt: skip
"""Those that stand as `stablehlo.custom_call @check...`."""
