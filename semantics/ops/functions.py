"""More elementwise operators: trigonometry, remainders, bits (specs/semantics.md, "Elementwise").

The records are made as in `assay.semantics.ops.elementwise`; the scalar expressions are in
`assay.lower.legalize.kernels.functions`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.semantics.arrays import as_array, by_table, converted
from assay.semantics.bounds import Bounded, whole_division
from assay.semantics.dtypes import BOOL, DTYPES, dtype
from assay.semantics.operator import Attr, Attrs, Operator
from assay.semantics.ops.elementwise import ELEMENTARY, EXACT, FLOAT, Value, binary, documents, unary
from assay.semantics.scalar import WHOLE
from assay.semantics.types import TensorType

TRIGONOMETRY: dict[str, tuple[Any, str, str]] = {
    "sin": (np.sin, "The sine of x, an angle in radians; NaN at an infinity", "Sin"),
    "cos": (np.cos, "The cosine of x, an angle in radians; NaN at an infinity", "Cos"),
    "tan": (np.tan, "The tangent of x, an angle in radians; NaN at an infinity", "Tan"),
    "asin": (np.arcsin, "The angle from -pi/2 to pi/2 whose sine is x; NaN beyond [-1, 1]", "Asin"),
    "acos": (np.arccos, "The angle from 0 to pi whose cosine is x; NaN beyond [-1, 1]", "Acos"),
    "atan": (np.arctan, "The angle from -pi/2 to pi/2 whose tangent is x", "Atan"),
    "sinh": (np.sinh, "The hyperbolic sine of x", "Sinh"),
    "cosh": (np.cosh, "The hyperbolic cosine of x", "Cosh"),
    "asinh": (np.arcsinh, "The number whose hyperbolic sine is x", "Asinh"),
    "acosh": (np.arccosh, "The number, not negative, whose hyperbolic cosine is x; NaN below 1", "Acosh"),
    "atanh": (np.arctanh, "The number whose hyperbolic tangent is x; infinite at -1 and 1, NaN beyond", "Atanh"),
}


def _by(function: Any) -> Value:
    return lambda attrs, x: function(x)


def _exactly(name: str) -> Value:
    """A scalar operation that is exact; of operands with intervals anything, unless these are single values."""

    def value(attrs: Attrs, a: Any, b: Any) -> Any:
        with np.errstate(all="ignore"):
            if isinstance(a, Bounded) or isinstance(b, Bounded):
                return whole_division(name, a, b)
            return as_array(by_table(name, a, b))

    return value


def _inverted(attrs: Attrs, x: Any) -> Any:
    """-1 - x in two's complement; what an interval holds is mirrored."""
    if isinstance(x, Bounded):
        minus = x.dtype.type(int(x.of.max) if x.of.kind == "uint" else -1)
        return minus - x
    return np.invert(x)


def _reinterpret(attrs: Attrs, x: Any) -> Any:
    to = dtype(attrs["dtype"])
    if isinstance(x, Bounded):
        known = np.asarray(x.radius == 0) & ~np.isnan(x.value)  # any NaN is as good as another
        if not x.is_exact and x.of.is_float:
            known &= x.value != 0  # and a zero of either sign
        bits = np.asarray(_reinterpret(attrs, np.asarray(x.raw).astype(x.dtype)))
        return bits if known.all() and not to.is_float else Bounded(bits, np.where(known, 0.0, np.inf), to)
    x = as_array(x)
    if dtype(x.dtype).is_integer and to.is_integer:
        return converted(x, to)  # which wraps, and so keeps the bits
    return x.view(to.numpy)


def _reinterpret_rule(attrs: Attrs, types: tuple[TensorType, ...]) -> TensorType:
    (x,) = types
    name = attrs["dtype"]
    known = isinstance(name, str) and name in DTYPES
    REINTERPRET.require(known, "C1", f"dtype is {name!r}; wanted is one of {', '.join(DTYPES)}")
    to = dtype(name)
    narrow_float = any(d.is_float and d.bits < 8 for d in (x.dtype, to))
    same = x.dtype.bits == to.bits and BOOL not in (x.dtype, to) and not narrow_float
    REINTERPRET.require(same or x.dtype is to, "C2", f"{x.dtype} and {to} have no bits in common")
    return TensorType(x.shape, to)


REINTERPRET = unary(
    "reinterpret",
    "The bits of x as another dtype of the same width",
    ("int",),
    _reinterpret,
    EXACT + "; anything where an operand is off, or NaN",
    "ONNX BitCast, docs/Operators.md; TVM tir.reinterpret",
    ({"dtype": "uint32"}, {"dtype": "float32"}),
    plain=True,
    type_rule=_reinterpret_rule,
    attrs={"dtype": Attr("the name of the dtype")},
    constraints={
        "C1": "dtype is the name of a dtype",
        "C2": "it has the operand's width, and neither is bool or a float of 4 bits",
    },
)

_INEXACT = EXACT + "; anything where an operand is off"

TABLE: tuple[Operator, ...] = (
    *(
        unary(name, doc, FLOAT, _by(function), ELEMENTARY, documents(onnx, name), onnx=onnx, relax=name)
        for name, (function, doc, onnx) in TRIGONOMETRY.items()
    ),
    binary(
        "fmod", "a - b * q, where q is a / b rounded to zero: exact, with the sign of a; NaN where b is 0", FLOAT,
        _exactly("fmod"), _INEXACT, "ONNX Mod with fmod, docs/Operators.md; C fmod", plain=True, scalar="fmod",
    ),
    binary(
        "bitwise_and", "The bits that a and b have both", WHOLE, _exactly("bitand"), _INEXACT,
        documents("BitwiseAnd", "bitwise_and"), plain=True, scalar="bitand", onnx="BitwiseAnd", relax="bitwise_and",
    ),
    binary(
        "bitwise_or", "The bits that a or b has", WHOLE, _exactly("bitor"), _INEXACT,
        documents("BitwiseOr", "bitwise_or"), plain=True, scalar="bitor", onnx="BitwiseOr", relax="bitwise_or",
    ),
    binary(
        "bitwise_xor", "The bits that one of a and b has", WHOLE, _exactly("bitxor"), _INEXACT,
        documents("BitwiseXor", "bitwise_xor"), plain=True, scalar="bitxor", onnx="BitwiseXor", relax="bitwise_xor",
    ),
    unary(
        "bitwise_not", "The bits that x has not: -1 - x in two's complement", WHOLE, _inverted, EXACT,
        documents("BitwiseNot", "bitwise_not"), onnx="BitwiseNot", relax="bitwise_not",
    ),
    binary(
        "left_shift", "The bits of a moved up by b; a trap where b is negative, or the width or more", WHOLE,
        _exactly("shl"), _INEXACT, documents("BitShift (LEFT)", "left_shift"), can_trap=True, plain=True, scalar="shl",
        relax="left_shift",
    ),
    binary(
        "right_shift",
        "The bits of a moved down by b, the sign's repeated if signed; a trap where b is negative, or the width or"
        " more",
        WHOLE, _exactly("shr"), _INEXACT, documents("BitShift (RIGHT)", "right_shift"), can_trap=True, plain=True,
        scalar="shr", relax="right_shift",
    ),
    REINTERPRET,
)  # fmt: skip

BITS = tuple(op.name for op in TABLE if op.name.endswith("_shift") or op.name.startswith("bitwise_"))
"""The operators on the bits of whole numbers."""
