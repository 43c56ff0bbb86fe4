"""What an operator of the graph IR is: one record that says everything about it (specs/semantics.md,
"Operators").

An operator's record holds its signature, type rule, value, error bound, documentation and examples. Its second,
independent definition is its kernel in the tensor IR, in the file of the same name under
`assay.lower.legalize.kernels`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from assay.semantics.errors import Invalid
from assay.semantics.types import TensorType, Type

Attrs = Mapping[str, Any]
Reasons = Mapping[tuple[str, ...], str]
"""Why operators, or all of a family, are not in a table about operators. It stands beside the table; a test finds each
operator that is in neither (tests/test_operator_tables.py)."""
Family = Literal[
    "elementwise",
    "reduction",
    "stepwise",
    "contraction",
    "pooling",
    "normalization",
    "movement",
    "selection",
    "creation",
]
REQUIRED: Any = object()


@dataclass(frozen=True)
class Attr:
    """A static parameter of an operator: its default (REQUIRED if there is none) and one sentence."""

    doc: str
    default: Any = REQUIRED


@dataclass(frozen=True)
class Example:
    """A small well-typed use: operand types as (shape, dtype name), and attributes. Dims are pairwise distinct."""

    operands: tuple[tuple[tuple[int, ...], str], ...]
    attrs: Attrs = field(default_factory=dict)
    ranges: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """For an operand, by its place, whose elements are indices: the least one, and the one after the last."""


@dataclass(frozen=True, eq=False)
class Operator:
    """One operator. See `assay.semantics.ops` for the table.

    `type_rule(attrs, operand types)` gives the result's type or raises Invalid with one of the labels in
    `constraints`. `value(attrs, *arrays)` computes the result from NumPy arrays of exactly those types, in their own
    dtype; it is written with NumPy functions only, so that it also runs on `assay.semantics.bounds.Bounded` and
    yields the operator's bound (rule M9.1).
    """

    name: str
    doc: str
    operands: tuple[str, ...]
    """Names of the operands; a last name that starts with * stands for one or more, one that ends in ? is optional."""
    family: Family
    type_rule: Callable[[Attrs, tuple[TensorType, ...]], Type]
    value: Callable[..., Any]
    bound: str
    """How far a correct implementation may be off, in words; `assay.semantics.bounds` computes it."""
    examples: tuple[Example, ...]
    attrs: Mapping[str, Attr] = field(default_factory=dict)
    constraints: Mapping[str, str] = field(default_factory=dict)
    can_trap: bool = False
    """Whether a well-typed use can trap: such a call is never hoisted to a path that did not demand it (M3)."""
    view: bool = False
    """Whether the result is the first operand's bytes under another shape: no code, and an alias (specs/semantics.md,
    "Aliasing")."""
    source: str = ""
    """Where the meaning comes from: an ONNX or TVM document."""
    scalar: str = ""
    """The scalar operation that it is at each element, where it is one: its kernel follows."""
    onnx: str = ""
    """The operator of ONNX that is this one on the same operands; "" where there is none. Import and export follow it
    but where they have a rule of their own."""
    relax: str = ""
    """That of TVM, in Relax and in Relay, likewise."""

    @property
    def required(self) -> list[str]:
        """The attributes without a default: every use gives them."""
        return [name for name, attr in self.attrs.items() if attr.default is REQUIRED]

    def check_attrs(self, given: Attrs) -> dict[str, Any]:
        """The attributes with defaults filled in; Invalid for an unknown or a missing one."""
        for name in given:
            if name not in self.attrs:
                known = ", ".join(self.attrs) or "none"
                raise Invalid(f"{self.name} has no attribute {name!r}; it has {known}", label="call.C2")
        filled: dict[str, Any] = {}
        for name, attr in self.attrs.items():
            value = given.get(name, attr.default)
            if value is REQUIRED:
                raise Invalid(f"{self.name} needs the attribute {name!r}", label="call.C3")
            filled[name] = value
        return filled

    def check_operands(self, count: int) -> None:
        """Invalid unless the operator takes that many operands."""
        variadic = bool(self.operands) and self.operands[-1].startswith("*")
        most = len(self.operands)
        least = sum(not name.endswith("?") for name in self.operands)
        if count < least or (count > most and not variadic):
            wanted = f"at least {least}" if variadic else f"{least} to {most}" if least < most else str(most)
            raise Invalid(f"{self.name} takes {wanted} operands, {count} given", label="call.C1")

    def require(self, holds: bool, label: str, message: str) -> None:
        """Raise Invalid with constraint `label` unless `holds`."""
        if label not in self.constraints:
            raise KeyError(f"{self.name} does not declare the constraint {label}")
        if not holds:
            raise Invalid(f"{self.name}: {message}", label=f"{self.name}.{label}")

    def __repr__(self) -> str:
        return f"<operator {self.name}>"
