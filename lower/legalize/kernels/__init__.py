"""The second definition of each operator: its kernel in the tensor IR (specs/lower.md, "Kernels").

The files mirror `assay.semantics.ops`, but share nothing with the values there: the two definitions are compared.
A kernel fixes the order of additions, and that order is part of its meaning (rule M10). Views have no kernel.
"""

from __future__ import annotations

from assay.lower.legalize.kernels import (
    contraction,
    creation,
    elementwise,
    functions,
    matrices,
    movement,
    normalization,
    pooling,
    reduction,
    scans,
    selection,
    suppression,
)
from assay.lower.legalize.kernels.common import Kernel
from assay.semantics.errors import Crash
from assay.semantics.operator import Attrs
from assay.semantics.ops import operator
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import TensorType, Type

KERNELS: dict[str, Kernel] = {
    **elementwise.TABLE,
    **functions.TABLE,
    **contraction.TABLE,
    **matrices.TABLE,
    **reduction.TABLE,
    **scans.TABLE,
    **pooling.TABLE,
    **normalization.TABLE,
    **movement.TABLE,
    **selection.TABLE,
    **suppression.TABLE,
    **creation.TABLE,
}
"""The kernel of each operator that is not a view."""


def build(op_name: str, attrs: Attrs, operands: tuple[TensorType, ...], result: Type, name: str) -> PrimFunc:
    """The operator `op_name` at these types as a tensor function called `name`.

    `result` is what the operator's type rule gives. Parameters are the operands, then an output for each tensor of
    the result.
    """
    if op_name not in KERNELS:
        raise Crash(f"{op_name} has no kernel")
    return KERNELS[op_name](name, operator(op_name).check_attrs(attrs), operands, result)
