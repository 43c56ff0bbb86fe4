"""Translation rules from ONNX operators to ours, one for each operator and all its versions (specs/lower.md, "Import").

A rule is a function of a `Node`: operands, attributes, version. Adding one is one entry in the table of its file.
"""

from __future__ import annotations

from assay.lower.onnx_ops import (
    contraction,
    creation,
    elementwise,
    movement,
    normalization,
    pooling,
    reduction,
    slicing,
)
from assay.lower.onnx_ops.node import Rule

RULES: dict[str, Rule] = {
    name: rule
    for table in (
        contraction.TABLE,
        creation.TABLE,
        elementwise.TABLE,
        movement.TABLE,
        normalization.TABLE,
        pooling.TABLE,
        reduction.TABLE,
        slicing.TABLE,
    )
    for name, rule in table.items()
}
"""By the operator's name in the domain ai.onnx."""
