"""Operators that ONNX has as we have them, by both names, for import and export (specs/lower.md, "Import")."""

from __future__ import annotations

UNARY = {
    **{name.title(): name for name in "abs acos acosh asin asinh atan atanh ceil cos cosh erf exp floor log".split()},
    **{name.title(): name for name in "reciprocal round sigmoid sin sinh sqrt tan tanh".split()},
    "BitwiseNot": "bitwise_not",
    "Neg": "negative",
    "Not": "logical_not",
    "Relu": "nn.relu",
}

BINARY = {
    **{f"Bitwise{name.title()}": f"bitwise_{name}" for name in ("and", "or", "xor")},
    **{name.title(): f"logical_{name}" for name in ("and", "or", "xor")},
    "Add": "add",
    "Mul": "multiply",
    "Sub": "subtract",
}

COMPARED = {
    "Equal": "equal",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
    "Less": "less",
    "LessOrEqual": "less_equal",
}
