"""What a rule of torch.export works with: a call of an operator with its operands (specs/lower.md, "torch.export")."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from assay.lower.frontends import stretching
from assay.lower.frontends.stablehlo.build import HloBuilder
from assay.lower.frontends.torch_export.promotion import Operand, promoted
from assay.semantics import graph, scalar
from assay.semantics.dtypes import BOOL, FLOAT32, INT64, DType
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.graph import Expr, Var
from assay.semantics.scalar import Dim, provably_equal
from assay.semantics.tasks import Task
from assay.semantics.types import TensorType

REQUIRED: Any = object()
Shape: TypeAlias = Sequence[Dim]


def aten_type(x: Expr) -> TensorType:
    """The type of a tensor."""
    assert isinstance(x.type, TensorType)
    return x.type


@dataclass(eq=False)
class AtenNode:
    """A call of an operator: its arguments by name, and what its rule asks for."""

    builder: HloBuilder
    name: str
    """Such as `add`, or `cond`."""
    overload: str
    args: Mapping[str, Any]
    """Tensors, numbers, sizes, dtypes, lists of these, None; those that are left out are not there."""
    declared: Sequence[TensorType | None] = ()
    """The types of its results as the program says them; None for what is no tensor."""
    is_size: bool = True
    """Whether a number that it gives is 0 or more, as the program says; such numbers are sizes."""
    subgraph: Callable[[Any, Sequence[Any]], Task[list[Any]]] | None = None
    """The results of a graph that is an argument, for values of its inputs."""
    writes: dict[str, Expr] = dataclasses.field(default_factory=dict)
    """New values of arguments that are tensors, which the operator writes to though its name does not say so."""

    # --- failures

    def wrong(self, message: str) -> Invalid:
        """The failure (`torch_export.C5`) for a call that is not as the operator wants it."""
        return Invalid(f"{self.name}: {message}", label="torch_export.C5")

    def unsupported(self, what: str) -> Unsupported:
        """The failure (`torch_export.C7`) for a form of the operator that is not handled."""
        return Unsupported(f"{self.name} with {what} is not handled", label="torch_export.C7")

    # --- arguments

    def get(self, name: str, default: Any = REQUIRED) -> Any:
        """An argument; the default where it is left out."""
        found = self.args.get(name, default)
        if found is REQUIRED:
            raise self.wrong(f"the argument {name} is missing; there are {', '.join(self.args) or 'none'}")
        return found

    def has(self, name: str) -> bool:
        """Whether an argument is given, and is not None."""
        return self.args.get(name) is not None

    def tensor(self, name: str = "self") -> Expr:
        """An argument that is a tensor."""
        found = self.get(name)
        if not isinstance(found, Expr):
            raise self.wrong(f"{name} is {found!r:.60}; a tensor is wanted")
        return found

    def optional(self, name: str) -> Expr | None:
        """An argument that is a tensor or is left out."""
        return self.tensor(name) if self.has(name) else None

    def tensors(self, name: str) -> list[Expr]:
        """An argument that is a list of tensors."""
        found = self.get(name)
        if not isinstance(found, list) or not all(isinstance(x, Expr) for x in found):
            raise self.wrong(f"{name} is a list of tensors")
        return list(found)

    def operand(self, name: str) -> Operand:
        """An argument that is a tensor or a number."""
        found = self.get(name)
        if not isinstance(found, (Expr, bool, int, float, scalar.Expr)):
            raise self.wrong(f"{name} is {found!r:.60}; a tensor or a number is wanted")
        return found

    def number(self, name: str, default: Any = REQUIRED) -> float:
        """An argument that is a number, known."""
        found = self.get(name, default)
        if found is None and default is not REQUIRED:
            found = default
        if not isinstance(found, (bool, int, float)):
            raise self.unsupported(f"{name} = {found!s:.60}, which only a run knows")
        return found

    def flag(self, name: str, default: bool = False) -> bool:
        """An argument that is True or False."""
        return bool(self.get(name, default))

    def whole(self, name: str, default: Any = REQUIRED) -> int:
        """An argument that is a known whole number."""
        found = self.number(name, default)
        if not isinstance(found, int):
            raise self.wrong(f"{name} is {found}; a whole number is wanted")
        return int(found)

    def sizes(self, name: str, default: Any = REQUIRED) -> list[Dim]:
        """An argument that is a list of sizes."""
        found = self.get(name, default)
        found = [found] if isinstance(found, (int, scalar.Expr)) else found
        if not isinstance(found, (list, tuple)) or not all(isinstance(d, (int, scalar.Expr)) for d in found):
            raise self.wrong(f"{name} is {found!s:.60}; a list of sizes is wanted")
        return list(found)

    def wholes(self, name: str, default: Any = REQUIRED) -> list[int]:
        """An argument that is a list of known whole numbers."""
        found = self.sizes(name, default)
        if not all(isinstance(d, int) for d in found):
            raise self.unsupported(f"{name} = {', '.join(map(str, found))}, which only a run knows")
        return [int(d) for d in found if isinstance(d, int)]

    def spatial(self, name: str, rank: int, default: Any = REQUIRED) -> tuple[int, ...]:
        """A list of whole numbers, one for each of `rank` axes; one for all, or none for the default."""
        found = self.wholes(name, default) or list(default)
        found = found * rank if len(found) == 1 else found
        if len(found) != rank:
            raise self.wrong(f"{name} is {found}; {rank} numbers are wanted")
        return tuple(found)

    def axis(self, rank: int, name: str = "dim", default: Any = REQUIRED) -> int:
        """An axis, counted from the front. A scalar is taken for a vector."""
        found = self.whole(name, default)
        rank = max(rank, 1)
        if not -rank <= found < rank:
            raise self.wrong(f"{name} is {found}; it lies from {-rank} to {rank - 1}")
        return found % rank

    def axes(self, rank: int, name: str = "dim", default: Any = None) -> tuple[int, ...]:
        """Axes, ascending; all where none are said."""
        found = self.get(name, default)
        if found is None or found == []:
            return tuple(range(rank))
        rank_ = max(rank, 1)
        made = sorted(d % rank_ for d in self.wholes(name) if -rank_ <= d < rank_)
        if len(made) != len(self.wholes(name)) or len(set(made)) != len(made):
            raise self.wrong(f"{name} is {found} for {rank} axes")
        return tuple(a for a in made if rank)

    def dtype(self, default: DType | None = None) -> DType:
        """The dtype that is asked for, else the default, else that of the declared result."""
        found = self.get("dtype", None)
        if isinstance(found, DType):
            return found
        return default or self.result().dtype

    def result(self, index: int = 0) -> TensorType:
        """The declared type of a result."""
        found = self.declared[index] if index < len(self.declared) else None
        if found is None:
            raise self.wrong(f"the type of its result {index} is not said")
        return found

    # --- expressions

    def call(self, op: str, *args: Expr | float, **attrs: Any) -> Expr:
        """The call of an operator of ours. A number is a constant of the dtype of the first tensor. Where only a run
        can find that sizes fit, it does."""
        like = next((a for a in args if isinstance(a, Expr)), None)
        of = INT64 if like is None else aten_type(like).dtype
        made = [a if isinstance(a, Expr) else self.constant(a, of) for a in args]
        span = self.builder.span
        try:
            found = graph.call(op, *made, span=span, **attrs)
        except Invalid as wrong:
            fitting = stretching.mended(self.builder, op, wrong.label, made, attrs, span)
            if fitting is None:
                raise
            found = graph.call(op, *fitting, span=span, **attrs)
        return self.builder.named(found)

    def constant(self, value: Any, of: DType) -> Expr:
        """A constant."""
        with np.errstate(over="ignore"):
            return self.builder.constant(value, of)

    def as_tensor(self, x: Operand, of: DType) -> Expr:
        """A tensor or a number in a dtype."""
        if isinstance(x, Expr):
            return self.cast(x, of)
        if isinstance(x, scalar.Expr):
            return self.cast(self.amount(x), of)
        if of.is_integer and isinstance(x, int) and not isinstance(x, bool):
            return self.constant(x, INT64) if of is INT64 else self.constant(np.int64(x), of)
        return self.constant(x, of)

    def promoted(self, *xs: Operand) -> DType:
        """The dtype that operands meet in; what the program has as a number counts as one."""
        numbers = self.builder.numbers
        stand_ins = {"float": 1.0, "bool": True}
        return promoted(
            [stand_ins.get(aten_type(x).dtype.kind, 1) if isinstance(x, Expr) and x in numbers else x for x in xs],
            aten_type,
        )

    def together(self, *xs: Operand, floats: bool = False) -> list[Expr]:
        """Operands in the dtype that they meet in; whole numbers as float32 where `floats` are wanted."""
        to = self.promoted(*xs)
        if floats and not to.is_float:
            to = FLOAT32
        return [self.as_tensor(x, to) for x in xs]

    def cast(self, x: Expr, to: DType) -> Expr:
        """`x` in a dtype. A float that an integer dtype does not have becomes anything, as in C; one that is too large
        for float8_e4m3fn its largest number, an infinity too, since PyTorch 2.14."""
        of = aten_type(x).dtype
        if of is to:
            return x
        if to.name == "float8_e4m3fn":
            x = x if of.is_float and of.bits > 8 else self.call("astype", x, dtype="float32")
            x = self.call("clip", x, min=to.min, max=to.max)
            of = aten_type(x).dtype
        more = {"open": True} if of.is_float and to.is_integer else {}
        return self.call("astype", x, dtype=to.name, **more)

    def work(self, x: Expr) -> Expr:
        """`x` in the dtype in which PyTorch computes on it: float32 for narrower floats."""
        of = aten_type(x).dtype
        return self.cast(x, FLOAT32) if of.is_float and of.bits < 32 else x

    def shaped(self, x: Expr, *shape: Dim) -> Expr:
        """`x` reshaped; one size may be -1."""
        if len(shape) == aten_type(x).ndim and all(map(provably_equal, shape, aten_type(x).shape)):
            return x
        x, sizes = stretching.to_reshape(self.builder, x, shape, self.builder.span)
        return self.call("reshape", x, shape=tuple(sizes))

    def stretched(self, x: Expr, *shape: Dim) -> Expr:
        """`x` broadcast to a shape."""
        if len(shape) == aten_type(x).ndim and all(map(provably_equal, shape, aten_type(x).shape)):
            return x
        x = stretching.stretched(self.builder, x, shape, self.builder.span)
        return self.call("broadcast_to", x, shape=tuple(shape))

    def permuted(self, x: Expr, axes: Sequence[int]) -> Expr:
        """`x` with its axes in that order."""
        return x if list(axes) == list(range(len(axes))) else self.call("permute_dims", x, axes=tuple(axes))

    def line(self, size: Dim, of: DType = INT64) -> Expr:
        """0, 1, 2, ..., `size` of them."""
        return self.call("arange", size=size, dtype=of.name)

    def along(self, x: Expr, axis: int, rank: int) -> Expr:
        """A vector as a tensor of so many axes, along one of them."""
        return self.shaped(x, *(aten_type(x).shape[0] if a == axis else 1 for a in range(rank)))

    def amount(self, size: Dim) -> Expr:
        """A size, or what is computed of sizes, as a scalar of int64."""
        if isinstance(size, int):
            return self.constant(size, INT64)
        return self.shaped(self.call("shape_of", self.line(size)))

    def cut(self, x: Expr, axis: int, begin: Dim, end: Dim, step: int = 1) -> Expr:
        """A part of an axis."""
        return self.call("strided_slice", x, axes=(axis,), begin=(begin,), end=(end,), strides=(step,))

    def full(self, shape: Shape, value: Operand, of: DType) -> Expr:
        """One number everywhere."""
        return self.stretched(self.as_tensor(value, of), *shape)

    def field(self, value: Expr, index: int) -> Var:
        """A field of a tuple, named."""
        return self.builder.named(graph.get(value, index))

    def every(self, x: Expr) -> Expr:
        """Whether all of some bools are true; of none they are."""
        off = self.call("sum", self.cast(self.call("logical_not", x), INT64), axis=None, keepdims=False)
        return self.call("equal", off, 0)

    def require(self, condition: Expr, message: str) -> None:
        """Let a run trap where a condition does not hold, unless it is known to."""
        known = self.builder.contents(condition)
        if known is None or known.item() is not True:
            text = message.replace("{", "(").replace("}", ")")
            self.builder.named(graph.assert_op(condition, format=text, span=self.builder.span), "required")

    def with_(self, /, **changes: Any) -> AtenNode:
        """A copy with other arguments."""
        return replace(self, args={**self.args, **changes})


AtenRule: TypeAlias = Callable[[AtenNode], Any]
"""What an operator means: a tensor, a list of results, or a task that gives either."""


def truth(node: AtenNode, x: Operand) -> Expr:
    """Whether an operand is not 0; NaN is not."""
    tensor = x if isinstance(x, Expr) else node.as_tensor(x, node.promoted(x))
    return tensor if aten_type(tensor).dtype is BOOL else node.call("not_equal", tensor, 0)
