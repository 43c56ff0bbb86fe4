"""Padding of ONNX (specs/lower.md, "Import").

Widths in numbers are those of our operator. Others are sizes: parts that hold the constant are joined before and after
each axis, and every other mode takes elements by their places.
"""

from __future__ import annotations

from collections.abc import Sequence

from assay.lower.frontends.onnx.node import Node, Rule, tensor
from assay.lower.frontends.onnx.terms import folded
from assay.semantics.composed.terms import Term, line
from assay.semantics.dtypes import BOOL, INT64
from assay.semantics.graph import Expr
from assay.semantics.ops.sizes import larger, never_negative
from assay.semantics.scalar import Dim, show, simplify


def pad(node: Node) -> Expr:
    """Attributes before version 11, operands since; `axes` since 18, mode wrap since 19."""
    x = tensor(node[0])
    if "pads" in node.attrs or "paddings" in node.attrs:
        widths: tuple[Dim, ...] = node.attrs["paddings"] if node.version == 1 else node.attrs["pads"]
        axes = tuple(range(x.ndim))
        if node.version == 1 and any(isinstance(w, int) and w < 0 for w in widths):
            raise node.wrong(f"paddings is {widths}; numbers of at least 0 are wanted before operator set 2")
    else:
        widths = node.dims(1)
        axes = node.axes(x.ndim, node.ints(3)) if node.has(3) else tuple(range(x.ndim))
    if len(widths) != 2 * len(axes):
        shown = ", ".join(map(show, widths))
        raise node.wrong(f"pads is {shown}; {2 * len(axes)} numbers are wanted: before each axis, then after each")
    before: list[Dim] = [0] * x.ndim
    after: list[Dim] = [0] * x.ndim
    for i, a in enumerate(axes):
        before[a], after[a] = widths[i], widths[i + len(axes)]
    mode = node.attrs["mode"]
    if mode not in ("constant", "reflect", "edge") and not (mode == "wrap" and node.version >= 19):
        raise node.wrong(f"mode is {mode!r}; constant, reflect or edge is wanted, or wrap since operator set 19")
    _require_sizes(node, before, after)
    numbers = [w for w in (*before, *after) if isinstance(w, int)]
    if mode != "wrap" and len(numbers) == 2 * x.ndim:
        return _by_numbers(node, tuple(numbers), mode)
    made = node[0]
    for a, (b, e) in enumerate(zip(before, after, strict=True)):
        if not (isinstance(b, int) and isinstance(e, int) and b == e == 0):
            made = _joined(node, made, a, b, e) if mode == "constant" else _taken(node, made, a, b, e, mode)
    return made


def _require_sizes(node: Node, before: Sequence[Dim], after: Sequence[Dim]) -> None:
    """Invalid (onnx.C12) where an axis would have a size below 0, or has no element to repeat."""
    for a, (b, e, size) in enumerate(zip(before, after, tensor(node[0]).shape, strict=True)):
        whole = simplify(size + b + e)
        wraps = node.attrs["mode"] == "wrap" and (b, e) != (0, 0)
        if wraps and isinstance(whole, int) and (whole < 0 or (isinstance(size, int) and size == 0)):
            raise node.wrong(f"axis {a} of {tensor(node[0])} cannot be wrapped to {whole} elements")


def _value(node: Node) -> Expr | float:
    """What stands where there is no element: a number, or the operand that says it when the model runs."""
    if "value" in node.attrs:
        given: float = node.attrs["value"]
        return given
    known = node.scalar(2) if node.has(2) else 0
    return node.shaped(node[2], ()) if known is None else known


def _by_numbers(node: Node, width: tuple[int, ...], mode: str) -> Expr:
    """Our own operator."""
    value = _value(node) if mode == "constant" else 0
    if not isinstance(value, Expr):
        return node.call("nn.pad", node[0], pad_width=width, mode=mode, pad_value=value)
    inside = node.full(tensor(node[0]).shape, True, BOOL)  # the value stands where there is no element
    inside = node.call("nn.pad", inside, pad_width=width, mode=mode, pad_value=False)
    zeros = node.call("nn.pad", node[0], pad_width=width, mode=mode, pad_value=0)
    return node.call("where", inside, zeros, value)


def _joined(node: Node, x: Expr, axis: int, before: Dim, after: Dim) -> Expr:
    """One axis between parts that hold the constant; a width below 0 cuts elements off."""
    begin, end = (larger(simplify(0 - w), 0) for w in (before, after))
    if (begin, end) != (0, 0):
        size = tensor(x).shape[axis]
        x = node.call("strided_slice", x, axes=(axis,), begin=(begin,), end=(simplify(size - end),), strides=(1,))
    value, of = _value(node), tensor(x).dtype
    parts: list[Expr] = []
    for width in (larger(before, 0), None, larger(after, 0)):
        if width is None:
            parts.append(x)
        elif not isinstance(width, int) or width:
            shape = tuple(width if a == axis else d for a, d in enumerate(tensor(x).shape))
            if isinstance(value, Expr):
                parts.append(node.call("broadcast_to", value, shape=shape))
            else:
                parts.append(node.full(shape, value, of))
    return node.call("concat", *parts, axis=axis) if len(parts) > 1 else x


def _taken(node: Node, x: Expr, axis: int, before: Dim, after: Dim, mode: str) -> Expr:
    """One axis by the places of the elements that stand there: those of the operand go on beyond its ends."""
    size = tensor(x).shape[axis]
    place = line(node, simplify(size + before + after), INT64) - _number(node, before)
    last = _number(node, size) - 1
    match mode:
        case "edge":
            place = place.at_least(0).at_most(last)
        case "wrap":
            place = _modulo(place, _number(node, size))
        case _:  # there and back again
            place = last - abs(last - _modulo(place, (last * 2).at_least(1)))
    return node.call("take", x, folded(node, place).expr, axis=axis)


def _modulo(place: Term, period: Term) -> Term:
    return place - place.divided(period) * period


def _number(node: Node, width: Dim) -> Term:
    """A size, or a width that may be below 0, as an int64."""
    if isinstance(width, int):
        return Term(node, node.constant(width, INT64))
    if not never_negative(width):
        return _number(node, larger(width, 0)) - _number(node, larger(simplify(-width), 0))
    shape = node.call("shape_of", line(node, width, INT64).expr)
    return Term(node, node.pick(shape, 0, 0))


TABLE: dict[str, Rule] = {"Pad": pad}
