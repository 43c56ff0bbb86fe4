"""What the variables of a program stand for while it becomes an ONNX graph (specs/lower.md, "Export")."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import TypeAlias

from onnx import ValueInfoProto, helper

from assay.lower.export_walk import ExportActivation, ExportItem, fields_of, parts_of_item
from assay.lower.onnx_export.dims import Sizes
from assay.lower.onnx_export.writer import Value, element_type_number
from assay.semantics.errors import Unsupported
from assay.semantics.scalar import Var as Symbol
from assay.semantics.types import ShapeType, TensorType, TupleType, Type
from assay.semantics.walk import fold, occurrences

Activation: TypeAlias = ExportActivation[Value, Sizes]
Item: TypeAlias = ExportItem[Value, Sizes]


def renamed_item(item: Item, new: Mapping[str, Value]) -> Item:
    """An item with other values for those of these names."""

    def made(part: Item, inside: list[Item]) -> Item:
        if isinstance(part, Value):
            return new.get(part.name, part)
        return tuple(inside) if isinstance(part, tuple) else part

    return fold(item, made, parts_of_item)


def leaves_of(of: Type) -> list[TensorType | ShapeType]:
    """The tensors and shapes of a type, left to right. Unsupported (onnx_export.C1) where there is anything else."""
    found: list[TensorType | ShapeType] = []
    for t in occurrences(of, fields_of):
        if isinstance(t, (TensorType, ShapeType)):
            found.append(t)
        elif not isinstance(t, TupleType):
            raise Unsupported(f"an If gives {t}; ONNX has no word for that", label="onnx_export.C1")
    return found


def info_of(value: Value, of: TensorType | ShapeType, known: Set[Symbol] | None = None) -> ValueInfoProto:
    """The type of a tensor; a size that is neither a number nor one of the symbols that are known (by default, any) is
    left open."""
    shape: list[int | str | None] = [len(of.dims)] if isinstance(of, ShapeType) else []
    for d in of.shape if isinstance(of, TensorType) else ():
        if isinstance(d, Symbol):
            shape.append(d.name if known is None or d in known else None)
        else:
            shape.append(d if isinstance(d, int) else None)
    return helper.make_tensor_value_info(value.name, element_type_number(value.dtype), shape)
