"""How the fields of an instruction stand in a file (specs/semantics.md; specs/vm.md, "File").

A field has the form of its declared type: one table for the writer and the reader. Whole numbers are in groups of seven
bits, the lowest first, in as few bytes as they need. Types, sizes, devices and places in sources are rows of a table
beside the code, texts are rows of another.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from assay.semantics.bytecode.instructions import INSTRUCTIONS, Instruction
from assay.semantics.devices import VirtualDevice
from assay.semantics.errors import Span
from assay.semantics.module import Module
from assay.semantics.scalar import Apply, Cast, Choice, Const, Load, Var
from assay.semantics.types import (
    DataType,
    FuncType,
    ObjectType,
    RefType,
    ShapeType,
    TensorType,
    TupleType,
    TypeVar,
)

MAGIC = b"ASBC"
VERSION = 2
MOST_REGISTERS = 1 << 24
"""Registers of one function at most."""
LEAST, MOST = -(1 << 63), (1 << 63) - 1
"""The whole numbers that stand in a file: those that a size can be."""

TYPES = (TensorType, TupleType, FuncType, RefType, DataType, ShapeType, TypeVar, ObjectType)
SIZES = (Var, Const, Apply, Cast, Load, Choice)
ROWS: dict[str, tuple[type, ...]] = {
    "Type": TYPES,
    "FuncType": (FuncType,),
    "DataType": (DataType,),
    "TensorType": (TensorType,),
    "TypeVar": (TypeVar,),
    "Size": (Var,),
    "Dim": SIZES,
    "VirtualDevice": (VirtualDevice,),
    "Span": (Span,),
}
"""The classes that a row may have where a field is declared so."""


@dataclass(frozen=True)
class Companion:
    """What stands beside code: the module without its bytecode, and the rows that the code names by their number, each
    once, in the order in which it first does."""

    module: Module
    rows: tuple[
        TensorType | TupleType | FuncType | RefType | DataType | ShapeType | TypeVar | ObjectType
        | Var | Const | Apply | Cast | Load | Choice | VirtualDevice | Span,
        ...,
    ]  # fmt: skip


FIELDS: dict[type[Instruction], tuple[tuple[str, str], ...]] = {
    i: tuple((f.name, str(f.type)) for f in fields(i) if f.name != "span") for i in INSTRUCTIONS
}
"""The fields of each instruction but its place in the source, in order, with their forms."""
NUMBERS = {i: n for n, i in enumerate(INSTRUCTIONS)}
"""The number of each instruction in a file."""


def element_form(form: str) -> str | None:
    """The form of the elements, where a form is that of a list."""
    return form[len("tuple[") : -len(", ...]")] if form.startswith("tuple[") else None


def rest(form: str) -> str | None:
    """The form of what is there, where it may be None."""
    return form.removesuffix(" | None") if form.endswith(" | None") else None


Row = Any
"""A row beside the code: the classes of ROWS."""
