"""What the variables of a program stand for while it becomes StableHLO (specs/lower.md, "Export")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from assay.lower.stablehlo_export.writer import HloValue
from assay.semantics import graph
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.graph.matching import Bound
from assay.semantics.types import TensorType, TupleType, Type
from assay.semantics.walk import fold_scoped, occurrences


@dataclass(frozen=True, eq=False)
class HloClosure:
    """A function and the activation in which it was made."""

    function: graph.Function
    outer: HloActivation | None
    name: str = ""
    var: graph.Var | None = None

    def is_named(self, node: graph.Expr) -> bool:
        """Whether a node names this function."""
        if isinstance(node, graph.GlobalVar):
            return self.outer is None and node.name == self.name
        return node is self.var and self.var is not None


@dataclass(eq=False)
class HloActivation:
    """A function or branch that is being written: what its variables and symbols stand for."""

    outer: HloActivation | None = None
    values: dict[graph.Var, HloItem] = field(default_factory=dict)
    sizes: Bound = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.outer is not None:
            self.sizes = dict(self.outer.sizes)

    def look(self, var: graph.Var) -> HloItem:
        """What a variable stands for."""
        at: HloActivation | None = self
        while at is not None and var not in at.values:
            at = at.outer
        if at is None:
            raise Invalid(f"variable {var.name} is not bound", where=var.span, label="graph.C1")
        return at.values[var]


HloItem: TypeAlias = "HloValue | tuple[HloItem, ...] | HloClosure"


def parts_of_item(item: HloItem) -> Sequence[HloItem]:
    """The fields of a tuple."""
    return item if isinstance(item, tuple) else ()


def holds_function(item: HloItem) -> bool:
    """Whether a function is in it."""
    return any(isinstance(i, HloClosure) for i in occurrences(item, parts_of_item))


def values_of(item: HloItem) -> list[HloValue]:
    """The tensors of an item, left to right."""
    return [part for part in occurrences(item, parts_of_item) if isinstance(part, HloValue)]


def type_of(item: HloItem) -> Type:
    """The type of an item that holds no function."""

    def made(part: HloItem, inside: list[Type]) -> Type:
        if isinstance(part, HloValue):
            return TensorType(part.shape, part.dtype)
        if isinstance(part, HloClosure):
            raise Unsupported("a function where a tensor is wanted", label="stablehlo_export.C1")
        return TupleType(tuple(inside))

    return fold_scoped(item, parts_of_item, made)


def fields_of(of: Type) -> Sequence[Type]:
    """The fields of the type of a tuple."""
    return of.fields if isinstance(of, TupleType) else ()


def shaped_as(of: Type, values: Sequence[HloValue]) -> HloItem:
    """The values as a value of a type."""
    rest = iter(values)

    def made(t: Type, inside: list[HloItem]) -> HloItem:
        return tuple(inside) if isinstance(t, TupleType) else next(rest)

    return fold_scoped(of, fields_of, made)


def refilled(item: HloItem, values: Sequence[HloValue]) -> HloItem:
    """Other values in the form of an item."""
    return shaped_as(type_of(item), values)
