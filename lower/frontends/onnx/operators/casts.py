"""Conversions between element types (specs/lower.md, "Import").

What the documentation leaves open: a float that an integer of fewer than 8 bits cannot hold is wrapped, as by way of
int32; one that a wider integer cannot hold is open (rule M9.9).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from assay.lower.frontends.onnx.node import Node, Rule, tensor
from assay.lower.frontends.onnx.operators.strings import STRINGS
from assay.lower.frontends.onnx.tensors import dtype_named
from assay.semantics.dtypes import BOOL, FLOAT32, FLOAT64, INT32, INT64, UINT8, DType
from assay.semantics.graph import Expr

SATURATING = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")


def cast(node: Node) -> Expr:
    """Translate Cast: to text, or to the dtype of the attribute `to`."""
    to = node.attrs["to"]
    if to in (TensorProto.STRING, "STRING"):
        return to_text(node)
    return cast_value(node, node[0], dtype_named(to, f"{node}: to") if isinstance(to, str) else node.dtype("to"))


def to_text(node: Node) -> Expr:
    """Numbers as text, at import: floats in plain representation with the fewest digits that tell them apart, and the
    literals NaN, INF and -INF; bool as 1 and 0, as in a cast to a number."""
    of, strings = tensor(node[0]).dtype, node.strings
    given = node.known(0, decides=STRINGS)
    if of.is_float and given.size:
        node.leaves_open("how a float is written, of which several plain representations are read back as it")
    plain = given.reshape(-1)
    texts = [_text(x) for x in plain] if of.is_float else [str(int(x)) for x in plain]
    return node.text(node.constant(strings.numbers(np.array(texts, object).reshape(given.shape)), INT64))


def _text(x: Any) -> str:
    if np.isnan(x):
        return "NaN"
    if np.isinf(x):
        return "INF" if x > 0 else "-INF"
    exact = np.float64(x) if not isinstance(x, (np.float16, np.float32)) else x  # NumPy prints no other type
    return np.format_float_positional(exact, unique=True, trim="0")


def cast_value(node: Node, x: Expr, to: DType) -> Expr:
    """Convert x to a dtype by ONNX's rules for float8 scales, saturation and 4-bit integers."""
    of = tensor(x).dtype
    if of is to:
        return x
    if to.name == "float8_e8m0fnu":
        return _to_scale(node, x)
    if to.name in SATURATING:
        return to_float(node, x, to)
    if of.is_float and to.is_integer and to.bits < 8:
        x = node.cast(x, INT32)
    return node.cast(x, to)


def to_float(node: Node, x: Expr, to: DType) -> Expr:
    """A number that is too large for a float8 becomes its largest, unless `saturate` is 0; see the table at Cast.

    There an infinity becomes the largest number too, but NaN until version 23 in the types without negative zero.
    """
    of = tensor(x).dtype
    if to.name not in SATURATING or of is to or not node.attrs.get("saturate", 1):
        return node.cast(x, to)
    # a float8 cannot hold another's largest number, an integer dtype may not
    x = node.cast(x, FLOAT64) if not of.is_float else node.cast(x, FLOAT32) if of.bits < 16 else x
    clipped = node.call("clip", x, min=to.min, max=to.max)
    if to.name.endswith("fnuz") and node.version < 24:
        clipped = node.call("where", node.call("equal", node.call("abs", x), float("inf")), x, clipped)
    return node.cast(clipped, to)


def _to_scale(node: Node, x: Expr) -> Expr:
    """A float32 as a power of two, by its exponent; `round_mode` says which of the two around it. The sign is dropped.

    Out of range it becomes the end of the range, or NaN where `saturate` is 0.
    """
    mode = node.choice("round_mode", "up", "down", "nearest") if node.attrs.get("round_mode") else "up"
    saturate = node.attrs.get("saturate", 1)

    def over(a: Expr, least: int) -> Expr:
        return node.cast(node.call("greater_equal", a, least), INT32)

    bits = node.call("reinterpret", node.cast(x, FLOAT32), dtype="int32")
    bits = node.call("bitwise_and", bits, 0x7FFFFFFF)
    exponent = node.call("right_shift", bits, 23)
    mantissa = node.call("bitwise_and", bits, 0x7FFFFF)
    # below the normal numbers the exponent 0 stands for 2**-127, half of what the exponent 1 stands for
    if mode == "down":
        rounded = exponent
    else:
        normal, below = (1, 0x400001) if mode == "up" else (0x400000, 0x600000)
        low = node.call("equal", exponent, 0)
        rounded = node.call("add", exponent, node.call("where", low, over(mantissa, below), over(mantissa, normal)))
    rounded = node.call("where", node.call("greater_equal", rounded, 255), 254 if saturate else 255, rounded)
    if not saturate:
        rounded = node.call("where", node.call("less", bits, 0x400000), 255, rounded)
    rounded = node.call("where", node.call("greater", bits, 0x7F800000), 255, rounded)
    return node.call("reinterpret", node.cast(rounded, UINT8), dtype="float8_e8m0fnu")


def bit_cast(node: Node) -> Expr:
    """The bits under another type of the same width; a bool is a byte that holds 0 or 1."""
    of, to = tensor(node[0]).dtype, node.dtype("to")
    if of.itemsize != to.itemsize or (of.bits < 8) != (to.bits < 8) and BOOL not in (of, to):
        raise node.wrong(f"{of} and {to} are not of one width")
    if of is to:
        return node[0]
    if to is BOOL:
        raise node.unsupported("bits as bool, of which only 0 and 1 have a meaning")
    x = node.cast(node[0], UINT8) if of is BOOL else node[0]
    return node.call("reinterpret", x, dtype=to.name)


TABLE: dict[str, Rule] = {
    "BitCast": bit_cast,
    "Cast": cast,
    "CastLike": lambda node: cast_value(node, node[0], tensor(node[1]).dtype),
}
