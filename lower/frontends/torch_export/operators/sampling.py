"""Images that are read between their elements (specs/lower.md, "torch.export").

PyTorch: torch.nn.functional.grid_sample, and aten/src/ATen/native/GridSamplerUtils.h for the order of its
steps. Each is in the dtype of the operands, float16 too.
"""

from __future__ import annotations

from assay.lower.frontends.torch_export.node import AtenNode, AtenRule, aten_type
from assay.lower.frontends.torch_export.operators.composed import term
from assay.lower.frontends.torch_export.operators.movement import spaced
from assay.semantics.composed.sampling import (
    Reads,
    around,
    between,
    channels_first,
    channels_last,
    mirrored,
    sampled_elements,
    unscaled,
)
from assay.semantics.composed.terms import Term, amount_of
from assay.semantics.graph import Expr
from assay.semantics.ops.sizes import product
from assay.semantics.scalar import Dim, provably_equal

MODES = ("linear", "nearest", "cubic")
PADDINGS = ("zeros", "border", "reflection")


def grid_sampler(node: AtenNode) -> Expr:
    """The elements of input[N, C, *spatial] at grid[N, *points, axes], whose coordinates go from -1 to 1, that of the
    last axis first."""
    given, grid = node.tensor("input"), node.tensor("grid")
    x, by = aten_type(given), aten_type(grid)
    rank = x.ndim - 2
    if rank not in (2, 3) or by.ndim != x.ndim or by.shape[-1] != rank or not provably_equal(by.shape[0], x.shape[0]):
        raise node.wrong(f"input is {x}, grid is {by}; [N, C, *spatial] and [N, *points, {rank}] are wanted")
    if 0 in x.shape[2:]:
        raise node.wrong(f"input is {x}; elements along its spatial axes are wanted")
    kind, padding = (_word(node, *of) for of in (("interpolation_mode", MODES), ("padding_mode", PADDINGS)))
    if kind == "cubic" and rank == 3:
        raise node.wrong("its mode is bicubic for 3 spatial axes; bilinear or nearest is wanted")
    aligned = node.flag("align_corners")
    coordinates = term(node, grid)
    reads = []
    for k, size in enumerate(x.shape[2:]):
        at = unscaled(coordinates.picked(rank - 1 - k, by.ndim - 1), size, aligned=aligned)
        reads.append(_reads(at, size, kind, padding, aligned))
    image = term(node, given)
    found = sampled_elements(image.node, channels_last(image), reads, by.shape[:-1])
    found = found.shaped(*by.shape[:-1], x.shape[1]) if kind == "nearest" else between(found, reads)
    return node.cast(channels_first(found).expr, x.dtype)


def affine_grid(node: AtenNode) -> Expr:
    """The coordinates of the points of a grid, from -1 to 1 along each axis, that of the last axis first, and 1: moved
    by matrices. Without `align_corners` the ends are the edges of the elements."""
    theta, (images, _, *spatial) = node.tensor("theta"), node.wholes("size")
    of, rank = aten_type(theta), len(spatial)
    if rank not in (2, 3) or of.shape[1:] != (rank, rank + 1) or 0 in spatial:
        raise node.wrong(f"theta is {of}, size is {node.get('size')}; [N, {rank}, {rank + 1}] is wanted")
    parts = []
    for axis, size in reversed(list(enumerate(spatial))):
        line = spaced(node, -1.0, 1.0, size, of.dtype) if size > 1 else node.constant([0], of.dtype)
        if not node.flag("align_corners"):
            line = node.call("divide", node.call("multiply", line, size - 1), size)
        parts.append(node.stretched(node.along(line, axis, rank), *spatial))
    parts.append(node.full(spatial, 1, of.dtype))
    count = product(spatial)
    base = node.call("concat", *(node.shaped(p, count, 1) for p in parts), axis=1)
    moved = node.call("matmul", base, node.permuted(theta, (0, 2, 1)))
    return node.shaped(moved, images, *spatial, rank)


def _word(node: AtenNode, name: str, words: tuple[str, ...]) -> str:
    number = node.whole(name)
    if not 0 <= number < len(words):
        raise node.wrong(f"{name} is {number}; a number below {len(words)} is wanted")
    return words[number]


def _reads(at: Term, size: Dim, kind: str, padding: str, aligned: bool) -> Reads:
    """As ATen brings places inside: of Keys' curve each place by itself, else the coordinate before it is taken apart,
    where NaN becomes 0."""
    if kind == "nearest" and padding == "zeros":
        at = at.chosen(at.equal(at), -2.0)  # NaN is nowhere
    if kind == "cubic" or padding == "zeros":
        return around(at, size, kind, padding, aligned=aligned)
    last = amount_of(at.node, size, at.type.dtype) - 1
    if padding == "reflection":
        at = mirrored(at, last, 0.0 if aligned else 0.5)
    at = at.chosen(at.equal(at), 0.0).at_least(0.0).at_most(last)
    return around(at, size, kind, "zeros", aligned=aligned)


TABLE: dict[str, AtenRule] = {
    "affine_grid_generator": affine_grid,
    "grid_sampler": grid_sampler,
    "grid_sampler_2d": grid_sampler,
    "grid_sampler_3d": grid_sampler,
}
