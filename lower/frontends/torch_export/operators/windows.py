"""Windows of images as columns and back, and pooling undone (specs/lower.md, "torch.export").

PyTorch: torch.nn.Unfold, torch.nn.Fold, torch.nn.MaxUnpool2d.
"""

from __future__ import annotations

from math import prod

from assay.lower.frontends.torch_export.node import AtenNode, AtenRule, aten_type
from assay.lower.frontends.torch_export.operators.composed import AtenMaker
from assay.lower.frontends.torch_export.operators.indexing import counted, tuples
from assay.semantics.composed.windows import Windows, columns_to_image, image_to_columns
from assay.semantics.graph import Expr
from assay.semantics.ops.sizes import floor_div, product
from assay.semantics.scalar import provably_equal, simplify


def _windows(node: AtenNode, image: list[int]) -> Windows:
    block, dilation, padding, stride = (
        node.spatial(n, 2) for n in ("kernel_size", "dilation", "padding", "stride")
    )  # fmt: skip
    if min(*block, *dilation, *stride) < 1 or min(*padding, *image) < 0:
        raise node.wrong(f"blocks of {block}, {dilation} apart, {stride} from one another, and {padding} around them")
    made = Windows(image, block, stride, dilation, padding * 2)
    if min(made.counts) < 1:
        raise node.wrong(f"blocks of {block} in an image of {tuple(image)}: there are {made.counts}")
    return made


def _batched(node: AtenNode, rank: int) -> tuple[Expr, bool]:
    """The operand with an axis of items; whether it had one."""
    x = node.tensor()
    of = aten_type(x)
    if of.ndim not in (rank, rank + 1):
        raise node.wrong(f"self is {of}; {rank} or {rank + 1} axes are wanted")
    return (x, True) if of.ndim == rank + 1 else (node.shaped(x, 1, *of.shape), False)


def _unbatched(node: AtenNode, y: Expr, had: bool) -> Expr:
    return y if had else node.shaped(y, *aten_type(y).shape[1:])


def im2col(node: AtenNode) -> Expr:
    """Each block of an image as a column, zeros around it."""
    x, had = _batched(node, 3)
    channels, *image = aten_type(x).shape[1:]
    sizes = [d for d in image if isinstance(d, int)]
    if len(sizes) < 2:
        raise node.unsupported("an image whose sizes are no numbers")
    return _unbatched(node, image_to_columns(AtenMaker(node), x, channels, _windows(node, sizes)), had)


def col2im(node: AtenNode) -> Expr:
    """Columns added up where their blocks lie in the image."""
    x, had = _batched(node, 2)
    windows = _windows(node, node.wholes("output_size"))
    of, elements = aten_type(x), prod(windows.block)
    channels = floor_div(of.shape[1], elements)
    if not provably_equal(simplify(channels * elements), of.shape[1]) or not provably_equal(
        of.shape[2], prod(windows.counts)
    ):
        raise node.wrong(f"self is {of}; blocks of {elements} elements are wanted, {windows.counts} of them")
    return _unbatched(node, columns_to_image(AtenMaker(node), x, channels, windows), had)


def max_unpool(rank: int) -> AtenRule:
    """Zeros, but for elements at their places in each image. Of two at one place either may be there."""

    def rule(node: AtenNode) -> Expr:
        x, had = _batched(node, rank + 1)
        of, sizes = aten_type(x), node.sizes("output_size")
        places = node.shaped(node.tensor("indices"), *of.shape[:2], product(of.shape[2:]))
        values = node.shaped(x, *of.shape[:2], product(of.shape[2:]))
        shape = aten_type(places).shape
        where = tuples(node, [counted(node, shape, 0), counted(node, shape, 1), places])
        empty = node.full((*of.shape[:2], product(sizes)), 0, of.dtype)
        made = node.call("scatter_nd", empty, where, values, reduction="none")
        return _unbatched(node, node.shaped(made, *of.shape[:2], *sizes), had)

    return rule


TABLE: dict[str, AtenRule] = {
    "col2im": col2im,
    "im2col": im2col,
    "max_unpool2d": max_unpool(2),
    "max_unpool3d": max_unpool(3),
}
