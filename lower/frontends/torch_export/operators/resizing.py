"""Resizing of ATen (specs/lower.md, "torch.export").

PyTorch: torch.nn.functional.interpolate. Places are computed as ATen does it, in float32
(aten/src/ATen/native/UpSample.h), from sizes that are known. Weights are those of float64; what ATen's own coordinates
are off by is in the bound of `take`, as for ONNX's Resize.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from assay.lower.frontends.torch_export.node import AtenNode, AtenRule, aten_type
from assay.semantics.composed.coordinates import KEYS, NEAR, cubic_weights
from assay.semantics.dtypes import FLOAT32, FLOAT64, INT64
from assay.semantics.graph import Expr

Array = np.ndarray[Any, Any]
F = np.float32


def targets(node: AtenNode, rank: int) -> tuple[list[int], list[int], list[float | None]]:
    """The sizes of the spatial axes, those of the result, and the factors that are given."""
    x = node.tensor("input" if "input" in node.args else "self")
    sizes = [d for d in aten_type(x).shape[2:] if isinstance(d, int)]
    if len(sizes) != rank:
        raise node.unsupported("spatial sizes that are no numbers")
    if "scale_factors" in node.args and node.has("scale_factors"):
        factors: list[float | None] = [float(v) for v in node.get("scale_factors")]
        return sizes, [int(d * f) for d, f in zip(sizes, factors, strict=True) if f is not None], factors
    names = {1: ("scales",), 2: ("scales_h", "scales_w"), 3: ("scales_d", "scales_h", "scales_w")}[rank]
    factors = [node.args.get(n) for n in names]
    return sizes, list(node.spatial("output_size", rank)), factors


def step_of(size: int, to: int, factor: float | None) -> np.float32:
    """How far apart the places of neighbouring results are."""
    return F(1.0 / factor) if factor is not None and factor > 0 else F(size) / F(to)


def nearest(rank: int, exact: bool) -> AtenRule:
    """The element at the place below, or at the nearest one."""

    def rule(node: AtenNode) -> Expr:
        x = node.tensor("input" if "input" in node.args else "self")
        for a, (size, to, factor) in enumerate(zip(*targets(node, rank), strict=True)):
            step = step_of(size, to, factor)
            at = (np.arange(to, dtype=F) + F(0.5 if exact else 0)) * step
            places = np.minimum(np.floor(at).astype(np.int64), size - 1)
            x = node.call("take", x, node.constant(places, INT64), axis=a + 2)
        return x

    return rule


def coordinates(size: int, to: int, factor: float | None, align: bool) -> Array:
    """The coordinate of each result, in float64: with `align` the ends meet, else the edges of the elements do."""
    at = np.arange(to, dtype=np.float64)
    if align:
        return at * ((size - 1) / (to - 1) if to > 1 else 0.0)
    step = 1.0 / factor if factor is not None and factor > 0 else size / to
    return np.asarray((at + 0.5) * step - 0.5)


def linear_taps(size: int, to: int, factor: float | None, align: bool) -> tuple[Array, Array]:
    """The elements below and above each coordinate, and their weights: [to, 2]."""
    # along an axis that keeps its size ATen adds each element and no part of itself
    at = np.arange(to, dtype=np.float64) if size == to else np.maximum(coordinates(size, to, factor, align), 0.0)
    low = np.minimum(np.floor(at), size - 1)
    above = low if size == to else np.minimum(low + 1, size - 1)
    share = np.clip(at - low, 0.0, 1.0)
    return np.stack([low, above], 1), np.stack([1 - share, share], 1)


def cubic_taps(size: int, to: int, factor: float | None, align: bool) -> tuple[Array, Array]:
    """Two elements below and two above each coordinate, those at the ends for those beyond, and their weights."""
    at = coordinates(size, to, factor, align)
    base = np.minimum(np.floor(at), size - 1)
    share = np.clip(at - base, 0.0, 1.0)
    step = np.arange(-1, 3)
    return np.clip(base[:, None] + step, 0, size - 1), cubic_weights(np.abs(share[:, None] - step), KEYS)


def interpolated(
    rank: int, taps: Callable[[int, int, float | None, bool], tuple[Array, Array]], near: float
) -> AtenRule:
    """The weighted sum of the elements around each coordinate, one axis after another."""

    def rule(node: AtenNode) -> Expr:
        x = node.tensor("input" if "input" in node.args else "self")
        of = aten_type(x).dtype
        if of not in (FLOAT32, FLOAT64):
            raise node.unsupported(f"weights in {of}")
        align = node.flag("align_corners")
        for a, (size, to, factor) in enumerate(zip(*targets(node, rank), strict=True)):
            places, weights = taps(size, to, factor, align)
            weights = weights.astype(of.numpy).reshape(*weights.shape, *(1,) * (rank - 1 - a))
            index = node.constant(places.astype(np.int64), INT64)
            parts = node.call("take", x, index, axis=a + 2, near=0.0 if size == to else near)
            x = node.call(
                "sum", node.call("multiply", parts, node.constant(weights, of)), axis=(a + 3,), keepdims=False
            )
        return x

    return rule


TABLE: dict[str, AtenRule] = {
    **{f"upsample_nearest{r}d": nearest(r, exact=False) for r in (1, 2, 3)},
    **{
        f"upsample_{n}{r}d": interpolated(r, linear_taps, NEAR)
        for r, n in enumerate(("linear", "bilinear", "trilinear"), 1)
    },
    "upsample_bicubic2d": interpolated(2, cubic_taps, 4 * NEAR),  # Keys' curve is steeper than the straight lines
    **{f"_upsample_nearest_exact{r}d": nearest(r, exact=True) for r in (1, 2, 3)},
}
