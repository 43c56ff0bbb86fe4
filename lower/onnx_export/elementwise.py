"""Elementwise operators as ONNX (specs/lower.md, "Export")."""

from __future__ import annotations

import numpy as np

from assay.lower.onnx_export.use import ExportedCall, Rule
from assay.lower.onnx_export.writer import Value, accepts, element_type_number
from assay.semantics.dtypes import BOOL, DTYPES, UINT8, dtype
from assay.semantics.operator import Operator
from assay.semantics.ops import OPERATORS

LOGIC = {"maximum": "Or", "minimum": "And"}
"""The order of bools, where ONNX has none."""


def _itself(op: Operator) -> Rule:
    """An operator that ONNX has too."""

    def rule(use: ExportedCall) -> Value:
        name = LOGIC.get(use.name, op.onnx) if use.dtype is BOOL else op.onnx
        return use.carried(name, *use.args, of=BOOL if use.type.dtype is BOOL else None)

    return rule


def negative(use: ExportedCall) -> Value:
    """ONNX negates signed numbers only."""
    if use.dtype.kind == "uint":
        return use.carried("Sub", use.number(0), *use.args)
    return use.carried("Neg", *use.args)


def floor_divide(use: ExportedCall) -> Value:
    """The quotient rounded to zero, less one where there is a rest and it has not the sign of the divisor."""
    a, b = use.args
    if use.dtype.is_float:
        raise use.unsupported("ONNX has no floored quotient of floats")
    quotient = use.carried("Div", a, b)
    if use.dtype.kind == "uint":
        return quotient
    rest = use.carried("Sub", a, use.carried("Mul", quotient, b))
    zero = use.number(0)
    negative_rest, negative_divisor = (use.carried("Less", x, zero, of=BOOL) for x in (rest, b))
    some = use.op("Not", use.carried("Equal", rest, zero, of=BOOL))
    off = use.op("And", some, use.op("Xor", negative_rest, negative_divisor))
    return use.carried("Sub", quotient, use.cast(off, use.dtype))


def _shift(direction: str) -> Rule:
    """ONNX shifts numbers without a sign. To the right, a negative number is shifted as its complement."""

    def rule(use: ExportedCall) -> Value:
        x, by = use.args
        plain = DTYPES[f"uint{max(8, use.dtype.bits)}"]
        if use.dtype.kind == "uint":
            moved = use.op("BitShift", use.cast(x, plain), use.cast(by, plain), direction=direction)
            return use.cast(moved, use.dtype)
        if direction == "LEFT":
            return use.cast(use.op("BitShift", use.cast(x, plain), use.cast(by, plain), direction=direction), use.dtype)
        if not accepts("BitwiseXor", 0, use.dtype):
            raise use.unsupported(f"ONNX has no bits of {use.dtype}")
        mask = use.op("Where", use.op("Less", x, use.number(0), of=BOOL), use.number(-1), use.number(0), of=use.dtype)
        magnitude = use.cast(use.op("BitwiseXor", x, mask), plain)
        moved = use.op("BitShift", magnitude, use.cast(by, plain), direction=direction)
        return use.op("BitwiseXor", use.cast(moved, use.dtype), mask)

    return rule


def relu(use: ExportedCall) -> Value:
    """Export relu; unsigned integers stay as they are."""
    return use.op("Identity", *use.args) if use.dtype.kind == "uint" else use.carried("Relu", *use.args)


def leakyrelu(use: ExportedCall) -> Value:
    """The slope is an attribute of float32; where the element type has another number, a product."""
    (x,) = use.args
    alpha = use.attrs["alpha"]
    if use.is_single(alpha):
        return use.op("LeakyRelu", x, alpha=float(alpha))
    positive = use.op("GreaterOrEqual", x, use.number(0), of=BOOL)
    return use.op("Where", positive, x, use.op("Mul", use.number(alpha), x), of=use.dtype)


def clip(use: ExportedCall) -> Value:
    """Of a bound that ONNX is not given the largest finite number stands: infinities are said."""
    bounds: list[Value | None] = []
    for name, sign in (("min", -1), ("max", 1)):
        given = use.attrs[name]
        if given is None and not use.dtype.is_float:
            bounds.append(None)
        elif use.dtype.is_float:
            bounds.append(use.number(sign * np.inf if given is None else given))
        else:
            bounds.append(use.number(int(min(max(given, use.dtype.min), use.dtype.max))))
    if accepts("Clip", 0, use.dtype):
        return use.op("Clip", use.args[0], *bounds)
    x = use.args[0]
    for op, bound in zip(("Max", "Min"), bounds, strict=True):
        x = x if bound is None else use.carried(op, x, bound)
    return use.op("Identity", x) if x is use.args[0] else x


def astype(use: ExportedCall) -> Value:
    """Export a cast. Unsupported where ONNX has none, or one that rounds otherwise."""
    to = dtype(use.attrs["dtype"])
    of = use.dtype
    if to is of:
        return use.op("Identity", *use.args)
    if to.name == "float8_e8m0fnu":
        raise use.unsupported("ONNX rounds to float8_e8m0fnu in its own way")
    if of.is_float and to is BOOL and not accepts("Cast", 0, of):
        raise use.unsupported(f"ONNX casts no {of}")
    if to.name.startswith("float8"):
        return use.op("Cast", *use.args, of=to, to=element_type_number(to), saturate=0)
    return use.cast(use.args[0], to)


def reinterpret(use: ExportedCall) -> Value:
    """Export a bit cast. Unsupported to bool, of which only 0 and 1 have a meaning."""
    to = dtype(use.attrs["dtype"])
    if to is use.dtype:
        return use.op("Identity", *use.args)
    if BOOL in (to, use.dtype):
        x = use.cast(use.args[0], UINT8)
        if to is BOOL:
            raise use.unsupported("bits as bool, of which only 0 and 1 have a meaning")
        return x if to is UINT8 else use.op("BitCast", x, of=to, to=element_type_number(to))
    return use.op("BitCast", *use.args, of=to, to=element_type_number(to))


def not_equal(use: ExportedCall) -> Value:
    """Export not_equal as Not of Equal."""
    return use.op("Not", use.carried("Equal", *use.args, of=BOOL))


def where(use: ExportedCall) -> Value:
    """Export where as Where."""
    condition, a, b = use.args
    return use.op("Where", condition, a, b, of=a.dtype)


TABLE: dict[str, Rule] = {
    **{op.name: _itself(op) for op in OPERATORS.values() if op.onnx},
    "astype": astype,
    "clip": clip,
    "floor_divide": floor_divide,
    "fmod": lambda use: use.op("Mod", *use.args, fmod=1),
    "left_shift": _shift("LEFT"),
    "negative": negative,
    "nn.gelu": lambda use: use.op("Gelu", *use.args, approximate="none"),
    "nn.gelu_tanh": lambda use: use.op("Gelu", *use.args, approximate="tanh"),
    "nn.leakyrelu": leakyrelu,
    "nn.relu": relu,
    "not_equal": not_equal,
    "reinterpret": reinterpret,
    "right_shift": _shift("RIGHT"),
    "where": where,
}
