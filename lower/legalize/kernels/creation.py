"""Kernels without tensor contents as input (specs/lower.md, "Kernels")."""

from __future__ import annotations

from assay.lower.legalize.kernels.common import Kernel, kernel, nest
from assay.semantics.operator import Attrs
from assay.semantics.scalar import const
from assay.semantics.tensor import Buffer, Stmt, seq, store


def _full(name: str, attrs: Attrs, out: Buffer) -> Stmt:
    value = const(attrs["fill_value"], out.dtype)
    return nest("i", out.shape, lambda *i: store(out, i, value))


def _shape_of(name: str, attrs: Attrs, x: Buffer, out: Buffer) -> Stmt:
    """A store for each dim; the tensor itself is not read."""
    return seq(*(store(out, k, d) for k, d in enumerate(x.shape)))


TABLE: dict[str, Kernel] = {"full": kernel("", _full), "shape_of": kernel("x", _shape_of)}
