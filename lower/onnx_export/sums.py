"""Contractions, reductions, running sums, pools and normalizations as ONNX (specs/lower.md, "Export")."""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.lower.onnx_export.use import ExportedCall, Results, Rule
from assay.lower.onnx_export.writer import Value, accepts
from assay.semantics.dtypes import FLOAT32, FLOAT64, INT32, INT64

# --- contractions -------------------------------------------------------------------------------------------------


def conv(use: ExportedCall) -> Value:
    """Of bytes, the integer operator: its sums have 32 bits, of which the lowest are kept."""
    attrs: dict[str, Any] = {
        "strides": use.attrs["strides"], "pads": use.attrs["padding"], "dilations": use.attrs["dilation"],
        "group": use.attrs["groups"],
    }  # fmt: skip
    if accepts("Conv", 0, use.dtype):
        return use.op("Conv", *use.args, **attrs)
    if not accepts("ConvInteger", 0, use.dtype):
        raise use.unsupported(f"ONNX has no convolution of {use.dtype}")
    made = use.op("ConvInteger", *use.args[:2], of=INT32, **attrs)
    if len(use.args) > 2:
        line = use.shaped(use.cast(use.args[2], INT32), (-1, *(1,) * (use.rank - 2)))
        made = use.op("Add", made, line)
    return use.cast(made, use.dtype)


# --- reductions ---------------------------------------------------------------------------------------------------


def _reduced(op: str) -> Rule:
    def rule(use: ExportedCall) -> Value:
        axes = use.attrs["axis"]
        keep = int(bool(use.attrs["keepdims"]))
        if (axes == () or not use.rank) and (accepts(op, 0, use.dtype) or use.dtype.is_integer):
            return use.op("Identity", *use.args)
        places = tuple(range(use.rank)) if axes is None else tuple(a % use.rank for a in axes)
        return use.carried(op, use.args[0], use.ints(places), keepdims=keep)

    return rule


def _running(op: str) -> Rule:
    def rule(use: ExportedCall) -> Value:
        flags: dict[str, Any] = {name: int(bool(use.attrs[name])) for name in ("exclusive", "reverse")}
        return use.carried(op, use.args[0], use.number(use.axis(), INT64), **flags)

    return rule


def topk(use: ExportedCall) -> Results:
    """Export topk as TopK: values in the operand's dtype, and int64 places."""
    x = use.args[0]
    wide = x.dtype if accepts("TopK", 0, x.dtype) or x.dtype.is_float else INT32
    k = use.dims((use.attrs["k"],))
    values, places = use.ops(
        "TopK",
        use.cast(x, wide),
        k,
        of=[wide, INT64],
        axis=use.axis(),
        largest=int(use.attrs["largest"]),
        sorted=int(use.attrs["sorted"]),
    )
    return use.cast(values, x.dtype), places


# --- pools --------------------------------------------------------------------------------------------------------


def _windows(use: ExportedCall) -> dict[str, Any]:
    return {
        "kernel_shape": use.attrs["pool_size"], "strides": use.attrs["strides"], "pads": use.attrs["padding"],
        "dilations": use.attrs["dilation"], "ceil_mode": int(bool(use.attrs["ceil_mode"])),
    }  # fmt: skip


def max_pool(use: ExportedCall) -> Value:
    """Integers that ONNX does not pool go through float64, which holds them."""
    attrs = _windows(use)
    if accepts("MaxPool", 0, use.dtype) or use.dtype.is_float:
        return use.op("MaxPool", *use.args, **attrs)
    if use.dtype.bits > 32:
        raise use.unsupported(f"ONNX has no pool of {use.dtype}")
    return use.cast(use.op("MaxPool", use.cast(use.args[0], FLOAT64), **attrs), use.dtype)


def average_pool(use: ExportedCall) -> Value:
    """Export avg_pool as AveragePool."""
    return use.op("AveragePool", *use.args, **_windows(use), count_include_pad=int(use.attrs["count_include_pad"]))


# --- normalizations -----------------------------------------------------------------------------------------------


def batch_norm(use: ExportedCall) -> Value:
    """ONNX has the channels in axis 1 and epsilon as float32; what it cannot say is said by its formula."""
    x, gamma, beta, average, variance = use.args
    axis, rank, epsilon = use.axis(), use.rank, use.attrs["epsilon"]
    if use.is_single(epsilon):
        order = [a for a in range(rank) if a != axis]
        order.insert(1 if rank > 1 else 0, axis)
        moved = order != list(range(rank))
        if rank == 1:
            x = use.op("Unsqueeze", x, use.ints([0]))
        elif moved:
            x = use.op("Transpose", x, perm=order)
        y = use.op("BatchNormalization", x, gamma, beta, average, variance, epsilon=float(epsilon))
        if rank == 1:
            return use.op("Squeeze", y, use.ints([0]))
        return use.op("Transpose", y, perm=list(np.argsort(order))) if moved else y
    shape = [1] * rank
    shape[axis] = -1
    gamma, beta, average, variance = (use.shaped(v, shape) for v in (gamma, beta, average, variance))
    deviation = use.op("Sqrt", use.op("Add", variance, use.number(epsilon)))
    scaled = use.op("Mul", gamma, use.op("Sub", x, average))
    return use.op("Add", use.op("Div", scaled, deviation), beta)


def layer_norm(use: ExportedCall) -> Value:
    """ONNX computes in float32 or bfloat16; other types by the formula."""
    x, gamma, *beta = use.args
    epsilon, first = use.attrs["epsilon"], use.rank - len(use.attrs["axes"])
    if use.dtype is FLOAT32 and use.is_single(epsilon):
        return use.op("LayerNormalization", x, gamma, *beta, axis=first, epsilon=float(epsilon))
    axes = use.ints(range(first, use.rank))
    centred = use.op("Sub", x, use.op("ReduceMean", x, axes, keepdims=1))
    variance = use.op("ReduceMean", use.op("Mul", centred, centred), axes, keepdims=1)
    deviation = use.op("Sqrt", use.op("Add", variance, use.number(epsilon)))
    y = use.op("Mul", use.op("Div", centred, deviation), gamma)
    return use.op("Add", y, beta[0]) if beta else y


def lrn(use: ExportedCall) -> Value:
    """Its numbers are attributes of float32."""
    numbers: dict[str, Any] = {name: use.attrs[name] for name in ("alpha", "beta", "bias")}
    if not all(map(use.is_single, numbers.values())):
        raise use.unsupported(f"ONNX holds {numbers} as float32, which are other numbers in {use.dtype}")
    singles: dict[str, Any] = {name: float(v) for name, v in numbers.items()}
    return use.op("LRN", *use.args, size=use.attrs["size"], **singles)


def dft(use: ExportedCall) -> Value:
    """Export dft as DFT along the last axis but one; the last one holds real and imaginary parts."""
    flags: dict[str, Any] = {name: int(bool(use.attrs[name])) for name in ("inverse", "onesided")}
    length = use.number(use.attrs["length"], INT64)
    return use.op("DFT", use.args[0], length, use.number(use.rank - 2, INT64), **flags)


def _softmax(op: str) -> Rule:
    return lambda use: use.op(op, *use.args, axis=use.axis())


def _spatial(name: str, rule: Rule) -> dict[str, Rule]:
    return {f"{name}{rank}d": rule for rank in (1, 2, 3)}


TABLE: dict[str, Rule] = {
    **_spatial("nn.conv", conv),
    **_spatial("nn.max_pool", max_pool),
    **_spatial("nn.avg_pool", average_pool),
    "cumprod": _running("CumProd"),
    "cumsum": _running("CumSum"),
    "det": lambda use: use.op("Det", *use.args),
    "dft": dft,
    "matmul": lambda use: use.carried("MatMul", *use.args),
    "max": _reduced("ReduceMax"),
    "mean": _reduced("ReduceMean"),
    "min": _reduced("ReduceMin"),
    "nn.batch_norm": batch_norm,
    "nn.layer_norm": layer_norm,
    "nn.log_softmax": _softmax("LogSoftmax"),
    "nn.lrn": lrn,
    "nn.softmax": _softmax("Softmax"),
    "prod": _reduced("ReduceProd"),
    "sum": _reduced("ReduceSum"),
    "topk": topk,
}
