"""Quantization of ONNX as compositions (specs/lower.md, "Import").

Scales and zero points are scalars, or hold a number for each place of an axis, or for each block of an axis. Integers
are multiplied and added in int32, which wraps; the rest is computed in at least float32.
"""

from __future__ import annotations

from collections.abc import Sequence

from assay.lower.frontends.onnx.node import Node, Rule, same_shape, tensor
from assay.lower.frontends.onnx.operators.casts import to_float
from assay.lower.frontends.onnx.operators.contraction import conv
from assay.semantics.dtypes import FLOAT32, FLOAT64, INT32, INT64, UINT8, DType
from assay.semantics.graph import Expr
from assay.semantics.scalar import Dim


def wide(of: DType) -> DType:
    """What sums, quotients and weighted sums of a dtype are computed in: a float of at least 32 bits."""
    return FLOAT64 if of.bits > 16 and of is not FLOAT32 else FLOAT32


# --- granularity --------------------------------------------------------------------------------------------------


def _spread(node: Node, part: Expr, what: str) -> Expr:
    """A scale or a zero point in a shape that broadcasts to the first operand."""
    x, of = tensor(node[0]), tensor(part)
    if of.ndim == 0 or (of.is_static and all(d == 1 for d in of.static_shape)):
        return node.shaped(part, ())
    given = node.attrs.get("axis")
    if given is None:  # until version 10 there is nothing but scalars
        raise node.wrong(f"operand {what} is {of}; a scalar is wanted")
    axis = node.axis(x.ndim, given)
    block = node.attrs.get("block_size") or 0
    if not block:
        if of.ndim != 1 or not same_shape(of.shape, x.shape[axis : axis + 1]):
            raise node.wrong(
                f"operand {what} is {of}, x is {x}; a scalar or a number for each place of axis {axis} is wanted"
            )
        return node.shaped(part, (*of.shape, *(1,) * (x.ndim - 1 - axis)))
    return _blocks(node, part, axis, block, what)


def _blocks(node: Node, part: Expr, axis: int, block: int, what: str) -> Expr:
    """Each number of `axis` repeated `block` times; the last block may be shorter."""
    x, of = tensor(node[0]), tensor(part)
    size = x.shape[axis]
    if not isinstance(size, int):
        raise node.unsupported(f"blocks of axis {axis} of {x}; give its symbolic dim a value")
    wanted = (*x.shape[:axis], -(-size // block), *x.shape[axis + 1 :])
    if block < 0 or not same_shape(of.shape, wanted):
        shape = ", ".join(map(str, wanted))
        raise node.wrong(f"operand {what} is {of}; with blocks of {block} of axis {axis} the shape ({shape}) is wanted")
    count, rest = wanted[axis], wanted[axis + 1 :]
    assert isinstance(count, int)
    column: tuple[Dim, ...] = (*wanted[: axis + 1], 1, *rest)
    repeated = node.call("broadcast_to", node.shaped(part, column), shape=(*wanted[: axis + 1], block, *rest))
    whole = node.shaped(repeated, (*wanted[:axis], count * block, *rest))
    if count * block == size:
        return whole
    return node.call("strided_slice", whole, axes=(axis,), begin=(0,), end=(size,), strides=(1,))


def _zero_point(node: Node, index: int) -> Expr | None:
    return node[index] if node.has(index) else None


# --- one tensor ---------------------------------------------------------------------------------------------------


def quantize(node: Node) -> Expr:
    """x / scale, rounded to even, plus the zero point, within the range of the result's dtype."""
    zero = _zero_point(node, 2)
    to = tensor(zero).dtype if zero is not None else node.dtype("output_dtype", UINT8)
    if (given := node.dtype("output_dtype", to)) is not to:
        raise node.wrong(f"output_dtype is {given}, the zero point is {to}")
    of = node.dtype("precision", tensor(node[1]).dtype)
    if not of.is_float:
        raise node.wrong(f"precision is {of}; a float type is wanted")
    scaled = node.call("divide", node.cast(node[0], of), node.cast(_spread(node, node[1], "y_scale"), of))
    offset = None if zero is None else _spread(node, zero, "y_zero_point")
    if to.is_float:
        if offset is not None:
            scaled = node.call("add", scaled, node.cast(offset, of))
        return to_float(node, scaled, to)
    return saturated(node, scaled, offset, to)


def saturated(node: Node, scaled: Expr, zero: Expr | None, to: DType) -> Expr:
    """`scaled` rounded to even, plus a zero point, as integers of `to`; what is out of range becomes its end."""
    of = wide(tensor(scaled).dtype)
    whole = node.cast(node.call("round", scaled), of)
    if zero is not None:
        whole = node.call("add", whole, node.cast(zero, of))
    return node.cast(node.call("clip", whole, min=to.min, max=to.max), to)


def dequantize(node: Node) -> Expr:
    """(x - zero point) * scale, the difference exact."""
    x, scale = node[0], _spread(node, node[1], "x_scale")
    to = node.dtype("output_dtype", tensor(scale).dtype)
    of = wide(to)
    if (zero := _zero_point(node, 2)) is not None:
        if tensor(zero).dtype is not tensor(x).dtype:
            raise node.wrong(f"x is {tensor(x).dtype}, the zero point is {tensor(zero).dtype}; one dtype is wanted")
        exact = of if tensor(x).dtype.is_float else INT64
        x = node.call("subtract", node.cast(x, exact), node.cast(_spread(node, zero, "x_zero_point"), exact))
    return node.cast(node.call("multiply", node.cast(x, of), node.cast(scale, of)), to)


# --- products -----------------------------------------------------------------------------------------------------


def _shifted(node: Node, x: Expr, zero: Expr | None, axis: int) -> Expr:
    """x less its zero point, in int32; a vector of zero points goes along `axis`, counted from the end."""
    whole = node.cast(x, INT32)
    if zero is None:
        return whole
    return node.call("subtract", whole, node.cast(_along(node, zero, axis), INT32))


def _along(node: Node, part: Expr, axis: int) -> Expr:
    of = tensor(part)
    return node.shaped(part, (*of.shape, *(1,) * (-1 - axis))) if of.ndim == 1 else part


def matmul_integer(node: Node) -> Expr:
    """Translate MatMulInteger: the product of the operands less their zero points, int32."""
    a = _shifted(node, node[0], _zero_point(node, 2), -2)
    b = _shifted(node, node[1], _zero_point(node, 3), -1)
    return node.call("matmul", a, b)


def qlinear_matmul(node: Node) -> Expr:
    """The product of integers, times a_scale * b_scale / y_scale, rounded to even, plus the zero point of y."""
    a = _shifted(node, node[0], node[2], -2)
    b = _shifted(node, node[3], node[5], -1)
    scales = [_along(node, node[i], axis) for i, axis in ((1, -2), (4, -1), (6, -2))]
    total = node.call("matmul", a, b)
    return _rescaled(node, total, scales, _along(node, node[7], -2), tensor(node[7]).dtype)


def _rescaled(node: Node, total: Expr, scales: Sequence[Expr], zero: Expr, to: DType) -> Expr:
    one, other, last = (node.cast(s, wide(tensor(s).dtype)) for s in scales)
    factor = node.call("divide", node.call("multiply", one, other), last)
    return saturated(node, node.call("multiply", node.cast(total, tensor(factor).dtype), factor), zero, to)


def _integer_conv(node: Node, x: Expr, w: Expr, x_zero: Expr | None, w_zero: Expr | None) -> Expr:
    """The convolution of int32 numbers; padding stands for the zero point, which is 0 by then."""
    rank = tensor(x).ndim
    scalar = x_zero if x_zero is None else node.shaped(x_zero, ())
    return conv(node.with_(inputs=(_shifted(node, x, scalar, -1), _shifted(node, w, w_zero, -rank))))


def conv_integer(node: Node) -> Expr:
    """Translate ConvInteger: the convolution of the operands less their zero points, int32."""
    return _integer_conv(node, node[0], node[1], _zero_point(node, 2), _zero_point(node, 3))


def qlinear_conv(node: Node) -> Expr:
    """As QLinearMatMul; weights may have a scale for each output channel, and a bias is added in int32."""
    total = _integer_conv(node, node[0], node[3], node[2], node[5])
    rank = tensor(total).ndim
    if node.has(8):
        total = node.call("add", total, _along(node, node[8], 1 - rank))
    scales = [node.shaped(node[1], ()), _along(node, node[4], 1 - rank), node.shaped(node[6], ())]
    return _rescaled(node, total, scales, node.shaped(node[7], ()), tensor(node[7]).dtype)


TABLE: dict[str, Rule] = {
    "ConvInteger": conv_integer,
    "DequantizeLinear": dequantize,
    "MatMulInteger": matmul_integer,
    "QLinearConv": qlinear_conv,
    "QLinearMatMul": qlinear_matmul,
    "QuantizeLinear": quantize,
}
