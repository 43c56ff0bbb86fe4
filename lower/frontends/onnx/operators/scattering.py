"""ConvTranspose, Col2Im and MaxUnpool of ONNX: windows put back where they came from (specs/lower.md, "Import").

The first is `assay.semantics.composed.transposed`, the second is in `assay.semantics.composed.windows`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from assay.lower.frontends.onnx.node import Node, Rule, same_shape, tensor
from assay.lower.frontends.onnx.operators.contraction import AUTO_PAD, pads_of, per_axis, spatial_rank
from assay.semantics.composed.transposed import transposed_convolution
from assay.semantics.composed.windows import Windows, columns_to_image
from assay.semantics.graph import Expr
from assay.semantics.ops.sizes import floor_div, product
from assay.semantics.scalar import Dim, provably_equal, simplify

# --- ConvTranspose ------------------------------------------------------------------------------------------------


def conv_transpose(node: Node) -> Expr:
    """Translate ConvTranspose. Invalid if the shapes and `group` do not agree, Unsupported for kernels of symbolic
    sizes."""
    rank = spatial_rank(node)
    x, w = tensor(node[0]), tensor(node[1])
    kernel = tuple(k for k in w.shape[2:] if isinstance(k, int))
    if w.ndim != rank + 2:
        raise node.wrong(f"X is {x}, W is {w}; {rank + 2} axes are wanted in both")
    if len(kernel) != rank:
        raise node.unsupported(f"operand W is {w}; the sizes of the kernel must be numbers")
    if not same_shape(node.attrs["kernel_shape"] or kernel, kernel):
        raise node.wrong(f"kernel_shape is {node.attrs['kernel_shape']}, but operand W is {w}")
    group = node.attrs["group"]
    if group < 1 or not provably_equal(simplify(floor_div(x.shape[1], group) * group), x.shape[1]):
        raise node.wrong(f"{x.shape[1]} channels do not divide into {group} groups")
    if not provably_equal(x.shape[1], w.shape[0]):
        raise node.wrong(f"X is {x}, W is {w}; as many channels are wanted")
    strides, dilations = per_axis(node, "strides", rank), per_axis(node, "dilations", rank)
    before, after = _borders(node, kernel, strides, dilations)
    return transposed_convolution(
        node, node[0], node[1], node.inputs[2] if node.has(2) else None, strides, dilations, group, before, after
    )


def _borders(
    node: Node, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[list[int], list[int]]:
    """How much is cut off of the full result before and after each spatial axis; the output padding is less than that.

    With `output_shape` or auto_pad SAME that is divided evenly: the odd element goes to the end with SAME_UPPER, else
    to the beginning. (The formula of version 1 has it the other way round, and contradicts its own attribute's text.)
    """
    rank, attrs = len(kernel), node.attrs
    extra: tuple[int, ...] = attrs["output_padding"] or (0,) * rank
    pads: tuple[int, ...] = attrs["pads"] or (0,) * (2 * rank)
    wanted = attrs["output_shape"]
    if len(extra) != rank or len(pads) != 2 * rank or min(*extra, *pads) < 0:
        raise node.wrong(
            f"output_padding is {extra}, pads is {pads}; {rank} and {2 * rank} numbers of at least 0 are wanted"
        )
    mode = node.choice("auto_pad", *AUTO_PAD)
    sizes = tensor(node[0]).shape[2:]
    if wanted is None and mode in ("NOTSET", "VALID"):
        pads = pads if mode == "NOTSET" else (0,) * (2 * rank)
        return list(pads[:rank]), [p - e for p, e in zip(pads[rank:], extra, strict=True)]
    if wanted is not None and len(wanted) == rank + 2:  # with N and C, as some write it
        wanted = wanted[2:]
    if wanted is not None and len(wanted) != rank:
        raise node.wrong(f"output_shape is {wanted}; {rank} sizes are wanted")
    before, after = [], []
    for k in range(rank):
        result = sizes[k] * strides[k] if wanted is None else wanted[k]
        full = strides[k] * (sizes[k] - 1) + extra[k] + (kernel[k] - 1) * dilations[k] + 1
        total = simplify(full - result)
        if not isinstance(total, int):
            raise node.unsupported(f"output_shape of {node[0].type}; give the symbolic dims values")
        if wanted is None:
            total = max(total, 0)
        half = total // 2 if mode == "SAME_UPPER" else total - total // 2
        before.append(half)
        after.append(total - half - extra[k])
    return before, after


# --- Col2Im -------------------------------------------------------------------------------------------------------


def col2im(node: Node) -> Expr:
    """The columns [N, C * block, L] added up where the blocks lie in an image [N, C, *image]."""
    x, image, block = tensor(node[0]), node.ints(1), node.ints(2)
    rank, elements = len(image), prod(block)
    if len(block) != rank or not rank or min(*image, *block) < 1 or x.ndim != 3:
        raise node.wrong(
            f"input is {x}, image_shape {image}, block_shape {block}; [N, C * block, L] and sizes are wanted"
        )
    strides, dilations = per_axis(node, "strides", rank), per_axis(node, "dilations", rank)
    pads = pads_of(node, rank)
    windows = Windows(image, block, strides, dilations, pads)
    counts = windows.counts
    channels = floor_div(x.shape[1], elements)
    if min(counts) < 1 or not same_shape(x.shape[1:], (simplify(channels * elements), prod(counts))):
        raise node.wrong(f"input is {x}; {elements} elements for each channel are wanted, and blocks {tuple(counts)}")
    return columns_to_image(node, node[0], channels, windows)


# --- MaxUnpool ----------------------------------------------------------------------------------------------------


def max_unpool(node: Node) -> Expr:
    """Zeros, but for the operand's elements at their places in the result as the attributes make it.

    A given shape of the result only adds elements after the others, or takes some away: so it is in ONNX's cases.
    """
    rank = spatial_rank(node)
    x, places = tensor(node[0]), tensor(node[1])
    if not same_shape(x.shape, places.shape):
        raise node.wrong(f"X is {x}, I is {places}; one shape is wanted")
    kernel, strides = per_axis(node, "kernel_shape", rank), per_axis(node, "strides", rank)
    pads = pads_of(node, rank)
    spatial = [simplify((d - 1) * strides[k] - pads[k] - pads[k + rank] + kernel[k]) for k, d in enumerate(x.shape[2:])]
    shape: tuple[Dim, ...] = (*x.shape[:2], *spatial)
    count, total = product(x.shape), product(shape)
    empty = node.full((total,), 0, x.dtype)
    found = node.call("scatter_nd", empty, node.shaped(node[1], (count, 1)), node.shaped(node[0], (count,)))
    y = node.shaped(found, shape)
    if not node.has(2):
        return y
    wanted = node.dims(2)
    added = [simplify(w - d) for w, d in zip(wanted, shape, strict=False)]
    known = [a for a in added if isinstance(a, int)]
    if len(wanted) != len(shape):
        raise node.wrong(f"output_shape is {wanted}; {len(shape)} sizes are wanted")
    if len(known) != len(shape):
        raise node.unsupported(f"output_shape {wanted} for a result of {shape}; give the symbolic dims values")
    if any(known):
        return node.call("nn.pad", y, pad_width=(0,) * len(shape) + tuple(known), mode="constant", pad_value=0)
    return y


TABLE: dict[str, Rule] = {"Col2Im": col2im, "ConvTranspose": conv_transpose, "MaxUnpool": max_unpool}
