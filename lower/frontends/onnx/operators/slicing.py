"""Slices and picks of ONNX (specs/lower.md, "Import")."""

from __future__ import annotations

from assay.lower.frontends.onnx import dynamic_slices
from assay.lower.frontends.onnx.node import Node, Rule, tensor
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


TABLE: dict[str, Rule] = {
    "Gather": lambda node: node.call("take", node[0], node[1], axis=node.axis(tensor(node[0]).ndim)),
    "Slice": slice_,
}
