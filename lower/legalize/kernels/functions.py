"""Kernels of trigonometry, remainders and bits: one scalar expression for each (specs/lower.md, "Kernels").

The trigonometric and hyperbolic functions are the tensor IR's intrinsics, which give the same bits everywhere (M10).
"""

from __future__ import annotations

from assay.lower.legalize.kernels.common import Kernel
from assay.lower.legalize.kernels.elementwise import ScalarRule, elementwise
from assay.semantics.ops.functions import TRIGONOMETRY
from assay.semantics.scalar import const, reinterpret
from assay.semantics.scalar.intrinsics import INTRINSICS


def _intrinsic(name: str) -> ScalarRule:
    return lambda attrs, x: INTRINSICS[name]([x])


SCALARS: dict[str, ScalarRule] = {
    **{name: _intrinsic(name) for name in TRIGONOMETRY},
    "bitwise_not": lambda attrs, x: const(x.dtype.max if x.dtype.kind == "uint" else -1, x.dtype) - x,
    "reinterpret": lambda attrs, x: reinterpret(x, attrs["dtype"]),
}
"""The scalar expression of each operator."""

TABLE: dict[str, Kernel] = {name: elementwise(rule) for name, rule in SCALARS.items()}
