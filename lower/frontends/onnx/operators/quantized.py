"""Operators of com.microsoft on quantised numbers, as ONNX Runtime's quantiser writes them (specs/lower.md, "Import").

Each is what its documentation says, docs/ContribOperators.md of microsoft/onnxruntime: what the operands stand for,
computed in float32, is quantised again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from assay.lower.frontends.onnx.node import Node, Rule, tensor
from assay.lower.frontends.onnx.operators.composed import standard
from assay.lower.frontends.onnx.operators.pooling import TABLE as POOLING
from assay.lower.frontends.onnx.operators.quantization import dequantize, matmul_integer, qlinear_conv, quantize
from assay.semantics.composed.terms import Term
from assay.semantics.dtypes import FLOAT32, INT32, INT64, UINT8
from assay.semantics.graph import Expr

Array = np.ndarray[Any, Any]


def _meant(node: Node, x: int) -> Expr:
    """What an operand stands for, with its scale and its zero point behind it."""
    zero = node.inputs[x + 2] if node.has(x + 2) else None
    return standard(node, dequantize, "DequantizeLinear", 13, node[x], node[x + 1], zero, axis=1)


def _given(node: Node, made: Expr, scale: int) -> Expr:
    """A float result quantised by a scale and the zero point behind it."""
    zero = node.inputs[scale + 1] if node.has(scale + 1) else None
    if zero is None:
        zero = node.constant(0, tensor(node[0]).dtype)
    return standard(node, quantize, "QuantizeLinear", 13, made, node[scale], zero, axis=1)


def _of_two(op: str) -> Rule:
    """QLinearAdd and QLinearMul."""
    return lambda node: _given(node, node.call(op, _meant(node, 0), _meant(node, 3)), 6)


def _of_one(f: Callable[[Node, Expr], Expr]) -> Rule:
    return lambda node: _given(node, f(node, _meant(node, 0)), 3)


def _leaky(node: Node, x: Expr) -> Expr:
    t = Term(node, x)
    made: Term = (t * node.attrs["alpha"]).chosen(t < 0.0, t)
    return made.expr


def _softmax(node: Node, x: Expr) -> Expr:
    rank = tensor(x).ndim
    if node.attrs["opset"] < 13 and node.axis(rank) != rank - 1:
        raise node.unsupported(f"opset {node.attrs['opset']} and axis {node.attrs['axis']}; the last axis is wanted")
    return node.call("nn.softmax", x, axis=node.axis(rank))


def _pooled(name: str, opset: int) -> Callable[[Node, Expr], Expr]:
    def pool(node: Node, x: Expr) -> Expr:
        if node.attrs["channels_last"]:
            raise node.unsupported("channels_last; 0 is wanted")
        return standard(node, POOLING[name], name, opset, x)

    return pool


def qlinear_concat(node: Node) -> Expr:
    """Translate QLinearConcat: operands in threes, each with its scale and zero point."""
    count = len(node.inputs)
    if count < 5 or count % 3 != 2:
        raise node.wrong(f"{count} operands; 2, and 3 for each tensor, are wanted")
    parts = [_meant(node, x) for x in range(2, count, 3)]
    made = node.call("concat", *parts, axis=node.axis(tensor(parts[0]).ndim))
    return standard(node, quantize, "QuantizeLinear", 13, made, node[0], node[1], axis=1)


def quantize_linear(node: Node) -> Expr:
    """Translate QuantizeLinear of com.microsoft, which is the standard's."""
    return standard(node, quantize, "QuantizeLinear", 21, *node.inputs)


def dequantize_linear(node: Node) -> Expr:
    """Translate DequantizeLinear of com.microsoft, which is the standard's."""
    return standard(node, dequantize, "DequantizeLinear", 21, *node.inputs)


# --- products ---------------------------------------------------------------------------------------------------------


def _column(node: Node, scale: Expr) -> Expr:
    """A scale, or one for each column, to be multiplied with a product."""
    of = tensor(scale)
    return node.shaped(scale, ()) if of.is_static and of.ndim and all(d == 1 for d in of.static_shape) else scale


def _product(node: Node, a: Expr, b: Expr, zeros: tuple[Expr | None, Expr | None]) -> Expr:
    """The product of integers less their zero points, as float32."""
    made = standard(node, matmul_integer, "MatMulInteger", 10, a, b, *zeros)
    return node.cast(made, FLOAT32)


def _optional(node: Node, index: int) -> Expr | None:
    return node.inputs[index] if node.has(index) else None


def matmul_integer_to_float(node: Node) -> Expr:
    """Translate MatMulIntegerToFloat: MatMulInteger times both scales, plus a bias."""
    if tensor(node[2]).dtype is not FLOAT32:
        raise node.unsupported(f"scales of {tensor(node[2]).dtype}; float32 is wanted")
    made = _product(node, node[0], node[1], (_optional(node, 4), _optional(node, 5)))
    scale = node.call("multiply", _column(node, node[2]), _column(node, node[3]))
    made = node.call("multiply", made, scale)
    return node.call("add", made, node[6]) if node.has(6) else made


def dynamic_quantize_matmul(node: Node) -> Expr:
    """Translate DynamicQuantizeMatMul: A quantised to uint8 by its own range as DynamicQuantizeLinear does,
    MatMulInteger, times both scales, plus a bias."""
    x = Term(node, node[0])
    every = tuple(range(x.type.ndim))
    low = Term(node, node.call("min", x.expr, axis=every, keepdims=False)).at_most(0.0)
    high = Term(node, node.call("max", x.expr, axis=every, keepdims=False)).at_least(0.0)
    scale = (high - low) / 255.0
    safe = scale.number(1.0).chosen(scale.equal(0.0), scale)
    zero = Term(node, node.call("clip", (-low / safe).expr, min=0.0, max=255.0)).round()
    # less the zero point at once: where that is just between two numbers either will do, and only at the ends of the
    # range is an element another number of steps then
    above = (x / safe).round()
    less = node.call("minimum", node.call("maximum", above.expr, (-zero).expr), (255.0 - zero).expr)
    made = _product(node, node.cast(less, INT32), node[1], (None, _optional(node, 3)))
    made = node.call("multiply", made, node.call("multiply", safe.expr, _column(node, node[2])))
    return node.call("add", made, node[4]) if node.has(4) else made


def qgemm(node: Node) -> Expr:
    """Translate QGemm: alpha times the product of what A and B stand for, plus C, which counts in units of
    alpha * a_scale * b_scale; quantised where y_scale is given, else float32."""

    def turned(x: Expr, turn: bool) -> Expr:
        return node.call("permute_dims", x, axes=(1, 0)) if turn else x

    a, b = turned(node[0], node.attrs["transA"]), turned(node[3], node.attrs["transB"])
    made = standard(node, matmul_integer, "MatMulInteger", 10, a, b, node[2], node[5])
    made = node.call("add", made, node[6]) if node.has(6) else made
    scale = node.call("multiply", _column(node, node[1]), _column(node, node[4]))
    scale = scale if node.attrs["alpha"] == 1 else node.call("multiply", scale, node.attrs["alpha"])
    made = node.call("multiply", node.cast(made, FLOAT32), scale)
    if not node.has(7):
        return made
    return standard(node, quantize, "QuantizeLinear", 13, made, node[7], _optional(node, 8), axis=1)


def _unpacked(packed: Array, bits: int) -> Array:
    """The numbers of a last axis of bytes, the first in the lowest bits."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    found: Array = (packed[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return found.reshape(*packed.shape[:-1], -1)


def matmul_nbits(node: Node) -> Expr:
    """Translate MatMulNBits: A times B, whose columns stand as rows of blocks of `block_size` numbers of `bits` bits,
    each block with a scale and a zero point, 2^(bits - 1) where none is given."""
    bits, block, columns, rows = (node.attrs[k] for k in ("bits", "block_size", "N", "K"))
    if bits not in (2, 4, 8) or block < 16 or block & (block - 1):
        raise node.wrong(f"bits {bits}, block_size {block}; 2, 4 or 8 bits, and a power of two from 16 on, are wanted")
    if node.has(4) or node.attrs["weight_prepacked"]:
        raise node.unsupported("g_idx, or weights that are packed for one machine")
    if node.attrs["accuracy_level"] > 1:
        raise node.unsupported(
            f"accuracy_level {node.attrs['accuracy_level']}, by which A may be rounded; 0 or 1 is wanted"
        )
    of, count = tensor(node[2]).dtype, -(-rows // block)
    whole = _unpacked(np.asarray(node.known(1, 1 << 30, "which numbers B holds")).reshape(columns, count, -1), bits)
    if whole.shape != (columns, count, block):
        raise node.wrong(f"B is {tensor(node[1])}; {columns} columns of {count} blocks of {block} are wanted")
    exact = node.constant(np.ascontiguousarray(whole).astype(np.int64), INT64)
    less: Expr = node.constant(1 << (bits - 1), INT64)
    if node.has(3) and tensor(node[3]).dtype is UINT8:
        zeros = _unpacked(np.asarray(node.known(3, 1 << 30, "which zero points there are")).reshape(columns, -1), bits)
        less = node.constant(zeros[:, :count, None].astype(np.int64), INT64)
    elif node.has(3):
        raise node.unsupported(f"zero points of {tensor(node[3]).dtype}; uint8 is wanted")
    scales = node.shaped(node[2], (columns, count, 1))
    made = node.call("multiply", node.cast(node.call("subtract", exact, less), of), scales)
    made = node.shaped(made, (columns, count * block))
    if count * block != rows:
        made = node.call("strided_slice", made, axes=(1,), begin=(0,), end=(rows,), strides=(1,))
    made = node.call("matmul", node[0], node.call("permute_dims", made, axes=(1, 0)))
    return node.call("add", made, node[5]) if node.has(5) else made


def _qlinear_where(node: Node) -> Expr:
    return _given(
        node.with_(inputs=(node[1], *node.inputs[1:])), node.call("where", node[0], _meant(node, 1), _meant(node, 4)), 7
    )


def _channels_last(node: Node, x: Expr, back: bool = False) -> Expr:
    """The axis of channels from the last place to the second, or back."""
    rank = tensor(x).ndim
    order = (0, *range(2, rank), 1) if back else (0, rank - 1, *range(1, rank - 1))
    return node.call("permute_dims", x, axes=order)


def _conv(node: Node) -> Expr:
    """Translate QLinearConv of com.microsoft: the standard's, whose picture may have its channels last."""
    last = bool(node.attrs["channels_last"])
    x = _channels_last(node, node[0]) if last else node[0]
    made = standard(node, qlinear_conv, "QLinearConv", 10, x, *node.inputs[1:])
    return _channels_last(node, made, back=True) if last else made


def _nhwc_max_pool(node: Node) -> Expr:
    made = standard(node, POOLING["MaxPool"], "MaxPool", 12, _channels_last(node, node[0]))
    return _channels_last(node, made, back=True)


TABLE: dict[str, Rule] = {
    "NhwcMaxPool": _nhwc_max_pool,
    "QLinearConv": _conv,
    "QLinearWhere": _qlinear_where,
    "DequantizeLinear": dequantize_linear,
    "DynamicQuantizeMatMul": dynamic_quantize_matmul,
    "MatMulIntegerToFloat": matmul_integer_to_float,
    "MatMulNBits": matmul_nbits,
    "QGemm": qgemm,
    "QLinearAdd": _of_two("add"),
    "QLinearAveragePool": _of_one(_pooled("AveragePool", 11)),
    "QLinearConcat": qlinear_concat,
    "QLinearGlobalAveragePool": _of_one(_pooled("GlobalAveragePool", 1)),
    "QLinearLeakyRelu": _of_one(_leaky),
    "QLinearMul": _of_two("multiply"),
    "QLinearSigmoid": _of_one(lambda node, x: node.call("sigmoid", x)),
    "QLinearSoftmax": _of_one(_softmax),
    "QuantizeLinear": quantize_linear,
}
"""Of the domain com.microsoft."""
