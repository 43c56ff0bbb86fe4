"""The table of operators (specs/semantics.md, "Operators").

What one needs is in CONTRIBUTING.md, "Adding an operator".
"""

from __future__ import annotations

from assay.semantics.errors import Invalid
from assay.semantics.operator import Operator
from assay.semantics.ops import (
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

TABLES = (
    elementwise.TABLE,
    functions.TABLE,
    contraction.TABLE,
    matrices.TABLE,
    normalization.TABLE,
    reduction.TABLE,
    scans.TABLE,
    pooling.TABLE,
    movement.TABLE,
    selection.TABLE,
    suppression.TABLE,
    creation.TABLE,
)

OPERATORS: dict[str, Operator] = {op.name: op for table in TABLES for op in table}


def operator(name: str) -> Operator:
    """The record of that name."""
    if name not in OPERATORS:
        raise Invalid(f"no operator {name!r}", label="call.C8")
    return OPERATORS[name]
