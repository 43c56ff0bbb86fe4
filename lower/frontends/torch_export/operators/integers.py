"""Powers and divisors of whole numbers (specs/lower.md, "torch.export").

PyTorch: torch.pow, torch.gcd, torch.lcm. ATen does each in a loop; here it takes as many steps as any numbers of the
dtype need, which changes nothing after the last. The least number of a dtype has no size there, and C leaves open what
its divisors are: a run with it traps.
"""

from __future__ import annotations

import math
from typing import Any

from assay.lower.frontends.torch_export.node import AtenNode, AtenRule, aten_type
from assay.lower.frontends.torch_export.operators.arithmetic import fmod, power, two
from assay.lower.frontends.torch_export.operators.elementwise import constant_like
from assay.semantics.dtypes import BOOL, DType
from assay.semantics.graph import Expr

GOLDEN = (1 + math.sqrt(5)) / 2


def whole(node: AtenNode, of: DType) -> None:
    """Refuse other dtypes than those of whole numbers."""
    if not of.is_integer or of is BOOL:
        raise node.wrong(f"the operands are {of}; whole numbers are wanted")


def whole_power(node: AtenNode, x: Expr, exponent: Expr) -> Expr:
    """x to the power of a whole number, by squares. An exponent below 0 gives 1 / x rounded towards 0, and 0 for 0."""
    of = aten_type(x).dtype
    whole(node, of)
    one, zero = constant_like(node, 1, x), constant_like(node, 0, x)
    made, factor, rest = one, x, exponent
    for step in range(of.bits - (of.kind == "int")):
        odd = node.call("not_equal", node.call("bitwise_and", rest, 1), 0)
        made = node.call("where", odd, node.call("multiply", made, factor), made)
        if step < of.bits - 2:
            factor, rest = node.call("multiply", factor, factor), node.call("right_shift", rest, 1)
    if of.kind != "int":
        return made
    odd = node.call("not_equal", node.call("bitwise_and", exponent, 1), 0)
    turned = node.call("where", odd, constant_like(node, -1, x), one)
    below = node.call("where", node.call("equal", x, -1), turned, zero)
    below = node.call("where", node.call("equal", x, 1), one, below)
    return node.call("where", node.call("less", exponent, 0), below, made)


def power_of_tensors(node: AtenNode) -> Any:
    """x to the power y: of whole numbers where the exponent is a tensor, or as `power` has it."""
    base, exponent = node.operand("self"), node.operand("exponent")
    if not isinstance(exponent, Expr) or node.promoted(base, exponent).is_float:
        return power(node)
    return two(whole_power, names=("self", "exponent"))(node)


def divisor(node: AtenNode, x: Expr, y: Expr) -> Expr:
    """The greatest common divisor, by Euclid: of 0 and a number that number's size."""
    of = aten_type(x).dtype
    whole(node, of)
    if of.kind == "int":
        for v in (x, y):
            node.require(node.every(node.call("not_equal", v, int(of.min))), f"an operand is {of.min}")
    a, b = (node.call("abs", v) if of.kind == "int" else v for v in (x, y))
    a, b = node.call("add", a, constant_like(node, 0, b)), node.call("add", b, constant_like(node, 0, a))
    for _ in range(math.ceil(of.bits / math.log2(GOLDEN)) + 2):  # Fibonacci's numbers need the most
        done = node.call("equal", a, 0)
        rest = fmod(node, b, node.call("where", done, constant_like(node, 1, a), a))
        a, b = node.call("where", done, a, rest), node.call("where", done, b, a)
    return b


def multiple(node: AtenNode, x: Expr, y: Expr) -> Expr:
    """The least common multiple; 0 where one is 0."""
    by = divisor(node, x, y)
    none = node.call("equal", by, 0)
    part = node.call("truncate_divide", x, node.call("where", none, constant_like(node, 1, by), by))
    made = node.call("multiply", part, y)
    made = node.call("abs", made) if aten_type(x).dtype.kind == "int" else made
    return node.call("where", none, constant_like(node, 0, by), made)


TABLE: dict[str, AtenRule] = {
    "gcd": two(divisor),
    "lcm": two(multiple),
    "pow": power_of_tensors,
}
