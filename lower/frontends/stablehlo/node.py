"""What a rule of StableHLO works with: an operation with typed operands (specs/lower.md, "StableHLO")."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from assay.lower.frontends.stablehlo.build import HloBuilder
from assay.lower.frontends.stablehlo.syntax import (
    Array,
    Dense,
    Dialect,
    Operation,
    QuantizedElement,
    TensorText,
    TypeText,
)
from assay.lower.frontends.stretching import claimed
from assay.semantics.dtypes import INT64, DType
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.graph import Expr
from assay.semantics.scalar import Dim, provably_equal
from assay.semantics.tasks import Task
from assay.semantics.types import TensorType

Regions: TypeAlias = Callable[..., Task[list[Expr]]]
REQUIRED: Any = object()


@dataclass(eq=False)
class HloNode:
    """An operation of a program: its operands, and what its rule asks for."""

    builder: HloBuilder
    op: Operation
    args: list[Expr]
    arg_types: list[TypeText]
    run_region: Regions
    """The results of a region for values of its parameters."""
    function: Callable[[str, Sequence[Expr]], Task[list[Expr]]]
    """What calls a function of the module by its name, on values."""
    array: Callable[[Dense, object], Array]
    lifted: bool = False
    """Whether the operation stands for as many scalar ones: a region of scalars that is done on whole tensors."""

    # --- failures --------------------------------------------------------------------------------------------------

    def wrong(self, message: str) -> Invalid:
        """The failure (`stablehlo.C6`) for an operation that is not as its specification wants it."""
        return Invalid(f"{self.op.name}: {message}", label="stablehlo.C6")

    def unsupported(self, what: str) -> Unsupported:
        """The failure (`stablehlo.C7`) for what the operation may do and is not handled."""
        return Unsupported(f"{self.op.name} with {what} is not handled", label="stablehlo.C7")

    # --- expressions -----------------------------------------------------------------------------------------------

    def call(self, op: str, *args: Any, **attrs: Any) -> Expr:
        """The call of an operator; a Python number is a constant of the dtype of the first tensor."""
        like = next((a for a in args if isinstance(a, Expr)), None)
        of = None if like is None else tensor_of(like).dtype
        made = [a if isinstance(a, Expr) else self.constant(a, of or INT64) for a in args]
        return self.builder.call(op, *made, **attrs)

    def constant(self, value: Any, of: DType) -> Expr:
        """A constant."""
        return self.builder.constant(value, of)

    def cast(self, x: Expr, to: DType) -> Expr:
        """`x` in a dtype. A float that the dtype does not have becomes anything: StableHLO leaves it open."""
        if tensor_of(x).dtype is to:
            return x
        return self.call("astype", x, dtype=to.name, open=True)

    def shaped(self, x: Expr, *shape: Dim) -> Expr:
        """`x` reshaped."""
        if len(shape) == tensor_of(x).ndim and all(map(provably_equal, shape, tensor_of(x).shape)):
            return x
        return self.call("reshape", x, shape=tuple(shape))

    def stretched(self, x: Expr, *shape: Dim) -> Expr:
        """`x` broadcast to a shape."""
        if len(shape) == tensor_of(x).ndim and all(map(provably_equal, shape, tensor_of(x).shape)):
            return x
        return self.call("broadcast_to", x, shape=tuple(shape))

    def alike(self, *args: Expr) -> list[Expr]:
        """Operands that have one shape: sizes that are not shown to be equal are compared by the run."""
        if self.lifted:
            return list(args)
        first = tensor_of(args[0])
        return [args[0], *(self.claimed(a, first.shape) for a in args[1:])]

    def claimed(self, x: Expr, shape: Sequence[Dim]) -> Expr:
        """`x` with a shape that the run checks where it is not shown."""
        if len(shape) != tensor_of(x).ndim:
            raise self.wrong(f"an operand is {x.type}; {len(shape)} axes are wanted")
        return claimed(self.builder, x, shape, self.builder.span)

    def line(self, size: Dim, of: DType = INT64) -> Expr:
        """0, 1, 2, ..., `size` of them."""
        return self.call("arange", size=size, dtype=of.name)

    def amount(self, size: Dim) -> Expr:
        """A size as a scalar of int64."""
        if isinstance(size, int):
            return self.constant(size, INT64)
        return self.shaped(self.call("shape_of", self.line(size)))

    def take_axis(self, x: Expr, index: int, axis: int) -> Expr:
        """The slice of x at a place of an axis, which goes."""
        return self.call("take", x, self.constant(index, INT64), axis=axis)

    def cut(self, x: Expr, axis: int, begin: Dim, end: Dim, stride: int = 1) -> Expr:
        """A part of an axis."""
        return self.call("strided_slice", x, axes=(axis,), begin=(begin,), end=(end,), strides=(stride,))

    # --- attributes ------------------------------------------------------------------------------------------------

    def attr(self, name: str, default: Any = REQUIRED) -> Any:
        """An attribute; Invalid (`stablehlo.C6`) where a required one is missing."""
        found = self.op.attrs.get(name, default)
        if found is REQUIRED:
            raise self.wrong(f"the attribute {name} is missing")
        return found

    def ints(self, *names: str, default: Any = REQUIRED) -> tuple[int, ...]:
        """A list of whole numbers, by the first of these names that is there."""
        name = next((n for n in names if n in self.op.attrs), names[0])
        found = self.attr(name, default)
        if isinstance(found, Dense):
            found = tuple(int(v) for v in self.array(found, found.type).reshape(-1))
        if not isinstance(found, tuple) or not all(isinstance(v, int) for v in found):
            raise self.wrong(f"{name} is a list of whole numbers")
        return tuple(int(v) for v in found)

    def number(self, *names: str, default: Any = REQUIRED) -> int:
        """A whole number."""
        name = next((n for n in names if n in self.op.attrs), names[0])
        found = self.attr(name, default)
        if not isinstance(found, int):
            raise self.wrong(f"{name} is a whole number")
        return found

    def axes(self, rank: int, *names: str, default: Any = REQUIRED) -> tuple[int, ...]:
        """Axes of a tensor of that rank, each once."""
        found = self.ints(*names, default=default)
        if any(not 0 <= a < rank for a in found) or len(set(found)) != len(found):
            raise self.wrong(f"{names[0]} is {found}; different axes from 0 to {rank - 1} are wanted")
        return found

    def axis(self, rank: int, *names: str) -> int:
        """An axis of a tensor of that rank."""
        found = self.number(*names)
        if not 0 <= found < rank:
            raise self.wrong(f"{names[0]} is {found}; an axis from 0 to {rank - 1} is wanted")
        return found

    def fields(self, *names: str) -> Dialect:
        """An attribute such as `#stablehlo.gather<...>`."""
        name = next((n for n in names if n in self.op.attrs), names[0])
        found = self.attr(name)
        if not isinstance(found, Dialect):
            raise self.wrong(f"{name} is an attribute such as #stablehlo.{name}<...>")
        return found

    def field(self, of: Dialect, name: str, rank: int, sort: bool = False) -> tuple[int, ...]:
        """Axes that a field of such an attribute lists, each once; none where it is not there."""
        found = of.fields.get(name, ())
        if not isinstance(found, tuple) or not all(isinstance(v, int) and 0 <= v < rank for v in found):
            raise self.wrong(f"{name} is {found}; axes from 0 to {rank - 1} are wanted")
        if len(set(found)) != len(found) or (sort and list(found) != sorted(found)):
            raise self.wrong(f"{name} is {found}; different axes{' in order' if sort else ''} are wanted")
        return found

    def operands(self, least: int, most: int | None = None) -> None:
        """Invalid (`stablehlo.C6`) unless there are so many operands, tensors all of them."""
        most = least if most is None else most
        if not least <= len(self.args) <= most:
            raise self.wrong(
                f"{least if least == most else f'{least} to {most}'} operands are wanted, not {len(self.args)}"
            )
        for a in self.args:
            if not isinstance(a.type, TensorType):
                raise self.wrong(f"an operand is {a.type}; tensors are wanted")

    # --- types -----------------------------------------------------------------------------------------------------

    def result(self, index: int = 0) -> TensorText:
        """The type of a result as the text says it, a tensor."""
        types = self.op.types
        found = types[index] if index < len(types) else None
        if not isinstance(found, TensorText):
            raise self.wrong(f"the type of its result {index} is missing, or no tensor")
        return found

    def static_result(self, index: int = 0) -> tuple[int, ...]:
        """The sizes of a result, all of them numbers."""
        shape = self.result(index).shape
        if None in shape:
            raise self.wrong(f"the result is {self.result(index)}; its sizes are numbers")
        return tuple(d for d in shape if d is not None)

    def quantized(self, index: int) -> QuantizedElement | None:
        """How operand `index` is quantised, if it is."""
        of = self.arg_types[index]
        return of.element if isinstance(of, TensorText) and isinstance(of.element, QuantizedElement) else None


HloRule: TypeAlias = Callable[[HloNode], Any]
"""What an operation means: the one expression of its result, a list of them, or a task that gives either."""


def tensor_of(x: Expr) -> TensorType:
    """The type of an expression that is a tensor."""
    if not isinstance(x.type, TensorType):
        raise Invalid(f"{x.type} is no tensor", label="stablehlo.C6")
    return x.type
