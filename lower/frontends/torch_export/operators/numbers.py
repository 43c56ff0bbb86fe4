"""Sizes, and numbers that are no tensors (specs/lower.md, "torch.export").

What Python computes of sizes between the operators: a size is a number or an expression; a truth or a float that only a
run knows is a scalar of ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from assay.lower.frontends.torch_export.node import AtenNode, AtenRule, aten_type
from assay.lower.frontends.torch_export.sizes import floored_size, larger, remainder, smaller
from assay.semantics import scalar
from assay.semantics.dtypes import BOOL, FLOAT64, INT64
from assay.semantics.graph import Expr
from assay.semantics.ops.sizes import product
from assay.semantics.scalar import Dim, simplify

Sizes = Callable[[Dim, Dim], Dim]
MOST_FACTORS = 8
"""Factors of a power of a size at most."""
MOST_BITS = 64
"""Bits of a power of known whole numbers at most."""


def _both(node: AtenNode) -> tuple[Any, Any]:
    values = list(node.args.values())
    if len(values) != 2:
        raise node.wrong(f"{len(values)} operands; 2 are wanted")
    return values[0], values[1]


def of_sizes(sizes: Sizes, numbers: Callable[[float, float], float], op: str) -> AtenRule:
    """An operator on two sizes, on two known numbers, or on what a run knows."""

    def rule(node: AtenNode) -> Any:
        a, b = _both(node)
        if isinstance(a, (int, scalar.Expr)) and isinstance(b, (int, scalar.Expr)):
            return sizes(a, b)
        if isinstance(a, (int, float)) and isinstance(b, (int, float)):
            return numbers(a, b)
        return node.call(op, *met(node, a, b))

    return rule


def met(node: AtenNode, a: Any, b: Any) -> list[Expr]:
    """Two numbers as scalars of int64, or of float64 where one is a float."""
    whole = all(isinstance(v, (int, scalar.Expr)) or isinstance(v, Expr) and aten_type(v).dtype.is_integer
                for v in (a, b))  # fmt: skip
    return [node.as_tensor(v, INT64 if whole else FLOAT64) for v in (a, b)]


def compared_numbers(op: str, numbers: Callable[[Any, Any], bool]) -> AtenRule:
    """A comparison of two numbers: known, or a bool scalar."""

    def rule(node: AtenNode) -> Any:
        a, b = _both(node)
        if isinstance(a, (int, float)) and isinstance(b, (int, float)):
            return numbers(a, b)
        return node.call(op, *met(node, a, b))

    return rule


def sym_size(node: AtenNode) -> Any:
    """The size of an axis; or all of them."""
    shape = aten_type(node.tensor()).shape
    return shape[node.axis(len(shape))] if "dim" in node.args else list(shape)


def true_quotient(node: AtenNode) -> Any:
    """A quotient as a float."""
    a, b = _both(node)
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return a / b
    return node.call("divide", *(node.as_tensor(v, FLOAT64) for v in (a, b)))


def as_float(node: AtenNode) -> Any:
    """A number as a float."""
    (a,) = node.args.values()
    return float(a) if isinstance(a, (int, float)) else node.as_tensor(a, FLOAT64)


def root(node: AtenNode) -> Any:
    """The square root of a number."""
    (a,) = node.args.values()
    return float(a) ** 0.5 if isinstance(a, (int, float)) and a >= 0 else node.call("sqrt", node.as_tensor(a, FLOAT64))


def _known_power(node: AtenNode, a: float, b: float) -> float:
    """Of known numbers. Invalid: it has no value that is real; Unsupported: it is a whole number beyond all sizes."""
    if isinstance(a, int) and isinstance(b, int) and abs(a) > 1 and b > 0 and abs(a).bit_length() * b > MOST_BITS:
        raise node.unsupported(f"{a} to the power {b}")
    try:
        found = a**b
    except (ZeroDivisionError, OverflowError):
        raise node.wrong(f"{a} to the power {b} has no value") from None
    if isinstance(found, complex):
        raise node.wrong(f"{a} to the power {b} is no real number")
    return found if isinstance(found, int) else float(found)


def raised(node: AtenNode) -> Any:
    """A number to the power of another: a product of sizes where it is one, else a float."""
    a, b = _both(node)
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return _known_power(node, a, b)
    if isinstance(a, scalar.Expr) and isinstance(b, int) and 0 <= b <= MOST_FACTORS:
        return product([a] * b)
    if isinstance(b, int) and b >= 0 and not (isinstance(a, Expr) and aten_type(a).dtype.is_float):
        raise node.unsupported(f"the power {b} of a whole number")
    return node.call("power", *(node.as_tensor(v, FLOAT64) for v in (a, b)))


def negated_number(node: AtenNode) -> Any:
    """A number with the other sign."""
    (a,) = node.args.values()
    if isinstance(a, (int, float)):
        return -a
    return simplify(0 - a) if isinstance(a, scalar.Expr) else node.call("negative", a)


def not_(node: AtenNode) -> Any:
    """The opposite of a truth."""
    (a,) = node.args.values()
    return not a if isinstance(a, bool) else node.call("logical_not", a)


def of_truths(op: str) -> AtenRule:
    """Two truths together."""

    def rule(node: AtenNode) -> Any:
        a, b = _both(node)
        return node.call(op, *(node.as_tensor(v, BOOL) for v in (a, b)))

    return rule


def checked(node: AtenNode) -> list[Expr]:
    """A run in which a condition does not hold traps, as PyTorch raises."""
    found = node.get("self", node.args.get("arg0"))
    if found is True:
        return []
    if found is False:
        raise node.wrong("its condition never holds")
    if not isinstance(found, Expr):
        raise node.unsupported("such a condition")
    holds = node.shaped(found)
    holds = holds if aten_type(holds).dtype is BOOL else node.call("not_equal", holds, 0)
    said = str(node.get("assert_msg", "") or "an assertion of the program does not hold")[:200]
    node.require(holds, said.replace("%", ""))
    return []


def says_nothing(node: AtenNode) -> list[Expr]:
    """What says nothing that is not known here: the type of a value, which is checked of every value; a size of 0 or
    more, as every size is."""
    return []


def sum_of(node: AtenNode) -> Any:
    """The sum of sizes."""
    total: Dim = 0
    for d in node.sizes("args" if "args" in node.args else "arg0"):
        total = simplify(total + d)
    return total


def _python_mod(a: float, b: float) -> float:
    return a % b


OPERATOR: dict[str, AtenRule] = {
    "add": of_sizes(lambda a, b: simplify(a + b), lambda a, b: a + b, "add"),
    "and_": of_truths("logical_and"),
    "eq": compared_numbers("equal", lambda a, b: a == b),
    "floordiv": of_sizes(lambda a, b: floored_size([a, b]), lambda a, b: a // b, "floor_divide"),
    "ge": compared_numbers("greater_equal", lambda a, b: a >= b),
    "gt": compared_numbers("greater", lambda a, b: a > b),
    "le": compared_numbers("less_equal", lambda a, b: a <= b),
    "lt": compared_numbers("less", lambda a, b: a < b),
    "mod": of_sizes(lambda a, b: remainder([a, b]), _python_mod, "fmod"),
    "mul": of_sizes(lambda a, b: simplify(a * b), lambda a, b: a * b, "multiply"),
    "ne": compared_numbers("not_equal", lambda a, b: a != b),
    "neg": negated_number,
    "not_": not_,
    "or_": of_truths("logical_or"),
    "pow": raised,
    "sub": of_sizes(lambda a, b: simplify(a - b), lambda a, b: a - b, "subtract"),
    "truediv": true_quotient,
}
"""Functions of Python's `operator`."""

TORCH: dict[str, AtenRule] = {
    "sym_float": as_float,
    "sym_max": of_sizes(lambda a, b: larger([a, b]), max, "maximum"),
    "sym_min": of_sizes(lambda a, b: smaller([a, b]), min, "minimum"),
    "sym_not": not_,
    "sym_sum": sum_of,
    "_sym_sqrt": root,
}
"""Functions of `torch`."""

TABLE: dict[str, AtenRule] = {
    "_assert_async": checked,
    "_assert_scalar": checked,
    "_assert_tensor_metadata": says_nothing,
    "sym_constrain_range": says_nothing,
    "sym_constrain_range_for_size": says_nothing,
    "sym_numel": lambda node: product(aten_type(node.tensor()).shape),
    "sym_size": sym_size,
}
