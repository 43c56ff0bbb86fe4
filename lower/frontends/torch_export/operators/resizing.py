"""Resizing of ATen (specs/lower.md, "torch.export").

PyTorch: torch.nn.functional.interpolate. Places and weights are computed as ATen does it, in float32
(aten/src/ATen/native/UpSample.h), from sizes that are known.
"""

from __future__ import annotations

import numpy as np

from assay.lower.frontends.torch_export.node import AtenNode, AtenRule, tensor_of
from assay.semantics.dtypes import FLOAT32, INT64
from assay.semantics.graph import Expr

F = np.float32


def targets(node: AtenNode, rank: int) -> tuple[list[int], list[int], list[float | None]]:
    """The sizes of the spatial axes, those of the result, and the factors that are given."""
    x = node.tensor("input" if "input" in node.args else "self")
    sizes = [d for d in tensor_of(x).shape[2:] if isinstance(d, int)]
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


def linear(rank: int) -> AtenRule:
    """Between the two nearest elements along each axis, by the distance from them."""

    def rule(node: AtenNode) -> Expr:
        given = node.tensor("input" if "input" in node.args else "self")
        corners = node.flag("align_corners")
        x = node.work(given)
        of = tensor_of(x).dtype
        for a, (size, to, factor) in enumerate(zip(*targets(node, rank), strict=True)):
            step = (F(size - 1) / F(to - 1) if to > 1 else F(0)) if corners else step_of(size, to, factor)
            line = np.arange(to, dtype=F)
            at = line * step if corners else np.maximum(step * (line + F(0.5)) - F(0.5), F(0))
            low = np.minimum(np.floor(at).astype(np.int64), size - 1)
            high = np.minimum(low + 1, size - 1)
            # the distances are computed by the program, so that they may be rounded as a processor does it
            y = node.call("multiply", node.constant(line if corners else line + F(0.5), FLOAT32), float(step))
            y = y if corners else node.call("maximum", node.call("subtract", y, 0.5), 0)
            part = node.cast(node.call("subtract", y, node.constant(low, FLOAT32)), of)
            below, above = (node.call("take", x, node.constant(p, INT64), axis=a + 2) for p in (low, high))
            w = node.along(part, a + 2, rank + 2)
            rest = node.call("subtract", node.constant(1, of), w)
            x = node.call("add", node.call("multiply", below, rest), node.call("multiply", above, w))
        return node.cast(x, tensor_of(given).dtype)

    return rule


TABLE: dict[str, AtenRule] = {
    **{f"upsample_nearest{r}d": nearest(r, exact=False) for r in (1, 2, 3)},
    **{f"_upsample_nearest_exact{r}d": nearest(r, exact=True) for r in (1, 2, 3)},
    "upsample_linear1d": linear(1),
    "upsample_bilinear2d": linear(2),
    "upsample_trilinear3d": linear(3),
}
