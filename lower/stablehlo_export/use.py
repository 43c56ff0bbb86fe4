"""One use of an operator, as the rules of export to StableHLO see it (specs/lower.md, "Export")."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from assay.lower.stablehlo_export.sizes import HloSizes
from assay.lower.stablehlo_export.writer import (
    HloBlock,
    HloValue,
    HloWriter,
    Shape,
    compare_text,
    ints_text,
    numbers_of,
    pairs_text,
    same_sizes,
)
from assay.semantics.dtypes import BOOL, FLOAT32, INT32, INT64, DType
from assay.semantics.errors import Unsupported
from assay.semantics.ops.common import broadcast_shapes
from assay.semantics.ops.sizes import ceil_div, floor_div, product
from assay.semantics.scalar import Dim, simplify
from assay.semantics.types import TensorType, Type

COMBINED = {"add": "add", "mul": "multiply", "max": "maximum", "min": "minimum"}
"""The operation of a region, by what a reduction is called here."""


@dataclass(frozen=True, eq=False)
class HloUse:
    """An operator with its attributes, the tensors that are its operands, and the type of its result. A size is a
    number, or an expression of symbols that have values in the text: then what depends on it is said in the dynamic
    form of its operation."""

    writer: HloWriter
    sizes: HloSizes
    name: str
    attrs: Mapping[str, Any]
    args: tuple[HloValue, ...]
    result: Type

    # --- operands and results

    @property
    def shape(self) -> Shape:
        """The sizes of the result, of an operator that gives one tensor."""
        assert isinstance(self.result, TensorType)
        return tuple(map(simplify, self.result.shape))

    @property
    def to(self) -> DType:
        """The element type of the result, of an operator that gives one tensor."""
        assert isinstance(self.result, TensorType)
        return self.result.dtype

    @property
    def dtype(self) -> DType:
        """The element type of the first operand."""
        return self.args[0].dtype

    @property
    def rank(self) -> int:
        """The rank of the first operand."""
        return self.args[0].rank

    def axis(self, name: str = "axis") -> int:
        """An attribute that is an axis of the first operand, counted from the front."""
        given: int = self.attrs[name]
        return given % self.rank if self.rank else 0

    def axes(self, name: str = "axis") -> tuple[int, ...]:
        """An attribute that is some axes of the first operand, in order; all for None."""
        given = self.attrs[name]
        return tuple(range(self.rank)) if given is None else tuple(sorted(a % self.rank for a in given))

    def unsupported(self, message: str) -> Unsupported:
        """The failure (`stablehlo_export.C2`) for a use of this operator that StableHLO cannot say."""
        return Unsupported(f"{self.name}: {message}", label="stablehlo_export.C2")

    def number(self, d: Dim, what: str) -> int:
        """A size where only a number can be said. Unsupported (`stablehlo_export.C3`) for another."""
        if not isinstance(d, int):
            raise Unsupported(
                f"{self.name}: {what} is {d}, where StableHLO wants a number; say sizes with --dim",
                label="stablehlo_export.C3",
            )
        return d

    # --- operations

    def op(
        self, name: str, *args: HloValue, shape: Shape | None = None, of: DType | None = None, **attrs: str
    ) -> HloValue:
        """One operation of StableHLO; its result has the sizes and element type of the first operand if no others are
        said. A name with a dot is of another dialect."""
        first = args[0] if args else None
        shape = first.shape if shape is None and first is not None else shape or ()
        of = first.dtype if of is None and first is not None else of
        assert of is not None
        return self.writer.op(name if "." in name else f"stablehlo.{name}", args, [(shape, of)], attrs)[0]

    def constant(self, array: Any, of: DType) -> HloValue:
        """A constant."""
        return self.writer.constant(array, of)

    def filled(self, number: Any, like: HloValue, shape: Shape | None = None) -> HloValue:
        """A number, rounded to the element type of `like`, at every place of it, or of another shape."""
        with np.errstate(over="ignore"):
            rounded = np.asarray(number).astype(like.dtype.numpy)
        return self.full(rounded, like.dtype, like.shape if shape is None else shape)

    def full(self, number: Any, of: DType, shape: Shape) -> HloValue:
        """A number of an element type at every place of a shape."""
        known = numbers_of(shape)
        return (
            self.placed(self.writer.filled(number, of, ()), shape, [])
            if known is None
            else self.writer.filled(number, of, known)
        )

    def size(self, d: Dim, like: HloValue) -> HloValue:
        """A size, in the element type of `like`, at every place of it."""
        if isinstance(d, int):
            return self.filled(d, like)
        return self.placed(self.cast(self.sizes.scalar(d), like.dtype), like.shape, [])

    def each(self, name: str, *args: HloValue, of: DType | None = None, **attrs: str) -> HloValue:
        """An elementwise operation of operands that are stretched to one shape."""
        shape = broadcast_shapes(self.name, [a.shape for a in args])
        return self.op(name, *(self.stretched(a, shape) for a in args), shape=shape, of=of, **attrs)

    def compared(self, direction: str, a: HloValue, b: HloValue) -> HloValue:
        """Whether a is EQ, NE, LT, LE, GT or GE b."""
        return self.each("compare", a, b, of=BOOL, comparison_direction=compare_text(direction))

    def select(self, condition: HloValue, a: HloValue, b: HloValue) -> HloValue:
        """a where the condition holds, else b."""
        return self.each("select", condition, a, b, of=a.dtype)

    def cast(self, x: HloValue, to: DType) -> HloValue:
        """x in another element type, unless it has that."""
        return x if x.dtype is to else self.op("convert", x, of=to)

    # --- movement

    def shaped(self, x: HloValue, shape: Sequence[Dim]) -> HloValue:
        """x in another shape."""
        if same_sizes(x.shape, shape):
            return x
        if numbers_of(shape) is not None:
            return self.op("reshape", x, shape=tuple(shape))
        kept = [a for a, d in enumerate(shape) if d != 1]
        if same_sizes(x.shape, [shape[a] for a in kept]):  # in words that more readers take
            made = self.placed(x, tuple(shape), kept)
            self.writer.raised[made.name] = x, kept
            return made
        return self.op("dynamic_reshape", x, self.sizes.vector(shape), shape=tuple(shape))

    def placed(self, x: HloValue, shape: Shape, axes: Sequence[int]) -> HloValue:
        """x repeated to a shape, of which its own axes are these."""
        if same_sizes(x.shape, shape) and list(axes) == list(range(x.rank)):
            return x
        if numbers_of((*shape, *x.shape)) is not None:
            return self.op("broadcast_in_dim", x, shape=shape, broadcast_dimensions=ints_text(axes))
        x, inner = self.writer.raised.get(x.name, (x, range(x.rank)))
        axes = [axes[a] for a in inner]
        sizes, said = self.sizes.vector(shape), ints_text(axes)
        own = [(k, same_sizes([d], [shape[a]])) for k, (d, a) in enumerate(zip(x.shape, axes, strict=True))]
        return self.op(
            "dynamic_broadcast_in_dim", x, sizes, shape=shape, broadcast_dimensions=said,
            known_expanding_dimensions=ints_text([k for k, same in own if not same and same_sizes([x.shape[k]], [1])]),
            known_nonexpanding_dimensions=ints_text([k for k, same in own if same]),
        )  # fmt: skip

    def stretched(self, x: HloValue, shape: Shape) -> HloValue:
        """x repeated to a shape as NumPy does it: aligned at the end."""
        return self.placed(x, shape, range(len(shape) - x.rank, len(shape)))

    def ordered(self, x: HloValue, axes: Sequence[int]) -> HloValue:
        """x with its axes in another order."""
        if list(axes) == list(range(x.rank)):
            return x
        return self.op("transpose", x, shape=tuple(x.shape[a] for a in axes), permutation=ints_text(axes))

    def cut(self, x: HloValue, axis: int, begin: Dim, end: Dim, step: int = 1) -> HloValue:
        """Each step-th element of an axis from a place on and before another."""
        if step == 1 and same_sizes((begin, end), (0, x.shape[axis])):
            return x
        begins: list[Dim] = [0] * x.rank
        ends, steps = list(x.shape), [1] * x.rank
        begins[axis], ends[axis], steps[axis] = begin, end, step
        shape = tuple(ceil_div(simplify(e - b), s) for b, e, s in zip(begins, ends, steps, strict=True))
        known = numbers_of(begins), numbers_of(ends)
        if known[0] is None or known[1] is None:
            places = (self.sizes.vector(v) for v in (begins, ends, steps))
            return self.op("real_dynamic_slice", x, *places, shape=shape)
        return self.op(
            "slice", x, shape=shape,
            start_indices=ints_text(known[0]), limit_indices=ints_text(known[1]), strides=ints_text(steps),
        )  # fmt: skip

    def turned(self, x: HloValue, axis: int) -> HloValue:
        """x with an axis backwards."""
        return self.op("reverse", x, dimensions=ints_text([axis]))

    def joined(self, xs: Sequence[HloValue], axis: int) -> HloValue:
        """Tensors one after another along an axis."""
        if len(xs) == 1:
            return xs[0]
        shape = list(xs[0].shape)
        shape[axis] = simplify(sum((x.shape[axis] for x in xs[1:]), shape[axis]))
        return self.op("concatenate", *xs, shape=tuple(shape), dimension=f"{axis} : i64")

    def padded(self, x: HloValue, fill: Any, low: Sequence[int], high: Sequence[int]) -> HloValue:
        """x with a number around it; widths below 0 crop."""
        if not any((*low, *high)):
            return x
        shape = tuple(simplify(n + (a + b)) for n, a, b in zip(x.shape, low, high, strict=True))
        return self.op(
            "pad", x, self.filled(fill, x, ()), shape=shape,
            edge_padding_low=ints_text(low), edge_padding_high=ints_text(high),
            interior_padding=ints_text([0] * x.rank),
        )  # fmt: skip

    def line(self, of: DType, shape: Shape, axis: int = 0) -> HloValue:
        """0, 1, 2, ... along an axis."""
        said = f"{axis} : i64"
        if numbers_of(shape) is not None:
            return self.op("iota", shape=shape, of=of, iota_dimension=said)
        return self.op("dynamic_iota", self.sizes.vector(shape), shape=shape, of=of, iota_dimension=said)

    # --- reductions

    def region(self, of: Sequence[DType], made: Callable[[list[HloValue]], Sequence[HloValue]]) -> str:
        """A region of scalars of these element types."""
        params = [self.writer.value((), d) for d in of]
        self.writer.blocks.append(HloBlock())
        results = made(params)
        lines = self.writer.blocks.pop().lines
        named = ", ".join(f"{p.name}: {p.type}" for p in params)
        types = ", ".join(r.type for r in results)
        end = f'"stablehlo.return"({", ".join(r.name for r in results)}) : ({types}) -> ()'
        return "{\n" + "\n".join([f"^bb0({named}):", *lines, end]) + "\n}"

    def combining(self, how: str, of: DType) -> str:
        """The region that combines two: "add", "mul", "max" or "min"; for bools max is or, and min is and."""
        name = {"max": "or", "min": "and"}[how] if of is BOOL else COMBINED[how]
        return self.region([of, of], lambda p: [self.op(name, *p)])

    def neutral(self, how: str, of: DType) -> Any:
        """What changes nothing: of "max" the least, of "min" the largest."""
        if how in ("add", "mul"):
            return int(how == "mul")
        if of is BOOL:
            return how == "min"
        if not of.is_float:
            return of.min if how == "max" else of.max
        return endless(of, -1 if how == "max" else 1)

    def reduced(self, how: str, x: HloValue, axes: Sequence[int]) -> HloValue:
        """The elements along some axes as one. The axes go."""
        if not axes:
            return x
        init = self.filled(self.neutral(how, x.dtype), x, ())
        shape = tuple(d for a, d in enumerate(x.shape) if a not in axes)
        attrs = {"dimensions": ints_text(sorted(axes))}
        return self.writer.op("stablehlo.reduce", [x, init], [(shape, x.dtype)], attrs, [self.combining(how, x.dtype)])[
            0
        ]

    def windowed(
        self, how: str, x: HloValue, sizes: Sequence[int], strides: Sequence[int], dilation: Sequence[int],
        padding: Sequence[tuple[int, int]],
    ) -> HloValue:  # fmt: skip
        """The elements of each window as one; padding changes nothing."""
        counts = []
        for d, n, s, k, (a, b) in zip(x.shape, sizes, strides, dilation, padding, strict=True):
            counts.append(simplify(floor_div(simplify(d + (a + b - ((n - 1) * k + 1))), s) + 1))
        init = self.filled(self.neutral(how, x.dtype), x, ())
        attrs = {
            "window_dimensions": ints_text(sizes), "window_strides": ints_text(strides),
            "window_dilations": ints_text(dilation), "base_dilations": ints_text([1] * x.rank),
            "padding": pairs_text(padding),
        }  # fmt: skip
        made = [(tuple(counts), x.dtype)]
        return self.writer.op("stablehlo.reduce_window", [x, init], made, attrs, [self.combining(how, x.dtype)])[0]

    def sum_in(self, x: HloValue) -> HloValue:
        """x in the type in which it is added up: floats of less than 32 bits, and narrow integers, in 32."""
        if x.dtype.bits >= 32:
            return x
        return self.cast(x, FLOAT32 if x.dtype.is_float else INT32)

    def total(self, x: HloValue, axes: Sequence[int], keepdims: bool = False) -> HloValue:
        """The sum along some axes, added up in 32 bits at least and rounded once."""
        made = self.cast(self.reduced("add", self.sum_in(x), axes), x.dtype)
        return self.shaped(made, kept(x.shape, axes)) if keepdims else made

    def mean(self, x: HloValue, axes: Sequence[int], keepdims: bool = False) -> HloValue:
        """The sum along some axes divided by how many there are, rounded once where it is narrow."""
        total = self.reduced("add", self.sum_in(x), axes)
        count = simplify(product([x.shape[a] for a in axes]))
        made = self.cast(self.op("divide", total, self.size(count, total)), x.dtype)
        return self.shaped(made, kept(x.shape, axes)) if keepdims else made

    def place(self, indices: HloValue, sizes: Sequence[Dim]) -> HloValue:
        """Indices as int64, those below 0 counted from the end: of an axis of that size, or the last axis of them has
        one for each of several."""
        if indices.dtype.kind == "uint":
            return self.cast(indices, INT64)
        wide = self.cast(indices, INT64)
        if len(sizes) == 1:
            size = self.size(sizes[0], wide)
        else:
            size = self.placed(self.sizes.vector(sizes), wide.shape, [wide.rank - 1])
        return self.select(self.compared("LT", wide, self.filled(0, wide)), self.op("add", wide, size), wide)


def kept(shape: Shape, axes: Sequence[int]) -> Shape:
    """A shape in which some axes have size 1."""
    return tuple(1 if a in axes else d for a, d in enumerate(shape))


def endless(of: DType, sign: int) -> Any:
    """The infinity of a sign, or the largest number of a type that has none."""
    with np.errstate(all="ignore"):
        found = np.asarray(sign * np.inf).astype(of.numpy)
    if np.isinf(found.astype(np.float64)):
        return sign * np.inf
    return float(of.max if sign > 0 else of.min)


HloResults: TypeAlias = HloValue | Sequence[HloValue]
HloExportRule: TypeAlias = Callable[[HloUse], HloResults]
