"""What is known of an operator of ONNX: its operands and attributes, of one version (specs/lower.md, "Import")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from onnx import AttributeProto


@dataclass(frozen=True)
class Formal:
    """An operand as the schema has it. `variable` is the type variable, or "" where the type is fixed."""

    name: str
    optional: bool
    variable: str
    allowed: frozenset[str]


@dataclass(frozen=True)
class Schema:
    """One version of one operator."""

    name: str
    domain: str
    version: int
    operands: tuple[Formal, ...]
    least: int
    most: int
    outputs: int
    kinds: Mapping[str, str]
    required: frozenset[str]
    defaults: Mapping[str, Any]
    default_protos: tuple[AttributeProto, ...]
    has_body: bool
    """Whether ONNX says what it means in terms of others."""

    def operand(self, index: int) -> Formal:
        """The formal operand for an actual one; the last stands for all further ones where it is variadic."""
        return self.operands[min(index, len(self.operands) - 1)]

    def __str__(self) -> str:
        return f"{self.name}-{self.version}"
