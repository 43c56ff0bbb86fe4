"""What a StableHLO text is made of, before it means anything (specs/lower.md, "StableHLO")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from assay.semantics.dtypes import DType


@dataclass(frozen=True)
class QuantizedElement:
    """`!quant.uniform<storage:expressed:axis, {scale:zero_point, ...}>`; `axis` is None where one pair serves all."""

    storage: DType
    low: int
    high: int
    expressed: DType
    axis: int | None
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]


@dataclass(frozen=True)
class TensorText:
    """A tensor type; a size of None is `?`. `bounds` are those of its encoding, "" where an element type is plain."""

    shape: tuple[int | None, ...]
    element: DType | QuantizedElement
    bounds: tuple[int | None, ...] = ()

    @property
    def dtype(self) -> DType:
        """The element type of what holds it: the storage of a quantised one."""
        return self.element.storage if isinstance(self.element, QuantizedElement) else self.element

    def __str__(self) -> str:
        sizes = "".join(f"{'?' if d is None else d}x" for d in self.shape)
        return f"tensor<{sizes}{self.dtype}>"


@dataclass(frozen=True)
class TupleText:
    """`tuple<...>`; a token is the empty one."""

    fields: tuple[TypeText, ...] = ()


@dataclass(frozen=True)
class RefusedType:
    """A type that is well written and has no meaning here; what uses it is refused with this reason."""

    reason: str


TypeText: TypeAlias = TensorText | TupleText | RefusedType


@dataclass(frozen=True)
class Symbolic:
    """`@name`."""

    name: str


@dataclass(frozen=True, eq=False)
class Dense:
    """`dense<...>`: the text between the brackets and where it starts, and its type where one follows."""

    text: str
    start: int
    type: TypeText | None = None


@dataclass(frozen=True)
class Dialect:
    """`#dialect.name<...>`: its name, its fields where it is `key = value, ...`, and else its words."""

    name: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Use:
    """`%name` or `%name#index` where a value is used."""

    name: str
    index: int | None
    start: int
    end: int


@dataclass(frozen=True, eq=False)
class Param:
    """A parameter of a function or a block; `given` is what `assay.name` calls it."""

    name: str
    type: TypeText
    start: int
    given: str = ""


@dataclass(eq=False)
class Region:
    """A region of one block: its parameters and operations."""

    params: list[Param] = field(default_factory=list)
    body: list[Operation] = field(default_factory=list)


@dataclass(eq=False)
class Operation:
    """An operation. `results` are names and how many values each has; `words` are what stands between the operands of
    the short form without a name."""

    name: str
    start: int
    end: int
    results: list[tuple[str, int]] = field(default_factory=list)
    operands: list[Use] = field(default_factory=list)
    attrs: dict[str, Any] = field(default_factory=dict)
    words: list[Any] = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)
    types: list[TypeText] = field(default_factory=list)
    """The types of its results."""
    operand_types: list[TypeText] | None = None
    """The types of its operands, where the text says them."""


@dataclass(eq=False)
class FunctionText:
    """A function; `body` is None where it is only declared. `given` is what `assay.name` calls each result, or ""."""

    name: str
    private: bool
    params: list[Param]
    results: list[TypeText]
    body: Region | None
    start: int
    end: int
    given: tuple[str, ...] = ()


@dataclass(eq=False)
class ModuleText:
    """A module: its functions by name."""

    name: str
    functions: dict[str, FunctionText] = field(default_factory=dict)


Array: TypeAlias = np.ndarray[Any, Any]
