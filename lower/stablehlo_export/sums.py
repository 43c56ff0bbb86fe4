"""Contractions, reductions, running sums, pools and normalizations as StableHLO (specs/lower.md, "Export")."""

from __future__ import annotations

from math import prod

import numpy as np

from assay.lower.stablehlo_export.use import HloExportRule, HloUse, kept
from assay.lower.stablehlo_export.writer import HloValue, ints_text, numbers_of, pairs_text
from assay.semantics.dtypes import FLOAT64, INT64
from assay.semantics.ops.common import broadcast_shapes
from assay.semantics.ops.matrices import bins
from assay.semantics.ops.pooling import Axis
from assay.semantics.ops.sizes import product as product_of
from assay.semantics.scalar import simplify

PRECISE = "[#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]"
MOST_BINS = 1 << 12
"""Elements of a transform that is said as a product with a matrix."""

# --- contractions -------------------------------------------------------------------------------------------------


def matmul(use: HloUse) -> HloValue:
    """The axes before the last two are stretched to one another and batched."""
    a, b = (use.sum_in(x) if x.dtype.is_integer or x.dtype.bits < 16 else x for x in use.args)
    a = use.shaped(a, (1, *a.shape)) if a.rank == 1 else a
    b = use.shaped(b, (*b.shape, 1)) if b.rank == 1 else b
    batch = broadcast_shapes(use.name, [a.shape[:-2], b.shape[:-2]])
    a, b = (use.stretched(x, (*batch, *x.shape[-2:])) for x in (a, b))
    made = product(use, a, b, len(batch))
    return use.shaped(use.cast(made, use.dtype), use.shape)


def product(use: HloUse, a: HloValue, b: HloValue, batch: int) -> HloValue:
    """The matrix product of the last two axes; the first ones are batched."""
    axes = list(range(batch))
    numbers = (
        f"#stablehlo.dot<lhs_batching_dimensions = {axes}, rhs_batching_dimensions = {axes},"
        f" lhs_contracting_dimensions = [{batch + 1}], rhs_contracting_dimensions = [{batch}]>"
    )
    shape = (*a.shape[:-1], b.shape[-1])
    return use.op("dot_general", a, b, shape=shape, dot_dimension_numbers=numbers, precision_config=PRECISE)


def conv(use: HloUse) -> HloValue:
    """Export a convolution; sums of narrow integers have 32 bits, of which the lowest are kept."""
    x, w, *bias = (use.sum_in(v) if v.dtype.is_integer or v.dtype.bits < 16 else v for v in use.args)
    rank = x.rank - 2
    places = ", ".join(map(str, range(rank)))
    padding = use.attrs["padding"]
    y = use.op(
        "convolution", x, w, shape=use.shape,
        dimension_numbers=f"#stablehlo.conv<[b, f, {places}]x[o, i, {places}]->[b, f, {places}]>",
        window_strides=ints_text(use.attrs["strides"]), rhs_dilation=ints_text(use.attrs["dilation"]),
        padding=pairs_text(list(zip(padding[:rank], padding[rank:], strict=True))),
        feature_group_count=f"{use.attrs['groups']} : i64", batch_group_count="1 : i64", precision_config=PRECISE,
    )  # fmt: skip
    if bias:
        y = use.op("add", y, use.placed(bias[0], y.shape, [1]))
    return use.cast(y, use.dtype)


def dft(use: HloUse) -> HloValue:
    """A product with the cosines and sines: StableHLO's own transform is of complex numbers. Of a spectrum of which
    half is there, what is missing is the half mirrored, with the other sign of its imaginary part."""
    (x,) = use.args
    length, inverse = use.attrs["length"], use.attrs["inverse"]
    before, after = bins(use.attrs)
    if length > MOST_BINS:
        raise use.unsupported(f"a transform of {length} elements; {MOST_BINS} are the most")
    angles = 2 * np.pi * (np.outer(np.arange(before), np.arange(after)) % length) / length
    scale = np.full((before, 1), 1 / length if inverse else 1.0)
    if inverse and use.attrs["onesided"]:
        mirrored = (np.arange(before) > 0) & (2 * np.arange(before) != length)
        scale = scale * np.where(mirrored, 2.0, 1.0)[:, None]
    cosine, sine = np.cos(angles) * scale, (1 if inverse else -1) * np.sin(angles) * scale
    parts = use.number(x.shape[-1], "how many parts a number has")
    made = [[cosine, sine], [-sine, cosine]][:parts]
    columns = [np.concatenate(side) for side in zip(*made, strict=True)][
        : use.number(use.shape[-1], "how many parts a number has")
    ]
    work = use.cast(x, FLOAT64) if x.dtype is FLOAT64 else use.sum_in(x)
    lead = x.shape[:-2]
    order = [*range(len(lead)), x.rank - 1, x.rank - 2]
    row = use.shaped(use.ordered(work, order), (simplify(product_of(lead)), parts * before))
    results = [use.shaped(product(use, row, use.constant(c, work.dtype), 0), (*lead, after, 1)) for c in columns]
    return use.cast(use.joined(results, x.rank - 1), use.dtype)


# --- reductions ---------------------------------------------------------------------------------------------------


def _reduced(how: str) -> HloExportRule:
    def rule(use: HloUse) -> HloValue:
        (x,) = use.args
        axes = use.axes()
        work = use.sum_in(x) if how in ("add", "mul") else x
        return use.shaped(use.cast(use.reduced(how, work, axes), x.dtype), use.shape)

    return rule


def mean(use: HloUse) -> HloValue:
    """The sum divided by the number of elements."""
    return use.shaped(use.mean(use.args[0], use.axes()), use.shape)


def _running(how: str) -> HloExportRule:
    """Windows as long as the axis, of which all but one element are padding for the first place."""

    def rule(use: HloUse) -> HloValue:
        (x,) = use.args
        axis, reverse = use.axis(), bool(use.attrs["reverse"])
        size = x.shape[axis]
        work = use.sum_in(x)
        if not isinstance(size, int):
            return use.cast(_run_of_pairs(use, how, work, axis), x.dtype)
        if use.attrs["exclusive"]:
            step = [int(a == axis) for a in range(x.rank)]
            widths = step, [-s for s in step]
            work = use.padded(work, use.neutral(how, x.dtype), *(widths[::-1] if reverse else widths))
        long = [size if a == axis else 1 for a in range(x.rank)]
        ones = [1] * x.rank
        pads = [((0, size - 1) if reverse else (size - 1, 0)) if a == axis else (0, 0) for a in range(x.rank)]
        return use.cast(use.windowed(how, work, long, ones, ones, pads), x.dtype)

    return rule


def _run_of_pairs(use: HloUse, how: str, x: HloValue, axis: int) -> HloValue:
    """For each place of an axis what stands before it, or behind, and neutral elements for the others: as many pairs of
    places as there are. A window's length is a number, and this axis is none."""
    shape = (*x.shape[: axis + 1], *x.shape[axis:])
    wide = use.placed(x, shape, [a + (a >= axis) for a in range(x.rank)])
    to, of = (use.line(INT64, shape, a) for a in (axis, axis + 1))
    direction = ("G" if use.attrs["reverse"] else "L") + ("T" if use.attrs["exclusive"] else "E")
    inside = use.compared(direction, of, to)
    return use.reduced(how, use.select(inside, wide, use.filled(use.neutral(how, x.dtype), wide)), [axis + 1])


# --- pools --------------------------------------------------------------------------------------------------------


Pools = list[tuple[Axis, int, int]] | None
"""For each spatial axis its windows, its size and how many there are; None where a size is no number."""


def _pooled(use: HloUse, how: str, x: HloValue) -> tuple[HloValue, Pools]:
    """The elements of each window as one. Where a size is no number the padding behind is all that is said to be there;
    windows that do not fill it are left out anyway."""
    rank = x.rank - 2
    axes = [Axis(use.attrs, rank, k) for k in range(rank)]
    known = numbers_of(x.shape[2:])
    pools = None if known is None else [(a, size, a.count(size)) for a, size in zip(axes, known, strict=True)]
    if pools is None:
        if axes[0].ceil:
            use.number(next(d for d in x.shape[2:] if not isinstance(d, int)), "a size whose last window is cut off")
        behind = [a.after for a in axes]
    else:
        behind = [max(0, a.needed(size, count)) for a, size, count in pools]
    pads = [(0, 0), (0, 0), *((a.before, n) for a, n in zip(axes, behind, strict=True))]
    sizes, strides, dilation = ((1, 1, *use.attrs[name]) for name in ("pool_size", "strides", "dilation"))
    return use.windowed(how, x, sizes, strides, dilation, pads), pools


def max_pool(use: HloUse) -> HloValue:
    """Export max_pool as reduce_window; the padding is below everything."""
    return _pooled(use, "max", use.args[0])[0]


def average_pool(use: HloUse) -> HloValue:
    """The sum of each window divided by the number of its elements that are counted."""
    x = use.sum_in(use.args[0])
    total, pools = _pooled(use, "add", x)
    return use.cast(use.each("divide", total, _counts(use, x, pools)), use.dtype)


def _counts(use: HloUse, x: HloValue, pools: Pools) -> HloValue:
    """How many elements of each window are counted. Where a size is no number and not all are, ones are added up."""
    if pools is None:
        if use.attrs["count_include_pad"] or not any(use.attrs["padding"]):
            return use.filled(prod(use.attrs["pool_size"]), x, ())
        return _pooled(use, "add", use.filled(1, x, (1, 1, *x.shape[2:])))[0]
    counts = np.ones((1,) * x.rank)
    for k, (axis, size, n) in enumerate(pools):
        shape = [1] * x.rank
        shape[k + 2] = n
        counts = counts * axis.counts(size, n, use.attrs["count_include_pad"]).reshape(shape)
    return use.constant(counts, x.dtype)


# --- normalizations -----------------------------------------------------------------------------------------------


def _exponentials(use: HloUse) -> tuple[HloValue, HloValue, int]:
    """x less its maximum along the axis, e to the power of that, and the axis."""
    (x,) = use.args
    axis = use.axis()
    peak = use.shaped(use.reduced("max", x, [axis]), kept(x.shape, [axis]))
    less = use.each("subtract", x, peak)
    return less, use.op("exponential", less), axis


def softmax(use: HloUse) -> HloValue:
    """exp(x - max) / sum(exp(x - max))."""
    if 0 in use.shape:
        return use.args[0]
    _, e, axis = _exponentials(use)
    return use.each("divide", e, use.total(e, [axis], True))


def log_softmax(use: HloUse) -> HloValue:
    """(x - max) - log(sum(exp(x - max)))."""
    if 0 in use.shape:
        return use.args[0]
    less, e, axis = _exponentials(use)
    return use.each("subtract", less, use.op("log", use.total(e, [axis], True)))


def batch_norm(use: HloUse) -> HloValue:
    """gamma * (x - mean) / sqrt(var + epsilon) + beta."""
    x, *rest = use.args
    gamma, beta, average, variance = (use.placed(v, x.shape, [use.axis()]) for v in rest)
    deviation = use.op("sqrt", use.op("add", variance, use.filled(use.attrs["epsilon"], x)))
    scaled = use.op("multiply", gamma, use.op("subtract", x, average))
    return use.op("add", use.op("divide", scaled, deviation), beta)


def layer_norm(use: HloUse) -> HloValue:
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta."""
    x, gamma, *beta = use.args
    if 0 in x.shape:
        return x
    axes = use.axes("axes")
    centred = use.each("subtract", x, use.mean(x, axes, True))
    variance = use.mean(use.op("multiply", centred, centred), axes, True)
    deviation = use.op("sqrt", use.op("add", variance, use.filled(use.attrs["epsilon"], variance)))
    y = use.each("multiply", use.each("divide", centred, deviation), gamma)
    return use.each("add", y, beta[0]) if beta else y


def lrn(use: HloUse) -> HloValue:
    """x / (bias + alpha / size * s) ** beta, s the sum of squares of the channels near by."""
    (x,) = use.args
    size, ones = use.attrs["size"], [1] * x.rank
    before = (size - 1) // 2
    sizes = [size if a == 1 else 1 for a in range(x.rank)]
    pads = [(before, size - 1 - before) if a == 1 else (0, 0) for a in range(x.rank)]
    squares = use.sum_in(use.op("multiply", x, x))
    near = use.cast(use.windowed("add", squares, sizes, ones, ones, pads), x.dtype)
    base = use.op(
        "add", use.filled(use.attrs["bias"], x), use.op("multiply", use.filled(use.attrs["alpha"] / size, x), near)
    )
    return use.op("divide", x, use.op("power", base, use.filled(use.attrs["beta"], x)))


def _spatial(name: str, rule: HloExportRule) -> dict[str, HloExportRule]:
    return {f"{name}{rank}d": rule for rank in (1, 2, 3)}


TABLE: dict[str, HloExportRule] = {
    **_spatial("nn.avg_pool", average_pool),
    **_spatial("nn.conv", conv),
    **_spatial("nn.max_pool", max_pool),
    "cumprod": _running("mul"),
    "cumsum": _running("add"),
    "dft": dft,
    "matmul": matmul,
    "max": _reduced("max"),
    "mean": mean,
    "min": _reduced("min"),
    "nn.batch_norm": batch_norm,
    "nn.layer_norm": layer_norm,
    "nn.log_softmax": log_softmax,
    "nn.lrn": lrn,
    "nn.softmax": softmax,
    "prod": _reduced("mul"),
    "sum": _reduced("add"),
}
