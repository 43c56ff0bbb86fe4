"""How often elements occur, and which are different (specs/lower.md, "torch.export").

PyTorch: torch.histc, torch.bincount, torch.repeat_interleave, torch.unique, torch.unique_consecutive, torch.mode. How
many elements there are in a result, the run tells.
"""

from __future__ import annotations

import math

from assay.lower.frontends.stretching import claimed
from assay.lower.frontends.torch_export.node import AtenNode, AtenRule, aten_type
from assay.lower.frontends.torch_export.operators.indexing import places_of
from assay.lower.frontends.torch_export.operators.orders import with_place
from assay.semantics.dtypes import BOOL, DTYPES, FLOAT32, FLOAT64, INT64
from assay.semantics.graph import Expr
from assay.semantics.ops.sizes import product
from assay.semantics.scalar import Dim, simplify

# --- counts


def histc(node: AtenNode) -> Expr:
    """How many elements are in each of some bins of one width; what is outside of all, or NaN, is not counted. The last
    bin has its end. Without limits they are those of the elements."""
    x, bins = node.tensor(), node.whole("bins", 100)
    of, count = aten_type(x).dtype, product(aten_type(x).shape)
    if of.bits < 32 or not of.is_float:
        raise node.unsupported(f"elements of {of}")
    if bins < 1:
        raise node.wrong(f"bins is {bins}; 1 or more are wanted")
    x = node.shaped(x, count, 1)
    low, high = _limits(node, x)
    width = node.call("subtract", high, low)
    node.require(node.call("less", node.call("abs", width), math.inf), "the limits of the bins are not finite")
    held = node.call("logical_and", node.call("greater_equal", x, low), node.call("less_equal", x, high))
    place = node.call("divide", node.call("multiply", node.call("subtract", x, low), bins), width)
    place = node.call("minimum", node.call("floor", place), bins - 1)
    here = node.call("logical_and", held, node.call("equal", place, node.line(bins, of)))
    return node.cast(node.call("sum", node.cast(here, INT64), axis=(0,), keepdims=False), of)


def _limits(node: AtenNode, x: Expr) -> tuple[Expr, Expr]:
    """Where the first bin begins and where the last one ends. Those of one point are 1 away from it."""
    of, size = aten_type(x).dtype, aten_type(x).shape[0]
    low, high = float(node.number("min", 0)), float(node.number("max", 0))
    if low > high or not math.isfinite(high - low):
        raise node.wrong(f"min is {low}, max is {high}; finite numbers are wanted, of which max is not the smaller one")
    given = [node.constant(v, of) for v in (low, high)]
    if low < high:
        return given[0], given[1]
    if size == 0:
        ends: list[Expr] = given
    elif isinstance(size, int):
        ends = [node.call(op, x, axis=(0, 1), keepdims=False) for op in ("min", "max")]
    else:
        raise node.unsupported(f"the limits of {size} elements, which have to be a number,")
    same = node.call("equal", *ends)
    return node.call("where", same, node.call("subtract", ends[0], 1), ends[0]), node.call(
        "where", same, node.call("add", ends[1], 1), ends[1]
    )


def bincount(node: AtenNode) -> Expr:
    """How often each whole number from 0 on occurs, or the sum of the weights there; up to the largest one, and so many
    at least. A run with a number below 0 traps."""
    x, least = node.cast(node.tensor(), INT64), node.whole("minlength", 0)
    size = aten_type(x).shape
    if len(size) != 1 or least < 0:
        raise node.wrong(f"self is {x.type}, minlength is {least}; a vector and a number of 0 or more are wanted")
    weights = node.full(size, 1, INT64)
    if node.has("weights"):
        given = node.tensor("weights")
        weights = given if aten_type(given).dtype is FLOAT32 else node.cast(given, FLOAT64)
        weights = claimed(node.builder, weights, size, node.builder.span)
    node.require(node.every(node.call("greater_equal", x, 0)), "an element is negative")
    every = node.call("concat", x, node.constant([least - 1], INT64), axis=0)
    most = node.call("max", every, axis=(0,), keepdims=True)
    (count,) = node.builder.measured(node.call("add", most, 1), "bins")
    nothing = node.full([count], 0, aten_type(weights).dtype)
    return node.call("scatter_nd", nothing, node.shaped(x, *size, 1), weights, reduction="add")


def repeated(node: AtenNode) -> Expr:
    """Each slice along an axis as often as a vector says; of the vector alone, the number of each element. As many as
    only a run knows, unless it is said, when a run with others traps."""
    x = node.tensor() if "self" in node.args else None
    times = node.tensor("repeats")
    if aten_type(times).dtype.name not in ("int32", "int64"):
        raise node.wrong(f"repeats is {times.type}; int32 or int64 is wanted")
    kind = aten_type(times).dtype
    times = node.shaped(node.cast(times, INT64), product(aten_type(times).shape))
    if x is None:
        return node.cast(_repetitions(node, times), kind)
    if not node.has("dim") or not aten_type(x).ndim:
        x = node.shaped(x, product(aten_type(x).shape))
    axis = node.axis(aten_type(x).ndim) if node.has("dim") else 0
    size = aten_type(x).shape[axis]
    known = aten_type(times).shape[0]
    if isinstance(known, int) and known == 1:
        times = node.stretched(times, size)
    times = claimed(node.builder, times, (size,), node.builder.span)
    return node.call("take", x, _repetitions(node, times), axis=axis)


def _repetitions(node: AtenNode, times: Expr) -> Expr:
    """The places 0, 1, 2, ..., each so many times."""
    (size,) = aten_type(times).shape
    node.require(node.every(node.call("greater_equal", times, 0)), "a repeat is negative")
    total = node.call("sum", times, axis=(0,), keepdims=True)
    if node.has("output_size"):
        count = node.sizes("output_size")[0]
        fits = node.shaped(node.call("equal", total, node.amount(count)))
        node.require(fits, f"there are not {count} repeats, as output_size says")
    else:
        (count,) = node.builder.measured(total, "repeats")
    ends = node.shaped(node.call("cumsum", times, axis=0), 1, size)
    before = node.call("less_equal", ends, node.shaped(node.line(count), count, 1))
    return node.call("sum", node.cast(before, INT64), axis=(1,), keepdims=False)


# --- what is different


def unique(node: AtenNode) -> list[Expr]:
    """The elements without repetition in ascending order; the place in these of each, and how often it occurs. NaN is
    above all numbers, and each is another one. Of equal zeros the first is taken."""
    if not node.flag("sorted", True):
        raise node.unsupported("sorted = False, which leaves the order open,")
    x = node.tensor()
    shape, size = aten_type(x).shape, product(aten_type(x).shape)
    of = aten_type(x).dtype
    flat = node.shaped(node.cast(x, DTYPES["uint8"]) if of is BOOL else x, size)
    found = node.call("topk", flat, k=size, axis=0, largest=False)
    values, numbers, counts = _runs(node, node.field(found, 0))
    places = node.shaped(node.field(found, 1), size, 1)
    inverse = node.call("scatter_nd", node.full([size], 0, INT64), places, numbers, reduction="none")
    return _asked(node, node.cast(values, of), node.shaped(inverse, *shape), counts)


def unique_consecutive(node: AtenNode) -> list[Expr]:
    """The elements without those that equal the one before; the place in these of each, and how many were equal."""
    if node.has("dim"):
        raise node.unsupported("slices along an axis")
    x = node.tensor()
    values, numbers, counts = _runs(node, node.shaped(x, product(aten_type(x).shape)))
    return _asked(node, values, node.shaped(numbers, *aten_type(x).shape), counts)


def _runs(node: AtenNode, x: Expr) -> tuple[Expr, Expr, Expr]:
    """The first element of each run of equal ones of a vector, for each element the number of its run, and how long
    each run is."""
    (size,) = aten_type(x).shape
    former = node.cut(x, 0, 0, simplify(size - 1)) if not isinstance(size, int) or size else x
    other = node.call("not_equal", node.cut(x, 0, 1, size), former)
    first = node.call("equal", node.cut(node.line(size), 0, 0, 1), 0)  # of none, where there are no elements
    new = claimed(node.builder, node.call("concat", first, other, axis=0), (size,), node.builder.span)
    (begins,) = places_of(node, new)
    (count,) = aten_type(begins).shape
    numbers = node.call("subtract", node.call("cumsum", node.cast(new, INT64), axis=0), 1)
    ones = node.full([size], 1, INT64)
    rows = node.shaped(numbers, size, 1)
    counts = node.call("scatter_nd", node.full([count], 0, INT64), rows, ones, reduction="add")
    return node.call("take", x, begins, axis=0), numbers, counts


def _asked(node: AtenNode, values: Expr, inverse: Expr, counts: Expr) -> list[Expr]:
    """The results, of which those that are not asked for have no elements."""
    empty = node.constant([], INT64)
    return [
        values,
        inverse if node.flag("return_inverse") else empty,
        counts if node.flag("return_counts") else empty,
    ]


def mode(node: AtenNode) -> list[Expr]:
    """The element that is most often along an axis, the smallest of several, and a place where it is. A run with NaN
    traps, for PyTorch sorts it by no order."""
    x = node.tensor()
    shape, of = aten_type(x).shape, aten_type(x).dtype
    axis = node.axis(len(shape), default=-1)
    x = x if shape else node.shaped(x, 1)
    if of.is_float:
        numbers = node.call("equal", x, x)
        node.require(node.every(numbers), "an element is NaN")
    wide = node.cast(x, DTYPES["uint8"]) if of is BOOL else x
    sizes: list[Dim] = list(aten_type(x).shape)
    if sizes[axis] == 0:
        raise node.wrong("there are no elements")
    same = node.call("equal", node.shaped(wide, *sizes[: axis + 1], 1, *sizes[axis + 1 :]),
                     node.shaped(wide, *sizes[:axis], 1, *sizes[axis:]))  # fmt: skip
    often = node.call("sum", node.cast(same, INT64), axis=(axis + 1,), keepdims=False)
    most = node.call("equal", often, node.call("max", often, axis=(axis,), keepdims=True))
    kind = aten_type(wide).dtype
    above = node.as_tensor(math.inf if kind.is_float else int(kind.max), kind)
    value = node.call("min", node.call("where", most, wide, above), axis=(axis,), keepdims=True)
    return with_place(node, x, node.cast(value, of), axis, shape)


TABLE: dict[str, AtenRule] = {
    "_unique2": unique,
    "bincount": bincount,
    "histc": histc,
    "mode": mode,
    "unique_consecutive": unique_consecutive,
}
