"""Kernels in tiles as a strategy of legalize: `legalize(module, strategy=tiled)`."""

from __future__ import annotations

from assay.lower.legalize.kernels import build
from assay.lower.loops import tiles
from assay.semantics.graph import Call
from assay.semantics.operator import Operator
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import TensorType


def tiled(call: Call, name: str) -> PrimFunc | None:
    """The operator's kernel in tiles, if it is a product or convolution that is large enough; else None."""
    assert isinstance(call.op, Operator)
    operands = tuple(a.type for a in call.args if isinstance(a.type, TensorType))
    if call.op.name != "matmul" and not call.op.name.startswith("nn.conv"):
        return None
    return tiles.tiled(build(call.op.name, call.attrs, operands, call.type, name), call.op.name)
