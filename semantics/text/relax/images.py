"""Relax operators: resized images (specs/semantics.md, "Text").

One axis after another: each place of the result has a coordinate in the operand, and is a weighted sum of the elements
around it, those outside being those at the ends. TVM computes coordinates in float32; here they are exact, and where
the nearest element jumps within what float32 rounds, both are right. So they are for `floor` and `ceil` within 1e-5,
which TVM adds or takes away, and for `round` half way between, of which TVM says nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.semantics.composed.coordinates import NEAR
from assay.semantics.dtypes import BOOL, FLOAT32, INT64
from assay.semantics.graph import Expr
from assay.semantics.text.relax.build import MISSING, Attrs, Build, Row, make_row
from assay.semantics.text.relax.nn import LAYOUTS, moved, spread

EPSILON = 1e-5
Floats = NDArray[np.float64]

ROUNDINGS: dict[str, Callable[[Floats], Floats]] = {
    "round": np.round,
    "round_prefer_floor": lambda at: np.ceil(at - 0.5),
    "round_prefer_ceil": lambda at: np.floor(at + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _coordinates(b: Build, mode: str, size: int, count: int, start: float, end: float) -> Floats:
    """For each place of the result its coordinate in the operand."""
    place, scale = np.arange(count, dtype=np.float64), size / max(count, 1)
    match mode:
        case "half_pixel":
            return (place + 0.5) * scale - 0.5
        case "align_corners":
            if count == 1:
                raise b.unsupported("align_corners and one place, which TVM divides 0 by 0 for,")
            return place * (size - 1) / (count - 1)
        case "asymmetric":
            return place * scale
        case "pytorch_half_pixel":
            return (place + 0.5) * scale - 0.5 if count > 1 else place * 0
        case "tf_half_pixel_for_nn":
            return (place + 0.5) * scale
        case "tf_crop_and_resize":
            if count == 1:
                return np.full(1, 0.5 * (start + end) * (size - 1))
            return start * (size - 1) + place * (end - start) * (size - 1) / (count - 1)
        case _:
            raise b.unsupported(f"coordinate_transformation_mode {mode!r}")


def _nearest(b: Build, x: Expr, axis: int, at: Floats, rounding: str, mode: str) -> Expr:
    """The nearest elements along an axis."""
    size = b.tensor(x).shape[axis]
    assert isinstance(size, int)
    rounding = rounding or ("round" if mode == "align_corners" else "floor")
    if rounding not in ROUNDINGS:
        raise b.unsupported(f"rounding_method {rounding!r}")
    nearest = ROUNDINGS[rounding]
    off = NEAR * (size + 1) + (EPSILON if rounding in ("floor", "ceil") else 0.0)
    own, low, high = (np.clip(nearest(v), 0, size - 1) for v in (at, at - off, at + off))
    other = np.where(low != own, low, high)
    whole = np.round(at) == at if rounding in ("floor", "ceil") else np.zeros(at.shape, bool)
    jumps = np.flatnonzero((other != own) & ~(whole & (at.astype(np.float32) == at)))
    either = tuple((int(i), int(other[i])) for i in jumps)
    return b.call("take", x, b.constant(own, INT64), axis=axis, **({"either": either} if either else {}))


def _weighted(b: Build, x: Expr, axis: int, at: Floats, a: Attrs) -> Expr:
    """Weighted sums of two elements, or of four, along an axis."""
    of = b.tensor(x)
    size = of.shape[axis]
    assert isinstance(size, int)
    base = np.floor(at)
    t = at - base
    taps: tuple[int, ...]
    if a["method"] == "linear":
        taps, weights, near = (0, 1), np.stack([1 - t, t], axis=-1), NEAR
    else:
        k, near, taps = a["cubic_alpha"], 4 * NEAR, (-1, 0, 1, 2)
        parts = (
            k * (t**3 - 2 * t**2 + t),
            (k + 2) * t**3 - (3 + k) * t**2 + 1,
            -(k + 2) * t**3 + (3 + 2 * k) * t**2 - k * t,
            -k * t**3 + k * t**2,
        )
        weights = np.stack(parts, axis=-1)
    places = base[:, None] + np.array(taps)
    if a["cubic_exclude"] and a["method"] == "cubic":
        weights = np.where((places < 0) | (places > size - 1), 0.0, weights)
        weights = weights / weights.sum(axis=-1, keepdims=True)
    inside = b.constant(np.clip(places, 0, size - 1), INT64)
    taken = b.call("take", x, inside, axis=axis, near=near)
    shape = (*weights.shape, *(1,) * (of.ndim - 1 - axis))
    weighed = b.call("multiply", taken, b.constant(weights.reshape(shape), of.dtype))
    return b.call("sum", weighed, axis=(axis + 1,), keepdims=False)


def _resize(rank: int) -> Row:
    plain = LAYOUTS[rank][0]

    def make(b: Build, args: list[Any], a: Attrs) -> Expr:
        data, counts = args[0], spread(b.shape(args[1]), rank)
        given, mode = b.tensor(data).dtype, a["coordinate_transformation_mode"]
        to = a["out_dtype"] or given
        if a["method"] not in ("nearest_neighbor", "linear", "cubic"):
            raise b.unsupported(f"method {a['method']!r}")
        if mode == "tf_crop_and_resize" and rank == 3:
            raise b.unsupported("a region of interest, whose order of axes TVM does not say,")
        nearest = a["method"] == "nearest_neighbor"
        if not nearest and (not given.is_float or str(to) != str(given)):
            raise b.unsupported(f"{given} made {to} by {a['method']}, which TVM cuts off,")
        x = moved(b, data, a["layout"], plain)
        x = x if nearest else b.cast(x, FLOAT32)
        roi = [float(v) for v in a["roi"] or (0.0,) * (2 * rank)]
        beyond: list[tuple[int, Any]] = []
        for axis, count in enumerate(counts, start=2):
            size = b.tensor(x).shape[axis]
            if not isinstance(size, int) or not isinstance(count, int) or not size:
                raise b.unsupported(f"an axis of {size} made {count}; known sizes are wanted,")
            at = _coordinates(b, mode, size, count, roi[axis - 2], roi[axis - 2 + rank])
            beyond.append((axis, (at < 0) | (at > size - 1)))
            x = _nearest(b, x, axis, at, a["rounding_method"], mode) if nearest else _weighted(b, x, axis, at, a)
        if mode == "tf_crop_and_resize":
            for axis, outside in beyond:
                where = b.constant(outside.reshape(-1, *(1,) * (rank + 1 - axis)), BOOL)
                x = b.call("where", where, b.like(x, a["extrapolation_value"]), x)
        return moved(b, b.cast(x, to), plain, a["layout"])

    attrs = {
        "roi": None, "layout": plain, "method": "linear", "coordinate_transformation_mode": "half_pixel",
        "rounding_method": "round" if rank == 2 else "", "cubic_alpha": -0.75, "cubic_exclude": 0,
        "extrapolation_value": 0.0, "out_dtype": None,
    }  # fmt: skip
    return Row({"data": MISSING, "size": MISSING}, attrs, make)


def _affine_grid(b: Build, x: Expr, size: Any, align_corners: Any) -> Expr:
    """The places of a grid, from -1 to 1 along each axis, after an affine map for each image. TVM makes the step a
    little shorter than 2 / (size - 1), by 1e-7 of all."""
    counts = b.shape(size)
    rank = len(counts)
    numbers = [c for c in counts if isinstance(c, int)]
    if rank not in (2, 3) or len(numbers) != rank or (align_corners and min(numbers) < 2):
        raise b.unsupported(f"a grid of {counts}")
    of = b.tensor(x)
    if of.shape[1:] != (rank, rank + 1):
        raise b.wrong(f"{of} is given for {rank} axes; {rank} rows of {rank + 1} are wanted")
    parts: list[Expr] = []
    for axis, n in enumerate(numbers):
        first, step = (-1.0, (2.0 - 1e-7) / (n - 1)) if align_corners else (1.0 / n - 1.0, 2.0 / n)
        place = b.call("arange", size=n, dtype=of.dtype.name)
        line = b.call("add", b.call("multiply", place, b.constant(step, of.dtype)), b.constant(first, of.dtype))
        thin = b.shaped(line, tuple(n if a == axis else 1 for a in range(rank)))
        parts.append(b.call("reshape", b.call("broadcast_to", thin, shape=counts), shape=(1, prod(numbers))))
    parts.reverse()
    parts.append(b.constant(np.ones((1, prod(numbers))), of.dtype))
    made = b.call("matmul", x, b.call("concat", *parts, axis=0))
    return b.call("reshape", made, shape=(of.shape[0], rank, *counts))


ROWS: dict[str, Row] = {
    "image.resize2d": _resize(2),
    "image.resize3d": _resize(3),
    "image.affine_grid": make_row("data size", _affine_grid, align_corners=True),
}
