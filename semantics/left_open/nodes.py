"""Conditions on nodes of ONNX as a whole (specs/semantics.md, "Left open")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from assay.semantics.dtypes import dtype
from assay.semantics.left_open import Array, Fields, Flags, Opening, OperatorUse


def whole_length(u: OperatorUse) -> Iterator[Opening]:
    """Resize by scales whose product with a length is no whole number, linear or cubic: the resized length, and the
    scale that the text makes of it, may be that of the elements that there are. Ours is the product."""
    x, scales, (y,) = u.operands[0], u.operands[-1], u.results
    text = {k: v.decode() if isinstance(v, bytes) else v for k, v in u.attrs.items()}
    axes = text.get("axes") or range(x.ndim)
    by_scales = len(u.operands) > 1 and dtype(scales.dtype).is_float and scales.size == len(axes)
    if not by_scales or text.get("mode") not in _TAPS or text.get("antialias"):
        return
    if all((float(s) * x.shape[a]).is_integer() for s, a in zip(scales.reshape(-1), axes, strict=True)):
        return
    made = x.astype(np.float64)
    for axis, size in enumerate(y.shape):
        if size != x.shape[axis]:
            at = _positions(text.get("coordinate_transformation_mode", "half_pixel"), size, x.shape[axis])
            if at is None:
                return
            made = _interpolated(made, axis, at, text)
    # coordinates may be rounded to the dtype, and each of the axes adds the roundings of its weights
    off = 16 * x.ndim * dtype(x.dtype).unit_roundoff * float(np.max(np.abs(x), initial=0.0)) * max(x.shape, default=1)
    yield Opening(np.isfinite(made), made - off, made + off)


def _positions(mode: str, size: int, length: int) -> Array | None:
    """Where the elements of a resized axis are made in the axis that there was; None where a mode has words of its own
    for a length that is no whole number, or takes another one."""
    at = np.arange(size, dtype=np.float64)
    match mode:
        case "half_pixel" | "pytorch_half_pixel":
            return (at + 0.5) * length / size - 0.5 if size > 1 or mode == "half_pixel" else at
        case "asymmetric":
            return at * length / size
        case "align_corners":
            return at * ((length - 1) / max(size - 1, 1))
        case _:
            return None


_TAPS = {"linear": (0, 1), "cubic": (-1, 0, 1, 2)}
"""Which elements are weighed, beside the one in front of a position."""


def _interpolated(x: Array, axis: int, at: Array, text: Mapping[str, Any]) -> Array:
    """What is made at these positions along an axis; beyond the ends stands the last element."""
    low = np.floor(at).astype(np.int64)
    taps = [low + k for k in _TAPS[text["mode"]]]
    weights = [_weight(np.abs(t - at), text) for t in taps]
    if text.get("exclude_outside"):
        weights = [np.where((t >= 0) & (t < x.shape[axis]), w, 0.0) for t, w in zip(taps, weights, strict=True)]
        weights = [w / np.sum(weights, axis=0) for w in weights]
    along = (-1, *(1,) * (x.ndim - 1 - axis))
    found: Array = np.zeros(())
    for tap, weight in zip(taps, weights, strict=True):
        found = found + np.take(x, np.clip(tap, 0, x.shape[axis] - 1), axis) * weight.reshape(along)
    return found


def _weight(d: Array, text: Mapping[str, Any]) -> Array:
    """The weight of an element at this distance."""
    if text["mode"] == "linear":
        return 1 - d
    a = float(text.get("cubic_coeff_a", -0.75))
    return np.asarray(np.where(d <= 1, ((a + 2) * d - (a + 3)) * d * d + 1, a * (((d - 5) * d + 8) * d - 4)))


def zeros_made(u: OperatorUse) -> Iterator[Opening]:
    """ThresholdedRelu and Shrink: the text says 0 of what they leave out, and not of which sign."""
    (y,) = u.results
    if u.is_float:
        yield Opening(y == 0, np.zeros_like(y), np.zeros_like(y))


def rounded_remainder(u: OperatorUse) -> Iterator[Opening]:
    """Mod of floats by the formula of its text, A - floor(A / B) * B, or with trunc, each step rounded: the quotient
    may become the next whole number, and the product is off by as much as its size allows. The sign is as the text
    says."""
    if u.attrs.get("since", 0) < 28 or not u.is_float or u.inexact:
        return
    (y,), truncates = u.results, bool(u.attrs.get("fmod", 0))
    a, b = np.broadcast_arrays(*(x.astype(np.float64) for x in u.operands))
    of = dtype(y.dtype)
    off, tiny = 1.01 * of.unit_roundoff + 2.0**-52, 2 * of.smallest_normal * of.unit_roundoff
    quotient = a / b
    where = np.isfinite(a) & (a != 0) & np.isfinite(b) & (np.abs(quotient) <= float(of.max))
    cut = np.trunc if truncates else np.floor
    least, most = cut(quotient - np.abs(quotient) * off), cut(quotient + np.abs(quotient) * off)
    ends = []
    for whole in (least, most):
        product = whole * b
        made, err = a - product, np.abs(product) * off + tiny
        ends.append((made - err - (np.abs(made) + err) * off, made + err + (np.abs(made) + err) * off))
    (low, high), (other_low, other_high) = ends
    apart = most - least <= 1

    def only(got: Array, _: Fields) -> Flags:
        x = got.astype(np.float64)
        near = ((low <= x) & (x <= high)) | ((other_low <= x) & (x <= other_high)) | ~apart
        return np.asarray(near & (np.signbit(got) == np.signbit(a if truncates else b)))

    yield Opening(where, np.minimum(low, other_low), np.maximum(high, other_high), only=only)


def unpooled_shape(u: OperatorUse) -> Iterator[Opening]:
    """MaxUnpool with output_shape: the indices may count in that shape, or, as ours do, in the shape without it."""
    if len(u.operands) < 3:
        return
    x, indices, _ = u.operands
    (y,) = u.results
    if indices.min(initial=0) < 0 or indices.max(initial=0) >= y.size:
        return
    made = np.zeros(y.size, y.dtype)
    made[indices.reshape(-1)] = x.reshape(-1)
    other = made.reshape(y.shape)
    yield Opening(other != y, other, other)


def mean_of_losses(u: OperatorUse) -> Iterator[Opening]:
    """The mean of losses without weights, some of which are ignored: these may count as zeros, or, as with ours, not at
    all."""
    ignored = u.attrs.get("ignore_index")
    if len(u.operands) != 2 or ignored is None or _word(u, "reduction", "mean") != "mean":
        return
    labels = u.operands[1]
    kept = labels != ignored
    if kept.all():
        return
    low, high = u.ends(0)
    off = 0.0
    if u.operator == "SoftmaxCrossEntropyLoss":
        with np.errstate(all="ignore"):
            low, high = low - _log_of_sum(high), high - _log_of_sum(low)
        off = 8 * float(np.max(np.abs(u.operands[0]), initial=1.0))
    classes = np.clip(labels, 0, low.shape[1] - 1)[:, np.newaxis]
    least, most = (np.where(kept, -np.take_along_axis(x, classes, 1)[:, 0], 0.0) for x in (high, low))
    off += (labels.size + 16) * float(np.maximum(np.abs(least), np.abs(most)).mean())
    off *= dtype(u.results[0].dtype).unit_roundoff
    shape = u.results[0].shape
    yield Opening(np.ones(shape, bool), np.full(shape, least.mean() - off), np.full(shape, most.mean() + off))


def _log_of_sum(x: Array) -> Array:
    """The logarithm of the sum of exponentials along axis 1, which stays."""
    most = x.max(1, keepdims=True)
    made: Array = most + np.log(np.exp(x - most).sum(1, keepdims=True))
    return made


def _word(u: OperatorUse, name: str, default: str = "") -> str:
    value = u.attrs.get(name, default)
    return value.decode() if isinstance(value, bytes) else str(value)
