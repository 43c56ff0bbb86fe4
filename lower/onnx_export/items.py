"""What the variables of a program stand for while it becomes an ONNX graph (specs/lower.md, "Export")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TypeAlias

from onnx import ValueInfoProto, helper

from assay.lower.onnx_export.dims import Sizes
from assay.lower.onnx_export.writer import Value, element_type_number
from assay.semantics import graph
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.scalar import Var as Symbol
from assay.semantics.types import ShapeType, TensorType, TupleType, Type
from assay.semantics.walk import fold, fold_scoped, occurrences


@dataclass(frozen=True, eq=False)
class Closure:
    """A function and the activation in which it was made."""

    function: graph.Function
    outer: Activation | None
    name: str = ""
    var: graph.Var | None = None

    def is_named(self, node: graph.Expr) -> bool:
        """Whether a node names this function."""
        if isinstance(node, graph.GlobalVar):
            return self.outer is None and node.name == self.name
        return node is self.var and self.var is not None


@dataclass(eq=False)
class Activation:
    """A function or branch that is being written: what its variables and symbols stand for."""

    outer: Activation | None = None
    sizes: Sizes = field(init=False)
    values: dict[graph.Var, Item] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sizes = Sizes(None if self.outer is None else self.outer.sizes)

    def look(self, var: graph.Var) -> Item:
        """What a variable stands for."""
        at: Activation | None = self
        while at is not None and var not in at.values:
            at = at.outer
        if at is None:
            raise Invalid(f"variable {var.name} is not bound", where=var.span, label="graph.C1")
        return at.values[var]


Item: TypeAlias = "Value | tuple[Item, ...] | Closure"


def values_of(item: Item) -> list[Value]:
    """The tensors of an item, left to right; what is a function has none."""
    return [part for part in occurrences(item, _inside) if isinstance(part, Value)]


def _inside(item: Item) -> Sequence[Item]:
    return item if isinstance(item, tuple) else ()


def renamed_item(item: Item, new: Mapping[str, Value]) -> Item:
    """An item with other values for those of these names."""

    def made(part: Item, inside: list[Item]) -> Item:
        if isinstance(part, Value):
            return new.get(part.name, part)
        return tuple(inside) if isinstance(part, tuple) else part

    return fold(item, made, _inside)


def leaves_of(of: Type) -> list[TensorType | ShapeType]:
    """The tensors and shapes of a type, left to right. Unsupported (onnx_export.C1) where there is anything else."""
    found: list[TensorType | ShapeType] = []
    for t in occurrences(of, _fields):
        if isinstance(t, (TensorType, ShapeType)):
            found.append(t)
        elif not isinstance(t, TupleType):
            raise Unsupported(f"an If gives {t}; ONNX has no word for that", label="onnx_export.C1")
    return found


def _fields(of: Type) -> Sequence[Type]:
    return of.fields if isinstance(of, TupleType) else ()


def reshaped_item(of: Type, values: Iterator[Value]) -> Item:
    """The values as a value of the type."""

    def made(t: Type, inside: list[Item]) -> Item:
        return tuple(inside) if isinstance(t, TupleType) else next(values)

    return fold_scoped(of, _fields, made)


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
