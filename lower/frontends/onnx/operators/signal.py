"""Fourier transforms and what goes with them, and determinants (specs/lower.md, "Import")."""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.lower.frontends.onnx.node import Node, Rule, tensor
from assay.semantics.graph import Expr
from assay.semantics.scalar import apply, simplify

Array = np.ndarray[Any, Any]


def _transformed(node: Node, x: Expr, axis: int, length: int | None, inverse: bool, onesided: bool) -> Expr:
    """The transform of `x` along an axis; its last axis has the real and the imaginary part, or only the real one."""
    of = tensor(x)
    parts, size = of.shape[-1], of.shape[axis]
    if parts not in (1, 2):
        raise node.wrong(f"the input is {of}; 1 or 2 as the size of the last axis is wanted")
    assert isinstance(parts, int)
    if onesided and parts != (2 if inverse else 1):
        raise node.wrong(
            f"onesided 1 with inverse {int(inverse)} of {of}: {'complex' if inverse else 'real'} is wanted"
        )
    if length is None:
        if not isinstance(size, int):
            raise node.unsupported(f"a transform of {size} elements; give the size a number")
        length = 2 * (size - 1) if inverse and onesided else size
    if length < 1:
        raise node.wrong(f"dft_length is {length}; at least 1 is wanted")
    taken = length // 2 + 1 if inverse and onesided else length
    order = [a for a in range(of.ndim - 1) if a != axis]
    moved = node.call("permute_dims", x, axes=(*order, axis, of.ndim - 1))
    made = node.call("dft", _sized(node, moved, taken), length=length, inverse=inverse, onesided=onesided)
    back = list(range(len(order)))
    back.insert(axis, len(order))
    return node.call("permute_dims", made, axes=(*back, len(order) + 1))


def _sized(node: Node, x: Expr, size: int) -> Expr:
    """The last axis but one cut, or filled up with zeros."""
    have = tensor(x).shape[-2]
    if not isinstance(have, int):
        raise node.unsupported(f"a signal of {have} elements; give the size a number")
    rank = tensor(x).ndim
    if have >= size:
        return x if have == size else node.call("strided_slice", x, axes=(rank - 2,), begin=(0,), end=(size,))
    return node.call("nn.pad", x, pad_width=(*(0,) * (2 * rank - 2), size - have, 0))


def _scalar(node: Node, index: int) -> int:
    """A whole number that the shape of the result depends on."""
    found = node.ints(index)
    if len(found) != 1:
        raise node.wrong(f"{node.schema.operand(index).name} has {len(found)} elements; one is wanted")
    return found[0]


def dft(node: Node) -> Expr:
    """The axis is an attribute in version 17 and an operand since; it is never the last one."""
    rank = tensor(node[0]).ndim
    if rank < 2:
        raise node.wrong(f"the input is {tensor(node[0])}; an axis for the signal and one for its parts are wanted")
    axis = node.attrs["axis"] if "axis" in node.attrs else _scalar(node, 2) if node.has(2) else -2
    axis = node.axis(rank, axis)
    if axis == rank - 1:
        raise node.wrong("axis is the last one, which has the parts of the numbers")
    length = _scalar(node, 1) if node.has(1) else None
    return _transformed(node, node[0], axis, length, bool(node.attrs["inverse"]), bool(node.attrs["onesided"]))


def stft(node: Node) -> Expr:
    """The frames of the signal times the window, each transformed."""
    x = tensor(node[0])
    if x.ndim != 3:
        raise node.wrong(f"signal is {x}; three axes are wanted")
    step, size = _scalar(node, 1), x.shape[1]
    window = tensor(node[2]) if node.has(2) else None
    length = _scalar(node, 3) if node.has(3) else window.shape[0] if window is not None and window.ndim else size
    if not isinstance(length, int):
        raise node.unsupported(f"frames of {length} elements; give the size a number")
    if window is not None and window.shape != (length,):
        raise node.wrong(f"window is {window}, the frames have {length} elements")
    if step < 1 or length < 1 or (isinstance(size, int) and length > size):
        raise node.wrong(f"frame_step is {step}, frames have {length} elements, the signal has {size}")
    frames = simplify(apply("floordiv", size - length, step) + 1)
    starts = node.call("multiply", node.call("arange", size=frames), step)
    places = node.call("add", node.call("expand_dims", starts, axis=(1,)), node.constant(np.arange(length)))
    parts = node.call("take", node[0], places, axis=1)
    if window is not None:
        parts = node.call("multiply", parts, node.shaped(node[2], (length, 1)))
    return _transformed(node, parts, 2, length, False, bool(node.attrs["onesided"]))


def mel_weight_matrix(node: Node) -> Expr:
    """Triangles over the bins of a spectrum, their corners at equal distances on the mel scale."""
    low, high = (float(node.known(i).reshape(-1)[0]) for i in (3, 4))
    count, length, rate = (_scalar(node, i) for i in range(3))
    bins = length // 2 + 1
    if count < 1 or length < 1 or rate < 1 or not 0 <= low <= high:
        raise node.wrong(f"{count} bins of {length} at {rate}, from {low} to {high}; sizes above 0 in order are wanted")
    mels = 2595 * np.log1p(np.array([low, high]) / 700) / np.log(10)
    edges = mels[0] + np.arange(count + 2) * ((mels[1] - mels[0]) / (count + 2))
    corners = ((length + 1) * (700 * np.expm1(edges / 2595 * np.log(10))) // rate).astype(np.int64)
    if corners[-1] > bins:
        raise node.wrong(f"upper_edge_hertz is {high}, beyond the {bins} bins of the spectrum")
    matrix = np.zeros((bins + 1, count))
    for i in range(count):
        left, middle, right = corners[i : i + 3]
        rising, falling = np.arange(left, middle + 1), np.arange(middle, right)
        matrix[rising, i] = (rising - left) / (middle - left) if middle > left else 1.0
        matrix[falling, i] = (right - falling) / max(right - middle, 1)
    return node.constant(matrix[:bins], node.dtype("output_datatype"))


TABLE: dict[str, Rule] = {
    "Det": lambda node: node.call("det", node[0]),
    "DFT": dft,
    "MelWeightMatrix": mel_weight_matrix,
    "STFT": stft,
}
