"""Elementwise ONNX operators (specs/lower.md, "Import").

Before version 7 the second operand of a binary operator was broadcast by `broadcast` and `axis`: its shape had to be a
run of the first one's sizes, or 1 in place of some of them. Since then NumPy's rule holds.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from assay.lower.frontends.onnx.contents import is_small
from assay.lower.frontends.onnx.node import Node, Rule, same_shape, tensor
from assay.semantics.dtypes import BOOL, FLOAT64, DType
from assay.semantics.graph import Expr
from assay.semantics.operator import Operator
from assay.semantics.ops import OPERATORS
from assay.semantics.ops.common import broadcast_shapes, show_shapes
from assay.semantics.scalar import Dim, provably_equal


def _itself(op: Operator, node: Node) -> Expr:
    """An operator that is ours. One of two operands was broadcast in another way once."""
    return node.call(op.name, node[0]) if len(op.operands) == 1 else node.call(op.name, node[0], second(node))


def second(node: Node) -> Expr:
    """The second operand, in a shape that NumPy's rule broadcasts as the node's version means it."""
    a, b = node[0], node[1]
    if "broadcast" not in node.attrs:
        return b
    whole, part = tensor(a).shape, tensor(b).shape
    if not node.attrs["broadcast"]:
        if not same_shape(whole, part):
            raise node.wrong(f"shapes {show_shapes([whole, part])} differ, and broadcast is 0")
        return b
    if all(isinstance(d, int) and d == 1 for d in part):
        return node.shaped(b, ())
    axis = node.attrs["axis"]
    start = len(whole) - len(part) if axis is None else axis + len(whole) if axis < 0 else axis
    end = start + len(part)
    if start < 0 or end > len(whole) or not all(map(_stretches, part, whole[start:end])):
        raise node.wrong(f"shapes {show_shapes([whole, part])} do not broadcast: {part} is not what is at axis {start}")
    return node.shaped(b, (*part, *(1 for _ in whole[end:])))


def _stretches(part: Dim, to: Dim) -> bool:
    return (isinstance(part, int) and part == 1) or provably_equal(part, to)


def divide(node: Node) -> Expr:
    """Floats by IEEE; integers rounded to zero, which the documentation says since version 14."""
    if tensor(node[0]).dtype.is_float:
        return node.call("divide", node[0], second(node))
    return node.quotient("truncate_divide", node[0], second(node))


def modulo(node: Node) -> Expr:
    """a - b * q, where q is a / b rounded down, or to zero with `fmod`: the sign is b's, or a's."""
    a, b = node[0], node[1]
    if not tensor(a).dtype.is_float:
        quotient = node.quotient("truncate_divide" if node.attrs["fmod"] else "floor_divide", a, b)
        return node.call("subtract", a, node.call("multiply", b, quotient))
    rest = node.call("fmod", a, b)
    if node.attrs["fmod"]:
        return rest
    negative = node.call("less", b, 0.0)
    other = node.call("not_equal", node.call("less", rest, 0.0), negative)
    none = node.call("where", negative, -0.0, node.constant(0.0, tensor(a).dtype))
    moved = node.call("where", other, node.call("add", rest, b), rest)
    return node.call("where", node.call("equal", rest, 0.0), none, moved)


def bit_shift(node: Node) -> Expr:
    """What is shifted by less than 0, or the width or more, is all shifted out: 0, or -1 where a sign comes after."""
    x, by = node[0], node[1]
    of = tensor(x).dtype
    direction = node.choice("direction", "LEFT", "RIGHT")
    inside = node.call("less_equal", by, of.bits - 1)
    if of.kind == "int":
        inside = node.call("logical_and", inside, node.call("greater_equal", by, 0))
    if direction == "LEFT":
        return node.call("where", inside, node.call("left_shift", x, node.call("where", inside, by, 0)), 0)
    moved = node.call("right_shift", x, node.call("where", inside, by, of.bits - 1))
    return moved if of.kind == "int" else node.call("where", inside, moved, 0)


def is_infinite(node: Node) -> Expr:
    """Translate IsInf, by comparison with the infinities of the signs that are asked for."""
    x = node[0]
    signs = [sign for sign, name in ((1, "detect_positive"), (-1, "detect_negative")) if node.attrs.get(name, 1)]
    # where a type has no infinity the number rounds to NaN, which nothing is equal to
    found = [node.call("equal", x, sign * float("inf")) for sign in signs]
    if not found:
        return node.full(tensor(x).shape, False, BOOL)
    return found[0] if len(found) == 1 else node.call("logical_or", *found)


def power(node: Node) -> Expr:
    """Since version 12 the exponent may have a dtype of its own; the result has that of the base.

    What the documentation leaves open: integer powers wrap; an integer to a float goes by float64, as in ONNX Runtime;
    a float base with another exponent is computed in the wider of the two.
    """
    base, exponent = node[0], second(node)
    of, to = tensor(base).dtype, tensor(exponent).dtype
    if of.is_float and to is of:
        return node.call("power", base, exponent)
    known = node.builder.value(exponent) if is_small(tensor(exponent)) else None
    if of.is_float and known is not None:
        exact = known.astype(np.float64)
        if np.array_equal(exact, exact.astype(of.numpy).astype(np.float64)):
            return node.call("power", base, node.constant(exact, of))
    if of.is_integer and to.is_integer and known is not None and known.size == 1 and 0 <= int(known.reshape(())) <= 64:
        return _whole_power(node, base, int(known.reshape(())), tensor(exponent).shape)
    if of.is_integer and to.is_integer:
        return _integer_power(node, base, exponent)
    wide: DType = FLOAT64
    if of.is_float and to.is_float and max(of.bits, to.bits) > 16:
        wide = of if of.bits >= to.bits else to
    return node.cast(node.call("power", node.cast(base, wide), node.cast(exponent, wide)), of)


def _whole_power(node: Node, base: Expr, exponent: int, shape: tuple[Dim, ...]) -> Expr:
    """Repeated squaring: integers wrap, so the order of the factors does not matter."""
    both = broadcast_shapes(str(node), [tensor(base).shape, shape])
    result = node.full(both, 1, tensor(base).dtype)
    while exponent:
        if exponent & 1:
            result = node.call("multiply", base, result)
        exponent >>= 1
        if exponent:
            base = node.call("multiply", base, base)
    return result


def _integer_power(node: Node, base: Expr, exponent: Expr) -> Expr:
    """By the bits of the exponent. From 64 on only 0, 1 and -1 have a power that is not too large, and of those the
    exponent's last bit is all that counts; below 0 it is the reciprocal, rounded to zero."""
    of, to = tensor(base).dtype, tensor(exponent).dtype
    last = node.call("bitwise_and", exponent, 1)
    odd = node.call("equal", last, 1)
    bits = node.call("where", node.call("greater", exponent, 63), node.call("add", last, 62), exponent)
    result, factor = node.constant(1, of), base
    for k in range(6):
        bit = node.call("bitwise_and", node.call("right_shift", bits, k), 1)
        result = node.call("multiply", result, node.call("where", node.call("equal", bit, 1), factor, 1))
        factor = node.call("multiply", factor, factor)
    if to.kind == "uint":
        return result
    unit = node.call("equal", base, 1)
    if of.kind == "int":
        unit = node.call("logical_or", unit, node.call("equal", base, -1))
    small = node.call("where", unit, node.call("where", odd, base, 1), 0)
    return node.call("where", node.call("less", exponent, 0), small, result)


def variadic(op: str, node: Node) -> Expr:
    """One operand after another, left to right. Before version 8 all shapes had to be equal."""
    first, *rest = node.operands()
    for x in rest:
        if node.version < 8 and not same_shape(tensor(first).shape, tensor(x).shape):
            shapes = show_shapes([tensor(first).shape, tensor(x).shape])
            raise node.wrong(f"shapes {shapes} differ; operands are not broadcast before operator set 8")
        first = node.call(op, first, x)
    return first


def mean(node: Node) -> Expr:
    """The sum of the operands, divided by their number."""
    count = len(node.operands())
    found = _any_order("sum" if count == 1 else "mean", node)
    if found is not None:
        return found
    added = variadic("add", node)
    return added if count == 1 else node.call("divide", added, count)


def _any_order(op: str, node: Node) -> Expr | None:
    """Floats as one reduction over a new first axis: a chain of additions would say in which order they are added and
    that each is rounded, and one operator may add in any order; of one float, that the sign of its zero is kept. None
    of two, which leave no such choice, and of integers."""
    operands = node.operands()
    if len(operands) == 2 or not tensor(operands[0]).dtype.is_float:
        return None
    whole = tensor(variadic("add", node)).shape  # as broadcasting leaves it
    rows = [node.shaped(node.stretched(x, whole), (1, *whole)) for x in operands]
    return node.call(op, rows[0] if len(rows) == 1 else node.call("concat", *rows, axis=0), axis=(0,))


def clip(node: Node) -> Expr:
    """min(max(x, low), high). A bound that is left out is the least or the greatest finite number of the dtype.

    Bounds are attributes before version 11, scalars since. A bound that is only known at run time is applied as such.
    """
    x = node[0]
    of = tensor(x).dtype
    low, high = of.min, of.max
    if "min" in node.attrs:
        given_low, given_high = node.attrs["min"], node.attrs["max"]
        low = low if given_low is None else max(low, given_low)
        high = high if given_high is None else min(high, given_high)
        return node.call("clip", x, min=low, max=high)
    bounds = [node[i] if node.has(i) else None for i in (1, 2)]
    for i, b in enumerate(bounds, start=1):
        if b is not None and not all(isinstance(d, int) and d == 1 for d in tensor(b).shape):
            raise node.wrong(f"operand {node.schema.operand(i).name} is {b.type}; a scalar is wanted")
    known = [node.scalar(i) for i in (1, 2)]
    if all(b is None or k is not None for b, k in zip(bounds, known, strict=True)):
        low, high = (d if k is None else k for k, d in zip(known, (low, high), strict=True))
        return node.call("clip", x, min=low, max=high)
    for op, b, default in zip(("maximum", "minimum"), bounds, (low, high), strict=True):
        x = node.call(op, x, default if b is None else node.shaped(b, ()))
    return x


TABLE: dict[str, Rule] = {
    **{op.onnx: partial(_itself, op) for op in OPERATORS.values() if op.onnx},
    "BitShift": bit_shift,
    "Clip": clip,
    "Div": divide,
    "IsInf": is_infinite,
    "IsNaN": lambda node: node.call("not_equal", node[0], node[0]),
    "Max": partial(variadic, "maximum"),
    "Mean": mean,
    "Min": partial(variadic, "minimum"),
    "Mod": modulo,
    "Pow": power,
    "Sum": lambda node: _any_order("sum", node) or variadic("add", node),
    "Where": lambda node: node.call("where", node[0], node[1], node[2]),
}
