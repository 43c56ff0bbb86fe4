"""Quantised elements of StableHLO (specs/lower.md, "StableHLO").

A quantised tensor is its storage. An operation on one is done on the numbers that it stands for, and quantised again,
as the specification's `dequantize_op_quantize` says; what only moves elements moves the storage.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any

import numpy as np

from assay.lower.frontends.stablehlo.node import HloNode, HloRule, tensor_of
from assay.lower.frontends.stablehlo.syntax import QuantizedElement, TensorText, TypeText
from assay.semantics.graph import Expr
from assay.semantics.tasks import Task

ON_STORAGE = {
    "stablehlo.bitcast_convert", "stablehlo.broadcast_in_dim", "stablehlo.concatenate", "stablehlo.constant",
    "stablehlo.dynamic_broadcast_in_dim", "stablehlo.dynamic_reshape", "stablehlo.dynamic_slice",
    "stablehlo.dynamic_update_slice", "stablehlo.gather", "stablehlo.get_dimension_size", "stablehlo.reshape",
    "stablehlo.reverse", "stablehlo.select", "stablehlo.slice", "stablehlo.transpose", "stablehlo.uniform_dequantize",
    "stablehlo.uniform_quantize", "func.call", "stablehlo.tuple", "stablehlo.get_tuple_element",
    "stablehlo.optimization_barrier", "stablehlo.composite",
}  # fmt: skip
"""The operations that are done on the storage, or know themselves what is quantised."""


def quantization(of: TypeText) -> QuantizedElement | None:
    """How a type's elements are quantised, if they are."""
    return of.element if isinstance(of, TensorText) and isinstance(of.element, QuantizedElement) else None


def in_expressed(node: HloNode, rule: HloRule) -> Any:
    """What a rule gives; of quantised operands and results by way of the numbers that they stand for."""
    if node.op.name in ON_STORAGE or not any(map(quantization, (*node.arg_types, *node.op.types))):
        return rule(node)
    return _in_expressed(node, rule)


def _in_expressed(node: HloNode, rule: HloRule) -> Task[list[Expr]]:
    args, types = [], []
    for x, of in zip(node.args, node.arg_types, strict=True):
        q = quantization(of)
        args.append(x if q is None else dequantized(node, x, q))
        types.append(of if q is None else expressed(of, q))
    results = [of if (q := quantization(of)) is None else expressed(of, q) for of in node.op.types]
    inner = replace(node, op=replace(node.op, types=results), args=args, arg_types=types)
    made = rule(inner)
    if isinstance(made, Generator):
        made = yield made
    found = [made] if isinstance(made, Expr) else list(made)
    pairs = zip(found, node.op.types, strict=True)
    return [y if (q := quantization(of)) is None else quantized(node, y, q) for y, of in pairs]


def expressed(of: TypeText, q: QuantizedElement) -> TypeText:
    """The type of the numbers that a quantised tensor stands for."""
    assert isinstance(of, TensorText)
    return TensorText(of.shape, q.expressed, of.bounds)


def _along(node: HloNode, x: Expr, values: tuple[float, ...], q: QuantizedElement) -> Expr:
    """Scales or zero points, along the axis that they belong to."""
    if q.axis is None:
        return node.constant(values[0], q.expressed)
    shape = tensor_of(x).shape
    if not 0 <= q.axis < len(shape) or shape[q.axis] != len(values):
        raise node.wrong(f"{len(values)} scales along axis {q.axis} of {x.type}")
    return node.constant(np.reshape(values, [-1 if a == q.axis else 1 for a in range(len(shape))]), q.expressed)


def dequantized(node: HloNode, x: Expr, q: QuantizedElement) -> Expr:
    """(x - zero point) * scale, in the expressed type."""
    number = node.call("subtract", node.cast(x, q.expressed), _along(node, x, q.zero_points, q))
    return node.call("multiply", number, _along(node, x, q.scales, q))


def quantized(node: HloNode, x: Expr, q: QuantizedElement) -> Expr:
    """x / scale rounded to nearest, halves to even, plus the zero point, kept within the storage's numbers."""
    number = node.call("round", node.call("divide", x, _along(node, x, q.scales, q)))
    number = node.call("add", number, _along(node, x, q.zero_points, q))
    number = node.call("minimum", node.call("maximum", number, float(q.low)), float(q.high))
    return node.cast(number, q.storage)


def uniform_quantize(node: HloNode) -> Expr:
    """Numbers, or elements that are quantised in another way, quantised."""
    node.operands(1)
    to, of = quantization(node.op.types[0]), node.quantized(0)
    if to is None:
        raise node.wrong("the result is quantised")
    x = node.args[0] if of is None else dequantized(node, node.args[0], of)
    return quantized(node, node.cast(x, to.expressed), to)


def uniform_dequantize(node: HloNode) -> Expr:
    """The numbers that quantised elements stand for."""
    node.operands(1)
    of = node.quantized(0)
    if of is None:
        raise node.wrong("the operand is quantised")
    return dequantized(node, node.args[0], of)


TABLE: dict[str, HloRule] = {
    "stablehlo.uniform_dequantize": uniform_dequantize,
    "stablehlo.uniform_quantize": uniform_quantize,
}
