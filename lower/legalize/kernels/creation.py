"""Kernels without tensor contents as input (specs/lower.md, "Kernels")."""

from __future__ import annotations

from assay.lower.legalize.kernels.common import Kernel, nest, parameters
from assay.semantics.operator import Attrs
from assay.semantics.scalar import const
from assay.semantics.tensor import PrimFunc, seq, store
from assay.semantics.types import TensorType, Type


def _full(name: str, attrs: Attrs, operands: tuple[TensorType, ...], result: Type) -> PrimFunc:
    inputs, (out,) = parameters("", operands, result)
    value = const(attrs["fill_value"], out.dtype)
    return PrimFunc(name, (*inputs, out), 1, nest("i", out.shape, lambda *i: store(out, i, value)))


def _shape_of(name: str, attrs: Attrs, operands: tuple[TensorType, ...], result: Type) -> PrimFunc:
    """A store for each dim; the tensor itself is not read."""
    (x,), (out,) = parameters("x", operands, result)
    return PrimFunc(name, (x, out), 1, seq(*(store(out, k, d) for k, d in enumerate(x.shape))))


TABLE: dict[str, Kernel] = {"full": _full, "shape_of": _shape_of}
