"""Relax operators that are formulas of several of ours (specs/semantics.md, "Text")."""

from __future__ import annotations

from math import pi
from typing import Any

import numpy as np

from assay.semantics.composed.equations import einsum
from assay.semantics.composed.maker import numbered
from assay.semantics.composed.transposed import transposed_convolution
from assay.semantics.dtypes import FLOAT32, INT32, INT64, dtype as dtype_of
from assay.semantics.graph import Expr
from assay.semantics.ops.sizes import floor_div
from assay.semantics.scalar import Dim, provably_equal, simplify
from assay.semantics.text.relax.build import MISSING, Attrs, Build, Row, make_row, operands
from assay.semantics.text.relax.nn import LAYOUTS, moved, padding, spread

# --- elementwise --------------------------------------------------------------------------------------------------


def _atan2(b: Build, y: Expr, x: Expr) -> Expr:
    """The angle of the point (x, y), from -pi to pi, as IEEE 754 and C have it: zeros have signs, infinities are
    points."""
    zero = b.like(y, 0.0)

    def below(v: Expr) -> Expr:
        """Whether the sign is negative, of zero too."""
        minus = b.call("less", b.call("divide", b.like(v, 1.0), v), zero)
        return b.call("logical_or", b.call("less", v, zero), b.call("logical_and", b.call("equal", v, zero), minus))

    high, wide = b.call("abs", y), b.call("abs", x)
    ends = b.call("logical_and", b.call("equal", high, b.like(y, np.inf)), b.call("equal", wide, b.like(y, np.inf)))
    none = b.call("logical_and", b.call("equal", y, zero), b.call("equal", x, zero))
    slope = b.call("where", ends, b.like(y, 1.0), b.call("where", none, zero, b.call("divide", high, wide)))
    angle = b.call("atan", slope)
    angle = b.call("where", below(x), b.call("subtract", b.like(y, pi), angle), angle)
    return b.call("where", below(y), b.call("negative", angle), angle)


def _log_add_exp(b: Build, x: Expr, y: Expr) -> Expr:
    """log(exp(x) + exp(y)), the larger taken out."""
    top = b.call("maximum", x, y)
    total = b.call("add", *(b.call("exp", b.call("subtract", v, top)) for v in (x, y)))
    return b.call("add", top, b.call("log", total))


def _hamming_window(b: Build, size: Any, periodic: Any, alpha: Any, beta: Any, dtype: Any) -> Expr:
    """alpha - beta cos(2 pi i / (size - 1)), each step in the dtype; of a periodic one, the first of one more."""
    count, of = b.number(size), dtype_of(str(dtype))
    if count == 1:
        return b.constant(np.ones(1), of)
    place = b.call("arange", size=count, dtype=of.name)
    turned = b.call("multiply", place, b.constant(2 * pi, of))
    angle = b.call("divide", turned, b.constant(count if b.number(periodic) else count - 1, of))
    wave = b.call("multiply", b.call("cos", angle), b.constant(b.number(beta), of))
    return b.call("subtract", b.constant(b.number(alpha), of), wave)


# --- products and sums --------------------------------------------------------------------------------------------


def _einsum(b: Build, tensors: Any, subscripts: str) -> Expr:
    return einsum(b, subscripts, b.tensors(tensors))


def _outer(b: Build, x: Expr, y: Expr) -> Expr:
    if b.tensor(x).ndim != 1 or b.tensor(y).ndim != 1:
        raise b.wrong(f"{x.type} and {y.type} are given; vectors are wanted")
    return b.call("multiply", b.call("expand_dims", x, axis=(1,)), y)


def _collapsed(b: Build, x: Expr, shape: tuple[Dim, ...]) -> Expr:
    """Sums over what a broadcast from that shape would repeat."""
    of = b.tensor(x)
    lead = of.ndim - len(shape)
    if lead < 0:
        raise b.wrong(f"{of} is given for the shape {shape}, which has more axes")
    pairs = list(zip(of.shape[lead:], shape, strict=True))
    if any(not provably_equal(d, s) and not (isinstance(s, int) and s == 1) for d, s in pairs):
        raise b.wrong(f"the shape {shape} does not broadcast to {of}")
    along = (*range(lead), *(lead + i for i, (d, s) in enumerate(pairs) if not provably_equal(d, s)))
    return b.shaped(b.call("sum", x, axis=along, keepdims=True) if along else x, shape)


def _conv_transpose(rank: int) -> Row:
    plain = LAYOUTS[rank][0]
    kernel = f"IO{plain[2:]}"

    def make(b: Build, args: list[Any], a: Attrs) -> Expr:
        x = moved(b, b.cast(args[0], a["out_dtype"]), a["data_layout"], plain)
        w = moved(b, b.cast(args[1], a["out_dtype"]), a["kernel_layout"], kernel)
        of, by = b.tensor(x), b.tensor(w)
        sizes, groups = [k for k in by.shape[2:] if isinstance(k, int)], a["groups"]
        if of.ndim != rank + 2 or by.ndim != rank + 2 or len(sizes) != rank:
            raise b.wrong(f"data is {of}, weight is {by}; {rank + 2} axes and a kernel of known sizes are wanted")
        if not provably_equal(of.shape[1], by.shape[0]) or not provably_equal(
            simplify(floor_div(of.shape[1], groups) * groups), of.shape[1]
        ):
            raise b.wrong(f"{of.shape[1]} channels, weight {by}, {groups} groups")
        strides, extra = spread(a["strides"], rank), spread(a["output_padding"], rank)
        pads = padding(a["padding"], rank)
        after = [p - e for p, e in zip(pads[rank:], extra, strict=True)]
        y = transposed_convolution(
            b, x, w, None, strides, spread(a["dilation"], rank), groups, pads[:rank], after
        )  # fmt: skip
        return moved(b, y, plain, a["out_layout"] or a["data_layout"])

    attrs = {
        "strides": 1, "padding": 0, "output_padding": 0, "dilation": 1, "groups": 1, "data_layout": plain,
        "kernel_layout": kernel, "out_layout": None, "out_dtype": None,
    }  # fmt: skip
    return Row(operands("data weight"), attrs, make)


def _pixel_shuffle(b: Build, x: Expr, upscale_factor: int) -> Expr:
    *batch, channels, height, width = b.tensor(x).shape
    r, n = upscale_factor, len(batch)
    depth = floor_div(channels, r * r)
    if not provably_equal(simplify(depth * r * r), channels):
        raise b.wrong(f"{channels} channels are no multiple of {r * r}")
    y = b.call("reshape", x, shape=(*batch, depth, r, r, height, width))
    y = b.call("permute_dims", y, axes=(*range(n), n, n + 3, n + 1, n + 4, n + 2))
    return b.call("reshape", y, shape=(*batch, depth, simplify(height * r), simplify(width * r)))


# --- quantization -------------------------------------------------------------------------------------------------


def _along(b: Build, x: Expr, part: Expr, axis: int) -> Expr:
    """A scale or a zero point in a shape that broadcasts to `x`."""
    of, by = b.tensor(x), b.tensor(part)
    if by.ndim == 0 or all(isinstance(d, int) and d == 1 for d in by.shape):
        return b.shaped(part, ())
    axis = b.axis(axis, of.ndim)
    if by.ndim != 1 or not provably_equal(by.shape[0], of.shape[axis]):
        raise b.wrong(f"{by} is given for axis {axis} of {of}; a number, or one for each place, is wanted")
    return b.shaped(part, (by.shape[0], *(1,) * (of.ndim - 1 - axis)))


def _quantize(b: Build, x: Expr, scale: Expr, zero: Expr, axis: int, out_dtype: Any) -> Expr:
    """clip(round(x / scale) + zero point); only integers are rounded, halves to even. What NaN becomes is open."""
    to, of = dtype_of(str(out_dtype)), b.tensor(x).dtype
    scaled = b.call("divide", x, b.cast(_along(b, x, scale, axis), of))
    whole = b.call("round", scaled) if to.is_integer else scaled
    moved_ = b.call("add", whole, b.cast(_along(b, x, zero, axis), of))
    kept = b.call("clip", moved_, min=to.min, max=to.max)
    return b.call("astype", kept, dtype=to.name, **({"open": True} if to.is_integer else {}))


def _dequantize(b: Build, x: Expr, scale: Expr, zero: Expr, axis: int, out_dtype: Any) -> Expr:
    """(x - zero point) * scale: the difference in int32, or float32 of floats, the product in float32."""
    of = FLOAT32 if b.tensor(x).dtype.is_float else INT32
    if of is INT32 and b.tensor(zero).dtype.is_float:
        raise b.unsupported("integers and a zero point of floats")
    less = b.call("subtract", b.cast(x, of), b.cast(_along(b, x, zero, axis), of))
    y = b.call("multiply", b.cast(less, FLOAT32), b.cast(_along(b, x, scale, axis), FLOAT32))
    to = dtype_of(str(out_dtype))
    return y if to is FLOAT32 else b.cast(b.call("clip", y, min=to.min, max=to.max), to)


# --- losses -------------------------------------------------------------------------------------------------------


def _cross_entropy(b: Build, predictions: Expr, labels: Expr) -> Expr:
    of = b.tensor(predictions)
    total = b.call("negative", b.call("sum", b.call("multiply", predictions, labels), axis=None, keepdims=False))
    if of.ndim < 2:
        return total
    if not isinstance(of.shape[0], int):
        raise b.unsupported(f"a batch of unknown size, {of.shape[0]}")
    return b.call("divide", total, b.like(predictions, of.shape[0]))


def _nll_loss(b: Build, scores: Expr, target: Expr, weights: Expr | None, reduction: str, ignore_index: int) -> Expr:
    """-scores[n, target[n, ...], ...] * weights[target[n, ...]], 0 where the target is to be ignored; then the sum, or
    the sum over that of the weights. A target that names no class, of which TVM says nothing, counts 0."""
    x = b.tensor(scores)
    if reduction not in ("none", "sum", "mean") or x.ndim < 1:
        raise b.wrong(f"reduction is {reduction!r}, predictions are {x}")
    axis = min(1, x.ndim - 1)
    classes = b.call("expand_dims", b.cast(target, INT64), axis=(axis,))
    hot = b.call("equal", numbered(b, scores, axis), classes)
    hot = b.call("logical_and", hot, b.call("not_equal", classes, b.like(classes, ignore_index)))

    def picked(values: Expr) -> Expr:
        chosen = b.call("where", hot, values, b.constant(0.0, x.dtype))
        return b.call("sum", chosen, axis=(axis,), keepdims=False)

    each = (
        b.constant(1.0, x.dtype) if weights is None else b.shaped(weights, (x.shape[axis], *(1,) * max(x.ndim - 2, 0)))
    )
    share = picked(each)
    loss = b.call("multiply", b.call("negative", picked(scores)), share)
    if reduction == "none":
        return loss
    sums = [b.call("sum", v, axis=None, keepdims=False) for v in (loss, share)]
    return sums[0] if reduction == "sum" else b.call("divide", *sums)


def _multinomial(b: Build, prob: Expr, uniform: Expr, rows: Expr, dtype: Any) -> Expr:
    """The first place at which the running sum of a row of probabilities is above a number; the last, where none is."""
    of = b.tensor(prob)
    if of.ndim != 2 or b.tensor(uniform).ndim != 2 or b.tensor(rows).ndim != 2:
        raise b.wrong(f"{prob.type}, {uniform.type} and {rows.type} are given; three matrices are wanted")
    each = b.call("take", prob, b.call("squeeze", rows, axis=(1,)), axis=0)
    upto = b.call("less_equal", b.call("cumsum", each, axis=1), b.cast(uniform, of.dtype))
    count = b.call("sum", b.cast(upto, INT64), axis=(1,), keepdims=True)
    size = of.shape[1]
    if not isinstance(size, int):
        raise b.unsupported(f"a vocabulary of unknown size, {size}")
    return b.cast(b.call("minimum", count, b.like(count, size - 1)), dtype)


ROWS: dict[str, Row] = {
    "atan2": make_row("x1 x2", _atan2),
    "log_add_exp": make_row("x1 x2", _log_add_exp),
    "hamming_window": make_row("window_size periodic alpha beta", _hamming_window, dtype=MISSING),
    "einsum": make_row("operands", _einsum, subscripts=MISSING),
    "outer": make_row("x1 x2", _outer),
    "collapse_sum_to": make_row("data shape", lambda b, x, shape: _collapsed(b, x, b.shape(shape))),
    "collapse_sum_like": make_row("data collapse_target", lambda b, x, y: _collapsed(b, x, b.tensor(y).shape)),
    **{f"nn.conv{rank}d_transpose": _conv_transpose(rank) for rank in LAYOUTS},
    "nn.pixel_shuffle": make_row("data", _pixel_shuffle, upscale_factor=MISSING),
    "quantize": make_row("data scale zero_point", _quantize, axis=-1, out_dtype="int8"),
    "dequantize": make_row("data scale zero_point", _dequantize, axis=-1, out_dtype="float32"),
    "nn.cross_entropy_with_logits": make_row("predictions labels", _cross_entropy),
    "nn.nll_loss": make_row("predictions targets weights?", _nll_loss, reduction="mean", ignore_index=-100),
    "multinomial_from_uniform": make_row("prob uniform_sample sample_indices", _multinomial, dtype="int64"),
    **{f"grad.{name}": make_row("input", lambda b, x: x) for name in ("no_grad", "start_checkpoint", "end_checkpoint")},
}
