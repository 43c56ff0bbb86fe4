"""Types of graph expressions and the virtual device on which a value lives (specs/semantics.md, "Types")."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from assay.semantics.dtypes import DType, size_in_bytes
from assay.semantics.errors import Invalid
from assay.semantics.scalar import Dim, Var, provably_equal, show, variables
from assay.semantics.walk import post_order


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

    @property
    def children(self) -> Sequence[Type]:
        return ()

    def __str__(self) -> str:
        return f"Tensor(({', '.join(map(show, self.shape))}), {self.dtype})"

    __repr__ = __str__


@dataclass(frozen=True, eq=False)
class TupleType:
    """A tuple of values."""

    fields: tuple[Type, ...]

    @property
    def children(self) -> Sequence[Type]:
        return self.fields

    def __str__(self) -> str:
        return show_type(self)

    __repr__ = __str__


@dataclass(frozen=True, eq=False)
class FuncType:
    """A function of the graph language; symbols of its parameters are bound at each call."""

    params: tuple[Type, ...]
    result: Type

    @property
    def children(self) -> Sequence[Type]:
        return (*self.params, self.result)

    def __str__(self) -> str:
        return show_type(self)

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
    pairs = [(a, b)]
    while pairs:
        x, y = pairs.pop()
        if x is y:
            continue
        match x, y:
            case TensorType(), TensorType():
                if x.dtype is not y.dtype or x.ndim != y.ndim or not all(map(provably_equal, x.shape, y.shape)):
                    return False
            case (TupleType(), TupleType()) | (FuncType(), FuncType()):
                if len(x.children) != len(y.children):
                    return False
                pairs += zip(x.children, y.children, strict=True)
            case _:
                return False
    return True


def show_type(of: Type) -> str:
    """A type as it stands in messages, however deep its tuples are."""
    text: list[str] = []
    rest: list[Type | str] = [of]
    while rest:
        t = rest.pop()
        match t:
            case TupleType():
                rest += [")", *_commas(t.fields), "Tuple("]
            case FuncType():
                rest += [")", t.result, "), ", *_commas(t.params), "Callable(("]
            case _:
                text.append(str(t))
    return "".join(text)


def _commas(types: Sequence[Type]) -> list[Type | str]:
    """Types with commas between them, last first."""
    return [piece for i, t in enumerate(reversed(types)) for piece in ((", ", t) if i else (t,))]


def replaced(of: Type, leaf: Callable[[TensorType], TensorType]) -> Type:
    """`of` with `leaf` applied to every tensor type in it."""
    new: dict[int, Type] = {}
    for t in post_order(of):
        match t:
            case TensorType():
                new[id(t)] = leaf(t)
            case TupleType():
                new[id(t)] = TupleType(tuple(new[id(f)] for f in t.fields))
            case FuncType():
                new[id(t)] = FuncType(tuple(new[id(p)] for p in t.params), new[id(t.result)])
    return new[id(of)]


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
