"""Quantisation in programs of PyTorch, `torch.ops.quantized_decomposed` (specs/lower.md, "torch.export").

PyTorch: torch/ao/quantization/fx/_decomposed.py, whose functions are what these operators mean: a number is multiplied
by the reciprocal of its scale, rounded to the nearest even whole number and moved by the zero point. Scales that are
tensors of one element are read as Python's floats.
"""

from __future__ import annotations

from assay.lower.frontends.torch_export.node import AtenNode, AtenRule, aten_type
from assay.lower.frontends.torch_export.operators.arithmetic import larger_of, smallest
from assay.lower.frontends.torch_export.operators.elementwise import constant_like
from assay.semantics.dtypes import FLOAT32, FLOAT64, INT64, DType
from assay.semantics.graph import Expr


def quantize(node: AtenNode) -> Expr:
    """A tensor in whole numbers, by one scale and zero point."""
    x = _float32(node)
    scale = node.operand("scale")
    reciprocal = node.call("divide", node.constant(1, FLOAT64), _one(node, node.as_tensor(scale, FLOAT64), "scale"))
    return _quantized(node, x, node.cast(reciprocal, FLOAT32), _zero_point(node, FLOAT32))


def quantize_channels(node: AtenNode) -> Expr:
    """A tensor in whole numbers, by a scale and a zero point for each place of an axis."""
    x = _float32(node)
    scales, zeros = (_along(node, n, x) for n in ("scales", "zero_points"))
    reciprocal = node.call("divide", node.constant(1, aten_type(scales).dtype), scales)
    return _quantized(node, x, reciprocal, zeros)


def _quantized(node: AtenNode, x: Expr, reciprocal: Expr, zero: Expr) -> Expr:
    y = node.call("round", node.call("multiply", *node.together(x, reciprocal)))
    y = node.call("add", *node.together(y, zero))
    ends = (node.as_tensor(node.operand(n), aten_type(y).dtype) for n in ("quant_min", "quant_max"))
    least, most = (_one(node, end, "an end of the range") for end in ends)
    return node.cast(smallest(node, larger_of(node, y, least), most), node.dtype())


def dequantize(node: AtenNode) -> Expr:
    """A tensor of whole numbers as what they stand for, by one scale and zero point."""
    x, to = _stored(node), _out(node)
    scale = _one(node, node.as_tensor(node.operand("scale"), FLOAT64), "scale")
    work = FLOAT32 if to.bits < 32 else to
    # each step is rounded to the result's dtype, as that of one operator after another is
    moved = node.cast(node.call("subtract", node.cast(node.cast(x, to), work), _zero_point(node, work)), to)
    return node.cast(node.call("multiply", node.cast(moved, work), node.cast(scale, work)), to)


def dequantize_channels(node: AtenNode) -> Expr:
    """A tensor of whole numbers as what they stand for, by a scale and a zero point for each place of an axis."""
    x = _stored(node)
    if node.has("zero_points"):
        x = node.call("subtract", *node.together(x, _along(node, "zero_points", x)))
    return node.cast(node.call("multiply", *node.together(x, _along(node, "scales", x))), _out(node))


def _float32(node: AtenNode) -> Expr:
    x = node.work(node.tensor("input"))
    if aten_type(x).dtype is not FLOAT32:
        raise node.wrong(f"input is {x.type}; float32, float16 or bfloat16 is wanted")
    return x


def _stored(node: AtenNode) -> Expr:
    x = node.tensor("input")
    if aten_type(x).dtype is not node.dtype() or not aten_type(x).dtype.is_integer:
        raise node.wrong(f"input is {x.type}, and dtype is {node.dtype().name}; one kind of whole numbers is wanted")
    return x


def _out(node: AtenNode) -> DType:
    return node.result().dtype if node.has("out_dtype") else FLOAT32


def _one(node: AtenNode, x: Expr, name: str) -> Expr:
    if any(d != 1 for d in aten_type(x).shape):
        raise node.wrong(f"{name} is {x.type}; one element is wanted")
    return node.shaped(x)


def _zero_point(node: AtenNode, of: DType) -> Expr:
    return node.cast(_one(node, node.as_tensor(node.operand("zero_point"), INT64), "zero_point"), of)


def _along(node: AtenNode, name: str, x: Expr) -> Expr:
    of, v = aten_type(x), node.tensor(name)
    axis = node.axis(of.ndim, "axis")
    if aten_type(v).ndim != 1:
        raise node.wrong(f"{name} is {v.type}; a vector is wanted")
    return node.along(v, axis, of.ndim)


# --- both in one


def fake_quantize(node: AtenNode) -> Expr | list[Expr]:
    """What a tensor is after it was whole numbers of a range; and where it was inside of it. NaN is the least."""
    if node.has("fake_quant_enabled"):
        raise node.unsupported("fake_quant_enabled")
    x = node.tensor()
    scale, zero = (node.shaped(node.as_tensor(node.operand(n), FLOAT32)) for n in ("scale", "zero_point"))
    y = node.call("add", _steps(node, x, scale), zero)
    return _faked(node, y, scale, zero)


def fake_quantize_channels(node: AtenNode) -> Expr | list[Expr]:
    """The same, by a scale and a zero point for each place of an axis. What int64 does not have becomes anything, as in
    C."""
    x = node.tensor()
    if not aten_type(node.tensor("zero_point")).dtype.is_integer:
        raise node.unsupported("zero points that are floats")
    scale, zero = (node.cast(_along(node, n, x), FLOAT32) for n in ("scale", "zero_point"))
    y = node.cast(node.call("add", _steps(node, x, scale), zero), INT64)
    return _faked(node, node.cast(y, FLOAT32), scale, zero)


def _steps(node: AtenNode, x: Expr, scale: Expr) -> Expr:
    """How many steps of the scale."""
    if aten_type(x).dtype is not FLOAT32:
        raise node.unsupported(f"elements of {aten_type(x).dtype}")
    return node.call("round", node.call("multiply", x, node.call("divide", node.constant(1, FLOAT32), scale)))


def _faked(node: AtenNode, y: Expr, scale: Expr, zero: Expr) -> Expr | list[Expr]:
    least, most = node.number("quant_min"), node.number("quant_max")
    number = node.call("equal", y, y)
    inside = node.call("logical_and", node.call("greater_equal", y, least), node.call("less_equal", y, most))
    held = node.call("where", number, node.call("clip", y, min=least, max=most), constant_like(node, least, y))
    made = node.call("multiply", node.call("subtract", held, zero), scale)
    return [made, inside] if "cachemask" in node.name else made


FAKE: dict[str, AtenRule] = {
    "fake_quantize_per_tensor_affine": fake_quantize,
    "fake_quantize_per_tensor_affine_cachemask": fake_quantize,
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": fake_quantize,
    "fake_quantize_per_channel_affine": fake_quantize_channels,
    "fake_quantize_per_channel_affine_cachemask": fake_quantize_channels,
}
"""Operators of ATen."""

TABLE: dict[str, AtenRule] = {
    "quantize_per_tensor": quantize,
    "dequantize_per_tensor": dequantize,
    "quantize_per_channel": quantize_channels,
    "dequantize_per_channel": dequantize_channels,
}
