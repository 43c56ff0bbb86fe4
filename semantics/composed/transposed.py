"""A transposed convolution as a convolution (specs/semantics.md, "Text"): of the operand with zeros between its
elements, by the weights turned round."""

from __future__ import annotations

from collections.abc import Sequence

from assay.semantics.composed.maker import Maker, tensor_of
from assay.semantics.graph import Expr
from assay.semantics.ops.sizes import floor_div
from assay.semantics.scalar import simplify


def transposed_convolution(
    make: Maker,
    x: Expr,
    w: Expr,
    bias: Expr | None,
    strides: Sequence[int],
    dilations: Sequence[int],
    groups: int,
    before: Sequence[int],
    after: Sequence[int],
) -> Expr:
    """Of x[N, C, *sizes] and w[C, M / groups, *kernel], whose kernel has known sizes; `before` and `after` are how much
    is cut off of the full result on each side of each spatial axis, or, below zero, added."""
    rank = len(strides)
    kernel = [k for k in tensor_of(w).shape[2:] if isinstance(k, int)]
    wide = _with_zeros(make, x, strides)
    # what is cut off of the full result is as much less padding; below zero it is cut off of the operand
    reach = [(k - 1) * d for k, d in zip(kernel, dilations, strict=True)]
    padding = [r - b for r, b in zip(reach, before, strict=True)] + [r - a for r, a in zip(reach, after, strict=True)]
    edges = (0, 0, *padding[:rank], 0, 0, *padding[rank:])
    if min(padding) < 0:
        wide, padding = make.call("nn.pad", wide, pad_width=edges, mode="constant", pad_value=0), [0] * 2 * rank
    operands = [wide, _turned_kernel(make, w, groups, rank), *([] if bias is None else [bias])]
    return make.call(
        f"nn.conv{rank}d",
        *operands,
        padding=tuple(padding),
        dilation=tuple(dilations),
        groups=groups,
        strides=(1,) * rank,
    )


def _with_zeros(make: Maker, x: Expr, strides: Sequence[int]) -> Expr:
    """The operand with stride - 1 zeros between neighbours."""
    shape = list(tensor_of(x).shape)
    for axis, stride in enumerate(strides, start=2):
        if stride == 1:
            continue
        rank = len(shape)
        split = make.shaped(x, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
        after = tuple(stride - 1 if a == axis + 1 else 0 for a in range(rank + 1))
        split = make.call("nn.pad", split, pad_width=(0,) * (rank + 1) + after, mode="constant", pad_value=0)
        shape[axis] = simplify(shape[axis] * stride)
        x = make.shaped(split, shape)
        shape[axis] = simplify(shape[axis] - (stride - 1))
        cut = tuple(1 - stride if a == axis else 0 for a in range(rank))
        x = make.call("nn.pad", x, pad_width=(0,) * rank + cut, mode="constant", pad_value=0)
    return x


def _turned_kernel(make: Maker, w: Expr, groups: int, rank: int) -> Expr:
    """w[C, M / groups, *kernel] as the weights of a convolution [M, C / groups, *kernel], the kernel back to front."""
    channels, features, *kernel = tensor_of(w).shape
    depth = floor_div(channels, groups)
    axes = tuple(range(2, 2 + rank))
    w = make.call("strided_slice", w, axes=axes, begin=(-1,) * rank, end=(-(2**63),) * rank, strides=(-1,) * rank)
    w = make.shaped(w, (groups, depth, features, *kernel))
    w = make.call("permute_dims", w, axes=(0, 2, 1, *range(3, 3 + rank)))
    return make.shaped(w, (simplify(features * groups), depth, *kernel))
