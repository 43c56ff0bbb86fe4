"""Conditions on nodes of ONNX as a whole (specs/semantics.md, "Left open")."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from assay.semantics.dtypes import dtype
from assay.semantics.left_open import Array, Opening, OperatorUse


def whole_length(u: OperatorUse) -> Iterator[Opening]:
    """Resize by scales, linear with align_corners: the resized length may be the whole number of elements that there
    are, or the product of scale and length. Ours is the product."""
    x, scales, (y,) = u.operands[0], u.operands[-1], u.results
    text = {k: v.decode() if isinstance(v, bytes) else v for k, v in u.attrs.items()}
    by_scales = len(u.operands) > 1 and dtype(scales.dtype).is_float and scales.size == x.ndim
    if text.get("mode") != "linear" or text.get("coordinate_transformation_mode") != "align_corners" or not by_scales:
        return
    made = x.astype(np.float64)
    for axis, size in enumerate(y.shape):
        length = x.shape[axis]
        if size == length:
            continue
        at = np.arange(size) * ((length - 1) / max(size - 1, 1))
        low = np.clip(np.floor(at).astype(np.int64), 0, max(length - 2, 0))
        part = (at - low).reshape((-1, *(1,) * (x.ndim - 1 - axis)))
        made = np.take(made, low, axis) * (1 - part) + np.take(made, np.minimum(low + 1, length - 1), axis) * part
    # coordinates may be rounded to the dtype, and each of the axes adds the roundings of its weights
    off = 16 * x.ndim * dtype(x.dtype).unit_roundoff * float(np.max(np.abs(x), initial=0.0)) * max(x.shape, default=1)
    yield Opening(np.isfinite(made), made - off, made + off)


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
