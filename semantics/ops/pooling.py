"""Pooling: one value for each window over the spatial axes of x[N, C, *spatial] (specs/semantics.md, "Pooling").

Window o of an axis starts at o * stride - padding before, and takes `pool_size` elements that are `dilation` apart;
its span is (pool_size - 1) * dilation + 1. Without ceil_mode windows end within the padded input. With it the last one
may reach beyond, if it starts before the padding after the input does; TVM and torch have the same rule.

The value takes one spatial axis after another: a maximum of maxima is exact, and a sum of sums is one of the orders
that the bound allows. Each axis costs `pool_size` vectorised steps over the whole tensor, whatever its extent.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from assay.semantics.arrays import is_plain
from assay.semantics.bounds import Bounded, windows
from assay.semantics.budget import claim
from assay.semantics.dtypes import DType, dtype
from assay.semantics.errors import Trap
from assay.semantics.operator import Attr, Attrs, Example, Operator
from assay.semantics.ops.common import require_kind
from assay.semantics.ops.reduction import accumulator, negative_zeros, signed_zeros, total
from assay.semantics.ops.sizes import floor_div, is_int
from assay.semantics.scalar import NUMERIC, Dim, simplify
from assay.semantics.types import TensorType

# --- geometry -----------------------------------------------------------------------------------------------------


class Axis:
    """The windows along one spatial axis."""

    def __init__(self, attrs: Attrs, rank: int, axis: int) -> None:
        self.taps: int = attrs["pool_size"][axis]
        self.stride: int = attrs["strides"][axis]
        self.dilation: int = attrs["dilation"][axis]
        self.before: int = attrs["padding"][axis]
        self.after: int = attrs["padding"][axis + rank]
        self.ceil: bool = attrs["ceil_mode"]
        self.span: int = (self.taps - 1) * self.dilation + 1

    def windows(self, size: Dim) -> Dim:
        """How many windows there are over an axis of that size."""
        # The last start is at most size + before + after - span, rounded up to a stride with ceil_mode, and then before
        # the padding after the input, that is below size + before.
        room: Dim = size + (self.before + self.after - self.span)
        if self.ceil:
            room = size + (self.before - 1 + min(0, self.after - self.span + self.stride))
        return floor_div(simplify(room + self.stride), self.stride)

    def count(self, size: int) -> int:
        """The number of windows along an axis whose size is a number."""
        found = self.windows(size)
        assert isinstance(found, int)
        return found

    def needed(self, size: int, count: int) -> int:
        """The padding after the input that the windows reach; less than 0 where they leave elements out."""
        return (count - 1) * self.stride + self.span - size - self.before

    def slices(self, count: int) -> list[slice]:
        """For each tap, the elements of the padded axis that it takes in all windows."""
        last = (count - 1) * self.stride + 1
        return [slice(t * self.dilation, t * self.dilation + last, self.stride) for t in range(self.taps)]

    def counts(self, size: int, count: int, padding: bool) -> np.ndarray[Any, Any]:
        """How many taps of each window are inside the input, or inside the input and its explicit padding."""
        low, high = (-self.before, size + self.after) if padding else (0, size)
        claim(4 * 8 * count, f"counting the taps of {count} windows")
        starts = np.arange(count) * self.stride - self.before
        before, until = (np.clip(-((starts - at) // self.dilation), 0, self.taps) for at in (low, high))
        return np.asarray(until - before)

    def fault(self, size: int, padding: bool) -> tuple[str, str] | None:
        """The constraint that an axis of that size breaks, and what is wrong with it; None if nothing is."""
        count = self.count(size)
        if size == 0 or count < 1:
            return "C6", f"no window of span {self.span} fits size {size} padded by {self.before} and {self.after}"
        if self.dilation > 1 and not self.counts(size, count, padding).all():
            return "C7", f"all elements of a window, {self.dilation} apart, miss the {size} there are"
        return None


TAP = 256
"""Bytes of a slice and of a view for it."""

Windows = list[tuple[Axis, int, int]]
"""For each spatial axis its windows, its size and its number of windows."""

# --- values -------------------------------------------------------------------------------------------------------


def _axes(name: str, attrs: Attrs, x: Any) -> Windows:
    """The windows over x; a trap where a size that was a symbol has none."""
    rank = x.ndim - 2
    out = []
    for k, size in enumerate(x.shape[2:]):
        axis = Axis(attrs, rank, k)
        fault = axis.fault(size, attrs.get("count_include_pad", False))
        if fault is not None:
            raise Trap("shape", f"{name}: axis {k + 2}: {fault[1]}", label=f"{name}.T1")
        out.append((axis, size, axis.count(size)))
    return out


def _taps(x: Any, axes: Windows, k: int, fill: Any) -> list[Any]:
    """For each tap of the k-th spatial axis, the elements that all windows of that axis take."""
    axis, size, count = axes[k]
    after = max(0, axis.needed(size, count))
    claim(axis.taps * TAP, f"pooling by windows of {axis.taps} taps")
    if axis.before or after:
        widths = [(0, 0)] * x.ndim
        widths[k + 2] = (axis.before, after)
        x = _padded(x, widths, fill)
    lead = (slice(None),) * (k + 2)
    return [x[(*lead, s)] for s in axis.slices(count)]


def _padded(x: Any, widths: list[tuple[int, int]], fill: Any) -> Any:
    shape = [before + size + after for size, (before, after) in zip(x.shape, widths, strict=True)]
    claim(prod(shape) * x.dtype.itemsize, f"padding {x.shape} to {tuple(shape)} for windows")
    return np.pad(x, widths, constant_values=fill)


def lowest(of: DType) -> Any:
    """What is below everything in a maximum: -inf, or the least number of a type that has none."""
    with np.errstate(all="ignore"):
        bottom = np.asarray(-np.inf if of.is_float else of.min).astype(of.numpy)
        if of.is_float and np.isnan(bottom):
            bottom = np.asarray(of.min).astype(of.numpy)
    return bottom[()]


def _max_pool(name: str, attrs: Attrs, x: Any) -> Any:
    axes = _axes(name, attrs, x)
    of = dtype(x.dtype)

    def windowed(a: Any, fill: Any, join: Callable[..., Any]) -> Any:
        for k in range(len(axes)):
            a = reduce(join, _taps(a, axes, k, fill))
        return a

    result = windowed(x, lowest(of), np.maximum)
    if isinstance(x, Bounded):
        return result
    if negative_zeros(x):
        # -0 is below +0 (rule M5), which NumPy's maximum leaves open
        positive = windowed((x == 0) & ~np.signbit(x), False, np.logical_or)
        result = signed_zeros(result, positive)
    return np.ascontiguousarray(result, x.dtype) if is_plain(result) else result


def _avg_pool(name: str, attrs: Attrs, x: Any) -> Any:
    axes = _axes(name, attrs, x)
    rank = len(axes)
    counts = np.ones((1, 1) + (1,) * rank, np.int64)
    for k, (axis, size, n) in enumerate(axes):
        shape = [1] * x.ndim
        shape[k + 2] = n
        counts = counts * axis.counts(size, n, attrs["count_include_pad"]).reshape(shape)
    if counts.size and counts.min() == counts.max():
        counts = counts[(slice(0, 1),) * x.ndim]
    return (_bounded_average if isinstance(x, Bounded) else _average)(x, axes, counts)


def _average(x: Any, axes: Windows, counts: Any) -> Any:
    # floats of less than 32 bits are summed and divided in float32, and rounded once
    a = x.astype(accumulator(x.dtype), copy=False)
    for k in range(len(axes)):
        first, *rest = _taps(a, axes, k, a.dtype.type(0))
        a = np.add(first, a.dtype.type(0))  # starts from +0
        for tap in rest:
            np.add(a, tap, out=a)
    return (a / counts.astype(a.dtype)).astype(x.dtype, copy=False)


def _bounded_average(x: Any, axes: Windows, counts: Any) -> Any:
    """One sum over each window: its interval holds for every order, that of a chain of additions for that chain."""
    widths = [(0, 0), (0, 0), *((axis.before, max(0, axis.needed(size, n))) for axis, size, n in axes)]
    padded = _padded(x, widths, x.dtype.type(0))
    each = windows(padded, *zip(*((axis.taps, axis.stride, axis.dilation) for axis, _, _ in axes), strict=True))
    inside = each[(..., *(slice(n) for _, _, n in axes), *(slice(None),) * len(axes))]
    return total(inside, tuple(range(x.ndim, x.ndim + len(axes)))) / counts.astype(x.dtype)


# --- records ------------------------------------------------------------------------------------------------------


def _ones(value: object, rank: int) -> bool:
    return isinstance(value, tuple) and len(value) == rank and all(is_int(v, 1) for v in value)


def _pooling(kind: str, rank: int) -> Operator:
    name = f"nn.{kind}_pool{rank}d"
    average = kind == "avg"

    def rule(attrs: Attrs, types: tuple[TensorType, ...]) -> TensorType:
        (x,) = types
        require_kind(name, x.dtype, ("float",) if average else NUMERIC)
        op.require(x.ndim == rank + 2, "C1", f"x is {x}; {rank + 2} axes are wanted: N, C and {rank} spatial")
        for attr in ("pool_size", "strides", "dilation"):
            op.require(
                _ones(attrs[attr], rank),
                "C2",
                f"{attr} is {attrs[attr]!r}; a tuple of {rank} positive integers is wanted",
            )
        padding = attrs["padding"]
        op.require(
            isinstance(padding, tuple) and len(padding) == 2 * rank and all(is_int(p, 0) for p in padding),
            "C3",
            f"padding is {padding!r}; {2 * rank} integers of at least 0 are wanted: those before each spatial axis,"
            " then those after",
        )
        for attr in ("ceil_mode", *(["count_include_pad"] if average else [])):
            op.require(isinstance(attrs[attr], bool), "C4", f"{attr} is {attrs[attr]!r}, not True or False")
        shape: list[Dim] = list(x.shape[:2])
        for k, size in enumerate(x.shape[2:]):
            axis = Axis(attrs, rank, k)
            op.require(
                max(axis.before, axis.after) < axis.span,
                "C5",
                f"padding ({axis.before}, {axis.after}) of axis {k + 2} is not less than the span {axis.span} of a"
                " window",
            )
            if isinstance(size, int):
                label, message = axis.fault(size, attrs.get("count_include_pad", False)) or ("", "")
                op.require(not label, label or "C6", f"axis {k + 2}: {message}")
            shape.append(axis.windows(size))
        return TensorType(tuple(shape), x.dtype)

    attrs = {
        "pool_size": Attr("the number of elements of a window along each spatial axis"),
        "strides": Attr("the distance between the starts of neighbouring windows", (1,) * rank),
        "padding": Attr("the padding before each spatial axis, then that after each", (0,) * (2 * rank)),
        "dilation": Attr("the distance between neighbouring elements of a window", (1,) * rank),
        "ceil_mode": Attr("whether a last window may reach beyond the padded input", False),
    }
    constraints = {
        "C1": f"x has {rank + 2} axes",
        "C2": f"pool_size, strides and dilation are {rank} positive integers each",
        "C3": f"padding is {2 * rank} integers, none negative",
        "C4": "flags are True or False",
        "C5": "padding is less than the span of a window",
        "C6": "no spatial axis has size 0, and at least one window fits each",
        "C7": "each window takes an element of the input, or one that is counted",
    }
    if average:
        attrs["count_include_pad"] = Attr(
            "whether elements of the explicit padding are counted, though not what lies beyond it in ceil_mode", False
        )
        doc = "The sum of the elements of each window that are inside the input, divided by the number of those counted"
        bound = "the bound of the sum over a window in any order, divided by the count, and half an ulp"
        value, source = _avg_pool, "AveragePool-22"
    else:
        doc = "The largest element of each window that is inside the input; NaN if one is NaN; +0 is larger than -0"
        bound = "exact"
        value, source = _max_pool, "MaxPool-22"
    op = Operator(
        name, doc, ("x",), "pooling", rule, lambda a, x: value(name, a, x), bound, _examples(rank, average),
        attrs, constraints,
        can_trap=True,
        source=f"ONNX {source}, docs/Operators.md; TVM relax.op.nn.{kind}_pool{rank}d",
    )  # fmt: skip
    return op


def _examples(rank: int, average: bool) -> tuple[Example, ...]:
    """Plain; strided and padded unevenly; dilated; a ceil_mode whose last window is partial, and one that is
    dropped."""
    x = (2, 3, *(11, 7, 8)[:rank])

    def use(of: str = "float32", **attrs: Any) -> Example:
        cut = {
            k: v[:rank] if k != "padding" else v[:rank] + v[3 : 3 + rank] for k, v in attrs.items() if k not in FLAGS
        }
        return Example(((x, of),), {**cut, **{k: v for k, v in attrs.items() if k in FLAGS}})

    out = [
        use(pool_size=(3, 2, 4)),
        use(pool_size=(3, 2, 4), strides=(2, 3, 1), padding=(1, 0, 2, 2, 1, 3)),
        use(pool_size=(2, 3, 2), dilation=(3, 2, 4), padding=(1, 2, 0, 2, 0, 1)),
        use(pool_size=(4, 3, 3), strides=(3, 3, 2), padding=(0, 1, 1, 1, 0, 1), ceil_mode=True),
        use(pool_size=(2, 2, 2), strides=(4, 4, 5), padding=(1, 1, 1, 1, 1, 1), ceil_mode=True),
    ]
    if average:
        out += [
            use(pool_size=(3, 2, 4), strides=(2, 3, 1), padding=(1, 0, 2, 2, 1, 3), count_include_pad=True),
            use(
                pool_size=(4, 3, 3),
                strides=(3, 3, 2),
                padding=(0, 1, 1, 1, 0, 1),
                ceil_mode=True,
                count_include_pad=True,
            ),
        ]
    else:
        out.append(use("int8", pool_size=(2, 2, 2), padding=(1, 0, 1, 0, 1, 0)))
    return tuple(out)


FLAGS = ("ceil_mode", "count_include_pad")

TABLE: tuple[Operator, ...] = tuple(_pooling(kind, rank) for kind in ("max", "avg") for rank in (1, 2, 3))
