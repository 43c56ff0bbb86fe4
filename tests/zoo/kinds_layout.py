"""Faults of layout: axes, orders, slices, indices, broadcasts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
from onnx import NodeProto

from tests.zoo.edit import LAST, Edit, Facts, attribute
from tests.zoo.kinds import Params, Site, kind


def _softmax(f: Facts) -> Iterator[Site]:
    for n in f.nodes("Softmax", "LogSoftmax"):
        if len(f.shape(n.output[0])) > 1 and f.shape(n.output[0])[-2] > 1:
            yield Site(n.name, {"axis": -2})


@kind("softmax-axis", "the softmax runs along the axis before its own", _softmax)
def softmax_axis(e: Edit, node: NodeProto, p: Params) -> None:
    e.set(node, axis=p["axis"])


def _concat(f: Facts) -> Iterator[Site]:
    for n in f.nodes("Concat"):
        if len(n.input) > 1 and f.shape(n.input[0]) == f.shape(n.input[1]) and n.input[0] != n.input[1]:
            yield Site(n.name)


@kind("concat-order", "the first two parts are put side by side the wrong way round", _concat)
def concat_order(e: Edit, node: NodeProto, p: Params) -> None:
    node.input[0], node.input[1] = node.input[1], node.input[0]


def _concat_axis(f: Facts) -> Iterator[Site]:
    for n in f.nodes("Concat"):
        part, of = f.shape(n.input[0]), f.shape(n.output[0])
        own = attribute(n, "axis") % len(of)
        if len(n.input) > 1 and all(f.shape(i) == part for i in n.input):
            for axis in range(len(of)):
                if np.prod(part[min(axis, own) : max(axis, own)]) > 1:
                    yield Site(n.name, {"axis": axis, "shape": list(of)})


@kind(
    "concat-axis", "parts are put side by side along another axis, and their memory taken for the result", _concat_axis
)
def concat_axis(e: Edit, node: NodeProto, p: Params) -> None:
    e.set(node, axis=p["axis"])
    hidden, name = e.hide(node)
    e.reshape(hidden, p["shape"], result=name)


def _norm_axis(f: Facts) -> Iterator[Site]:
    for n in f.nodes("LayerNormalization", "RMSNormalization"):
        shape = f.shape(n.input[0])
        if len(shape) > 2 and shape[-2] > 1:
            yield Site(n.name, {"epsilon": attribute(n, "epsilon", 1e-5)})


@kind("norm-axis", "the normalization runs along the axis before its own", _norm_axis)
def norm_axis(e: Edit, node: NodeProto, p: Params) -> None:
    normalized(e, node, p["epsilon"], axis=-2, centred=node.op_type == "LayerNormalization")


def normalized(e: Edit, node: NodeProto, epsilon: float, axis: int = -1, centred: bool = True, more: float = 1) -> None:
    """Say a normalization in parts: along `axis`, with the mean taken off if `centred`, the variance times `more`."""
    x, scale, *bias = list(node.input)
    x = e.add("Sub", x, e.mean(x, [axis])) if centred else x
    variance = e.add("Mul", e.mean(e.add("Mul", x, x), [axis]), e.constant(more, np.float32))
    root = e.add("Sqrt", e.add("Add", variance, e.constant(epsilon, np.float32)))
    y = e.add("Mul", e.add("Div", x, root), scale)
    e.become(node, "Add", y, *(bias or [e.constant(0, np.float32)]))


def _reduce_axis(f: Facts) -> Iterator[Site]:
    for n in f.nodes("ReduceMean"):
        shape, made = f.shape(n.input[0]), f.shape(n.output[0])
        axes = attribute(n, "axes") or list(np.atleast_1d(f.values[n.input[1]]))
        axis, keeps = int(axes[0]) % len(shape), attribute(n, "keepdims", 1)
        for other in range(len(shape)):
            if other != axis and shape[other] > 1 and (keeps or shape[other] == shape[axis]):
                if not keeps or all(r.op_type in ("Sub", "Add", "Pow", "Sqrt") for r in f.readers[n.output[0]]):
                    yield Site(n.name, {"axis": other - len(shape)})
        assert made


@kind("reduce-axis", "a mean is taken along another axis", _reduce_axis)
def reduce_axis(e: Edit, node: NodeProto, p: Params) -> None:
    if len(node.input) > 1:
        node.input[1] = e.constant([p["axis"]], np.int64)
    else:
        e.set(node, axes=[p["axis"]])


def _perm(f: Facts) -> Iterator[Site]:
    for n in f.nodes("Transpose"):
        perm, shape = list(attribute(n, "perm")), f.shape(n.output[0])
        for a, b in combinations(range(len(perm)), 2):
            if shape[a] > 1 and shape[b] > 1:
                other = list(perm)
                other[a], other[b] = perm[b], perm[a]
                yield Site(n.name, {"perm": other, "shape": list(shape)})


@kind("transpose-perm", "axes are turned in another way, and the memory taken for the result", _perm)
def transpose_perm(e: Edit, node: NodeProto, p: Params) -> None:
    e.set(node, perm=p["perm"])
    hidden, name = e.hide(node)
    e.reshape(hidden, p["shape"], result=name)


def _layout(f: Facts) -> Iterator[Site]:
    for n in f.nodes("Reshape", "Flatten"):
        shape = f.shape(n.input[0])
        if len(shape) > 1 and n.input[0] not in f.constants:
            for axis in range(len(shape) - 1):
                if shape[axis] > 1 and shape[axis + 1] > 1:
                    yield Site(n.name, {"axis": axis, "rank": len(shape), "shape": list(f.shape(n.output[0]))})


@kind("reshape-layout", "what is reshaped lies in memory with two axes the other way round", _layout)
def reshape_layout(e: Edit, node: NodeProto, p: Params) -> None:
    perm = list(range(p["rank"]))
    a = p["axis"]
    perm[a], perm[a + 1] = perm[a + 1], perm[a]
    e.become(node, "Reshape", e.add("Transpose", node.input[0], perm=perm), e.constant(p["shape"], np.int64))


def _slice(f: Facts) -> Iterator[Site]:
    for n in f.nodes("Slice", "Split"):
        shape = f.shape(n.input[0])
        if n.op_type == "Split":
            axis = attribute(n, "axis", 0) % len(shape)
            sizes = [f.shape(o)[axis] for o in n.output]
            for i, size in enumerate(sizes):
                start = sum(sizes[:i]) + (1 if i == 0 else -1)
                yield Site(n.name, {"output": i, "axis": axis, "start": start, "end": start + size})
            continue
        axis, size = int(f.values[n.input[3]][0]) % len(shape), f.shape(n.output[0])
        begin = int(f.values[n.input[1]][0])
        for start in (begin - 1, begin + 1):
            if start >= 0 and start + size[axis] <= shape[axis]:
                yield Site(n.name, {"output": 0, "axis": axis, "start": start, "end": start + size[axis]})


@kind("slice-shift", "a slice begins and ends one element too early or too late", _slice)
def slice_shift(e: Edit, node: NodeProto, p: Params) -> None:
    x = node.input[0]
    _, name = e.hide(node, p["output"])
    e.add("Identity", e.slice(x, p["axis"], p["start"], p["end"]), result=name)


def _gather(f: Facts) -> Iterator[Site]:
    for n in f.nodes("Gather"):
        size = f.shape(n.input[0])[attribute(n, "axis", 0)]
        if n.input[1] in f.constants:
            index = np.asarray(f.values[n.input[1]])
            yield Site(n.name, {"index": ((index + (1 if index.min() >= 0 else size + 1)) % size).tolist()})
        else:
            yield Site(n.name, {"below": size})


@kind("gather-index", "rows are taken one beside their place, or a negative index is not counted from the end", _gather)
def gather_index(e: Edit, node: NodeProto, p: Params) -> None:
    if "index" in p:
        node.input[1] = e.constant(p["index"], np.int64)
    else:
        before = e.add("Sub", node.input[1], e.constant(1, np.int64))
        node.input[1] = e.add("Max", before, e.constant(0, np.int64))


def _broadcast(f: Facts) -> Iterator[Site]:
    for n in f.nodes("Add", "Mul", "Sub", "Div"):
        made = f.shape(n.output[0])
        for i, name in enumerate(n.input):
            shape = f.shape(name)
            if shape != made and np.prod(shape) > 1 and not (np.asarray(f.values[name]) < -1e3).any():
                for axis, size in enumerate(shape):
                    if size > 1:
                        yield Site(n.name, {"operand": i, "axis": axis})


@kind("broadcast", "an operand is stretched along an axis along which it has elements of its own", _broadcast)
def broadcast(e: Edit, node: NodeProto, p: Params) -> None:
    node.input[p["operand"]] = e.slice(node.input[p["operand"]], p["axis"], 0, 1)


def _tail(f: Facts) -> Iterator[Site]:
    for n in f.nodes(
        "MatMul", "Conv", "Add", "Mul", "Relu", "Softmax", "LayerNormalization", "Gemm", "BatchNormalization"
    ):
        shape = f.shape(n.output[0])
        for axis in {len(shape) - 1, 1}:
            if len(shape) > axis and shape[axis] > 1:
                yield Site(n.name, {"axis": axis})


@kind("tail", "the last element along an axis is that before it: the rest of a loop in steps is wrong", _tail)
def tail(e: Edit, node: NodeProto, p: Params) -> None:
    hidden, name = e.hide(node)
    axis = p["axis"]
    e.add("Concat", e.slice(hidden, axis, 0, -1), e.slice(hidden, axis, -2, -1), axis=axis, result=name)


def _channels(f: Facts) -> Iterator[Site]:
    for n in f.nodes("Conv"):
        if attribute(n, "group", 1) > 1:
            yield Site(n.name)


@kind("group-order", "each group of channels is convolved with the kernel of its neighbour", _channels)
def group_order(e: Edit, node: NodeProto, p: Params) -> None:
    node.input[0] = e.rolled(node.input[0], 1)


def _resize(f: Facts) -> Iterator[Site]:
    for n in f.nodes("Resize"):
        if attribute(n, "mode") == b"nearest":
            yield Site(n.name, {"nearest_mode": "ceil"})
            yield Site(n.name, {"coordinate_transformation_mode": "half_pixel", "nearest_mode": "floor"})
        else:
            yield Site(n.name, {"coordinate_transformation_mode": "asymmetric"})
            yield Site(n.name, {"coordinate_transformation_mode": "align_corners"})


@kind("resize-coordinates", "a resize takes its coordinates by another rule", _resize)
def resize_coordinates(e: Edit, node: NodeProto, p: Params) -> None:
    e.set(node, **p)


def _padding(f: Facts) -> Iterator[Site]:
    for n in f.nodes("Conv", "MaxPool", "AveragePool"):
        pads = list(attribute(n, "pads", []))
        half = len(pads) // 2
        for axis in range(half):
            for by in (1, -1):
                other = list(pads)
                other[axis] += by
                other[half + axis] -= by
                if sum(pads) and min(other) >= 0:
                    yield Site(n.name, {"pads": other})


@kind("padding", "the padding stands on the other side", _padding)
def padding(e: Edit, node: NodeProto, p: Params) -> None:
    e.set(node, pads=p["pads"])


def _stride(f: Facts) -> Iterator[Site]:
    for n in f.nodes("Conv", "MaxPool", "AveragePool"):
        steps, shape = attribute(n, "strides", []), f.shape(n.output[0])
        whole = f.shape(n.input[0])
        pads = sum(attribute(n, "pads", []))
        if list(steps) == [2, 2] and whole[-1] == 2 * shape[-1] and (pads or attribute(n, "kernel_shape")[0] == 1):
            yield Site(n.name, {"axis": 2 + len(n.name) % 2})


@kind("stride", "of each two places the other one is taken", _stride)
def stride(e: Edit, node: NodeProto, p: Params) -> None:
    steps = [2, 2]
    steps[p["axis"] - 2] = 1
    e.set(node, strides=steps)
    hidden, name = e.hide(node)
    e.add("Identity", e.slice(hidden, p["axis"], 1, LAST, 2), result=name)


def _dilation(f: Facts) -> Iterator[Site]:
    for n in f.nodes("Conv"):
        kernel = attribute(n, "kernel_shape")
        dilations = list(attribute(n, "dilations", [1] * len(kernel)))
        pads = list(attribute(n, "pads", [0] * 2 * len(kernel)))
        if kernel[0] == 1 or attribute(n, "strides", [1])[0] > 1 or not sum(pads):
            continue
        if len(kernel) == 1:
            yield Site(n.name, {"dilations": [dilations[0] + 1], "pads": [pads[0] + 1, pads[1]]})
        else:
            more = (kernel[0] - 1) // 2
            yield Site(n.name, {"dilations": [d + 1 for d in dilations], "pads": [q + more for q in pads]})


@kind("dilation", "the elements of a kernel stand one further apart", _dilation)
def dilation(e: Edit, node: NodeProto, p: Params) -> None:
    e.set(node, dilations=p["dilations"], pads=p["pads"])
