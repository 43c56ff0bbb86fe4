"""What the variables of a program stand for while it becomes StableHLO (specs/lower.md, "Export")."""

from __future__ import annotations

from typing import TypeAlias

from assay.lower.export_walk import ExportActivation, ExportClosure, ExportItem, parts_of_item
from assay.lower.stablehlo_export.writer import HloValue
from assay.semantics.errors import Unsupported
from assay.semantics.graph.matching import Bound
from assay.semantics.types import TensorType, TupleType, Type
from assay.semantics.walk import fold_scoped, occurrences

HloActivation: TypeAlias = ExportActivation[HloValue, Bound]
HloClosure: TypeAlias = ExportClosure[HloValue, Bound]
HloItem: TypeAlias = ExportItem[HloValue, Bound]


def holds_function(item: HloItem) -> bool:
    """Whether a function is in it."""
    return any(isinstance(i, ExportClosure) for i in occurrences(item, parts_of_item))


def type_of(item: HloItem) -> Type:
    """The type of an item that holds no function."""

    def made(part: HloItem, inside: list[Type]) -> Type:
        if isinstance(part, HloValue):
            return TensorType(part.shape, part.dtype)
        if isinstance(part, ExportClosure):
            raise Unsupported("a function where a tensor is wanted", label="stablehlo_export.C1")
        return TupleType(tuple(inside))

    return fold_scoped(item, parts_of_item, made)
