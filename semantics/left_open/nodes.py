"""Conditions on nodes of ONNX as a whole (specs/semantics.md, "Left open")."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from assay.semantics.dtypes import dtype
from assay.semantics.left_open import Opening, OperatorUse


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
