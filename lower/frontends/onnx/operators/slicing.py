"""Slices, picks and padding of ONNX (specs/lower.md, "Import")."""

from __future__ import annotations

import numpy as np

from assay.lower.frontends.onnx import dynamic_slices
from assay.lower.frontends.onnx.node import Node, Rule, tensor
from assay.semantics.dtypes import BOOL
from assay.semantics.graph import Expr
from assay.semantics.scalar import Dim


def slice_(node: Node) -> Expr:
    """Attributes before version 10, operands since; steps since then too."""
    x = tensor(node[0])
    if "starts" in node.attrs:
        begin, end = node.attrs["starts"], node.attrs["ends"]
        axes, steps = node.attrs["axes"], None
    elif dynamic_slices.needed(node):
        return dynamic_slices.cut(node)
    else:
        begin, end = node.dims(1), node.dims(2)
        axes = node.ints(3) if node.has(3) else None
        steps = node.ints(4) if node.has(4) else None
    axes = tuple(range(len(begin))) if axes is None else axes
    steps = (1,) * len(begin) if steps is None else steps
    if not len(begin) == len(end) == len(axes) == len(steps):
        raise node.wrong(
            f"{len(begin)} starts, {len(end)} ends, {len(axes)} axes, {len(steps)} steps; as many are wanted"
        )
    if 0 in steps:
        raise node.wrong(f"steps is {steps}; 0 is no step")
    sizes = [x.shape[a] for a in node.axes(x.ndim, axes)]
    begin = tuple(_start(node, *row) for row in zip(begin, sizes, steps, strict=True))
    return node.call("strided_slice", node[0], axes=axes, begin=begin, end=end, strides=steps)


def _start(node: Node, begin: Dim, size: Dim, step: int) -> Dim:
    """Backwards, a start before the first element is the first element; NumPy and our operator take nothing there."""
    if step > 0 or not isinstance(begin, int) or begin >= -1:
        return begin
    if isinstance(size, int):
        return max(begin, -size) if size else begin
    raise node.unsupported(
        f"the start {begin} of a backward slice of an axis of size {size}; give the symbolic dim a value"
    )


def pad(node: Node) -> Expr:
    """Attributes before version 11, operands since; `axes` since 18, mode wrap since 19."""
    x = tensor(node[0])
    if "pads" in node.attrs or "paddings" in node.attrs:
        widths = node.attrs["paddings"] if node.version == 1 else node.attrs["pads"]
        value, axes = node.attrs["value"], tuple(range(x.ndim))
        if node.version == 1 and any(w < 0 for w in widths):
            raise node.wrong(f"paddings is {widths}; numbers of at least 0 are wanted before operator set 2")
    else:
        widths = node.ints(1)
        value = node.scalar(2) if node.has(2) else 0  # None where it is only known when the model runs
        axes = node.axes(x.ndim, node.ints(3)) if node.has(3) else tuple(range(x.ndim))
    if len(widths) != 2 * len(axes):
        raise node.wrong(f"pads is {widths}; {2 * len(axes)} numbers are wanted: before each axis, then after each")
    before, after = [0] * x.ndim, [0] * x.ndim
    for i, a in enumerate(axes):
        before[a], after[a] = widths[i], widths[i + len(axes)]
    mode = node.attrs["mode"]
    if mode == "wrap" and node.version >= 19:
        return _wrapped(node, before, after)
    if mode not in ("constant", "reflect", "edge"):
        raise node.wrong(f"mode is {mode!r}; constant, reflect or edge is wanted, or wrap since operator set 19")
    width = (*before, *after)
    if mode == "constant" and value is None:  # it stands where there is no element
        inside = node.full(x.shape, True, BOOL)
        inside = node.call("nn.pad", inside, pad_width=width, mode=mode, pad_value=False)
        zeros = node.call("nn.pad", node[0], pad_width=width, mode=mode, pad_value=0)
        return node.call("where", inside, zeros, node.shaped(node[2], ()))
    return node.call("nn.pad", node[0], pad_width=width, mode=mode, pad_value=value if mode == "constant" else 0)


def _wrapped(node: Node, before: list[int], after: list[int]) -> Expr:
    """Elements as if the tensor repeated without end: picked by their places, one axis after another."""
    x = node[0]
    for a, (b, e) in enumerate(zip(before, after, strict=True)):
        if b == e == 0:
            continue
        size = tensor(x).shape[a]
        if not isinstance(size, int):
            raise node.unsupported(f"mode wrap on an axis of size {size}; give the symbolic dim a value")
        if size + b + e < 0 or size == 0:
            raise node.wrong(f"axis {a} of {tensor(x)} cannot be wrapped to {size + b + e} elements")
        node.require_room(size + b + e)
        x = node.call("take", x, node.constant(np.arange(-b, size + e) % size), axis=a)
    return x


TABLE: dict[str, Rule] = {
    "Gather": lambda node: node.call("take", node[0], node[1], axis=node.axis(tensor(node[0]).ndim)),
    "Pad": pad,
    "Slice": slice_,
}
