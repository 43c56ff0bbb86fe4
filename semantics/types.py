"""Types of graph expressions and the virtual device on which a value lives (specs/semantics.md, "Types")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from assay.semantics.dtypes import DType, size_in_bytes
from assay.semantics.errors import Invalid
from assay.semantics.scalar import Dim, Var, provably_equal, show, variables


@dataclass(frozen=True, eq=False)
class TensorType:
    """A dense tensor: one dim for each axis (rule M4), and an element type."""

    shape: tuple[Dim, ...]
    dtype: DType

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def is_static(self) -> bool:
        return all(isinstance(d, int) for d in self.shape)

    @property
    def static_shape(self) -> tuple[int, ...]:
        """The shape as numbers; Invalid where a dim is symbolic."""
        shape = tuple(d for d in self.shape if isinstance(d, int))
        if len(shape) != len(self.shape):
            raise Invalid(f"{self} has symbolic dims where sizes must be known", label="type.C1")
        return shape

    @property
    def nbytes(self) -> int:
        return size_in_bytes(self.static_shape, self.dtype)

    def __str__(self) -> str:
        return f"Tensor(({', '.join(map(show, self.shape))}), {self.dtype})"

    __repr__ = __str__


@dataclass(frozen=True, eq=False)
class TupleType:
    """A tuple of values."""

    fields: tuple[Type, ...]

    def __str__(self) -> str:
        return f"Tuple({', '.join(map(str, self.fields))})"

    __repr__ = __str__


@dataclass(frozen=True, eq=False)
class FuncType:
    """A function of the graph language; symbols of its parameters are bound at each call."""

    params: tuple[Type, ...]
    result: Type

    def __str__(self) -> str:
        return f"Callable(({', '.join(map(str, self.params))}), {self.result})"

    __repr__ = __str__


Type: TypeAlias = TensorType | TupleType | FuncType


@dataclass(frozen=True)
class VirtualDevice:
    """Where a value lives (rule M8). An unset field is unconstrained: -1 for the id, "" for the others."""

    type: str = ""
    id: int = -1
    target: str = ""
    scope: str = ""


ANYWHERE = VirtualDevice()


def same_type(a: Type, b: Type) -> bool:
    """Whether two types are equal, dims compared by linear arithmetic."""
    match a, b:
        case TensorType(), TensorType():
            return (
                a.dtype is b.dtype
                and a.ndim == b.ndim
                and all(provably_equal(x, y) for x, y in zip(a.shape, b.shape, strict=True))
            )
        case TupleType(), TupleType():
            return _all_same(a.fields, b.fields)
        case FuncType(), FuncType():
            return _all_same((*a.params, a.result), (*b.params, b.result))
        case _:
            return False


def _all_same(a: Sequence[Type], b: Sequence[Type]) -> bool:
    return len(a) == len(b) and all(map(same_type, a, b))


def flatten(of: Type) -> list[TensorType]:
    """The tensors inside a type, left to right."""
    out: list[TensorType] = []
    stack: list[Type] = [of]
    while stack:
        t = stack.pop()
        match t:
            case TensorType():
                out.append(t)
            case TupleType():
                stack.extend(reversed(t.fields))
            case FuncType():
                raise Invalid("a function is not data", label="type.C2")
    return out


def symbols(of: Type) -> list[Var]:
    """The symbolic dims in a type of data, in order of first occurrence."""
    seen: dict[Var, None] = {}
    for t in flatten(of):
        for d in t.shape:
            seen.update(dict.fromkeys(variables(d)))
    return list(seen)
