"""Faults of arithmetic: operands, weights, biases, scales, sums that are cut short, precision, rounding, NaN."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from onnx import NodeProto

from tests.zoo.edit import Edit, Facts, attribute
from tests.zoo.kinds import Params, Site, kind

FLOAT16, BFLOAT16 = 10, 16


# --- biases -------------------------------------------------------------------------------------------------------


def _biased(f: Facts) -> Iterator[Site]:
    for n in f.nodes("Conv", "ConvTranspose", "Gemm", "LayerNormalization"):
        if len(n.input) == 3 and n.input[2]:
            yield Site(n.name, {"operand": 2})
    for n in f.nodes("Add"):
        for i, name in enumerate(n.input):
            if name in f.constants and len(f.shape(name)) == 1 and f.shape(name)[0] > 1:
                yield Site(n.name, {"operand": i})
    for n in f.nodes("LSTM", "GRU"):
        yield Site(n.name, {"operand": 3})


@kind("bias-lost", "a bias is not added", _biased)
def bias_lost(e: Edit, node: NodeProto, p: Params) -> None:
    if node.op_type == "Add":
        e.become(node, "Identity", node.input[1 - p["operand"]])
    else:
        node.input[p["operand"]] = ""


def _one_axis(f: Facts) -> Iterator[Site]:
    for site in _biased(f):
        node = f.named[site.node]
        if node.op_type not in ("LSTM", "GRU"):
            yield Site(site.node, {**site.params, "by": 1})
            shape = f.shape(node.output[0])
            if node.op_type == "Add" and len(shape) > 1 and shape[-2] == shape[-1]:
                yield Site(site.node, {**site.params, "by": 0})


@kind("bias-place", "a bias is added along the wrong axis, or one element further", _one_axis)
def bias_place(e: Edit, node: NodeProto, p: Params) -> None:
    i = p["operand"]
    if p["by"]:
        node.input[i] = e.rolled(node.input[i], 0, p["by"])
    else:
        node.input[i] = e.add("Unsqueeze", node.input[i], e.constant([1], np.int64))


# --- operands -----------------------------------------------------------------------------------------------------


def _weights(f: Facts) -> Iterator[Site]:
    for n in f.nodes("MatMul", "Gemm", "Conv"):
        shape = f.shape(n.input[1])
        if n.input[1] not in f.constants:
            continue
        if n.op_type == "Conv":
            if len(shape) == 4 and shape[2] > 1:
                yield Site(n.name, {"perm": [0, 1, 3, 2], "shape": list(shape)})
        elif len(shape) == 2 and min(shape) > 1:
            yield Site(n.name, {"perm": [1, 0], "shape": list(shape)})


@kind("weight-transposed", "a weight lies in memory transposed", _weights)
def weight_transposed(e: Edit, node: NodeProto, p: Params) -> None:
    node.input[1] = e.reshape(e.add("Transpose", node.input[1], perm=p["perm"]), p["shape"])


def _pairs(f: Facts) -> Iterator[Site]:
    for n in f.nodes("Sub", "Div", "MatMul"):
        a, b, made = f.shape(n.input[0]), f.shape(n.input[1]), f.shape(n.output[0])
        if n.op_type == "MatMul":
            if a == b and len(a) > 1 and a[-1] == a[-2] > 1:
                yield Site(n.name)
        elif np.broadcast_shapes(a, b) == made:
            yield Site(n.name)


@kind("operands-swapped", "the operands stand the wrong way round", _pairs)
def operands_swapped(e: Edit, node: NodeProto, p: Params) -> None:
    node.input[0], node.input[1] = node.input[1], node.input[0]


def _sums(f: Facts) -> Iterator[Site]:
    for n in f.nodes("Add", "Concat"):
        computed = [i for i in n.input if i not in f.constants]
        if len(computed) > 1 and f.shape(computed[0]) == f.shape(computed[1]):
            for i in range(2):
                yield Site(n.name, {"operand": i})


@kind("operand-dropped", "of two computed operands one is left out", _sums)
def operand_dropped(e: Edit, node: NodeProto, p: Params) -> None:
    if node.op_type == "Add":
        e.become(node, "Identity", node.input[1 - p["operand"]])
    else:
        node.input[p["operand"]] = node.input[1 - p["operand"]]


def _others(f: Facts) -> Iterator[Site]:
    nodes = list(f.model.graph.node)
    for at, n in enumerate(nodes):
        for i, name in enumerate(n.input):
            if not f.is_real(name) or name in f.constants or np.size(f.values[name]) < 4:
                continue
            for before in nodes[max(0, at - 8) : at]:
                for other in before.output:
                    if other not in (*n.input, "") and other not in f.constants and _same(f, other, name):
                        yield Site(n.name, {"operand": i, "other": other}, others=(before.name,))


def _same(f: Facts, a: str, b: str) -> bool:
    return f.is_real(a) and f.is_real(b) and f.shape(a) == f.shape(b) and not np.array_equal(f.values[a], f.values[b])


@kind("tensor-swapped", "another tensor of the same shape is read", _others)
def tensor_swapped(e: Edit, node: NodeProto, p: Params) -> None:
    node.input[p["operand"]] = p["other"]


def _reused(f: Facts) -> Iterator[Site]:
    """The last reader of a tensor reads another that was made since, in a window as long as a residual block."""
    nodes = list(f.model.graph.node)
    for name, readers in f.readers.items():
        maker = f.producers.get(name)
        if maker is None or not f.is_real(name) or name in f.outputs | f.constants or len(readers) < 2:
            continue
        first, last = f.order[maker.name], f.order[readers[-1].name]
        if not 2 < last - first < 60:
            continue
        for over in nodes[first + 2 : last]:
            other = over.output[0]
            if other not in (*readers[-1].input, *f.outputs) and _same(f, other, name):
                params = {"tensor": name, "other": other}
                yield Site(readers[-1].name, params, (maker.name, over.name), (name,))


@kind("buffer-reused", "a buffer is written to before its last reader has read it", _reused)
def buffer_reused(e: Edit, node: NodeProto, p: Params) -> None:
    for i, name in enumerate(node.input):
        if name == p["tensor"]:
            node.input[i] = p["other"]


# --- scales -------------------------------------------------------------------------------------------------------


def _scaled(f: Facts) -> Iterator[Site]:
    for n in f.nodes("Mul", "Div"):
        for i, name in enumerate(n.input):
            value = f.scalar(name)
            if value is not None and value not in (0.0, 1.0) and not (n.op_type == "Div" and i == 0):
                yield Site(n.name, {"operand": i, "value": value})


def _attention(f: Facts) -> Iterator[Site]:
    for site in _scaled(f):
        node = f.named[site.node]
        if any(_feeds_softmax(f, r) for r in f.readers.get(node.output[0], [])):
            d = round(max(site.params["value"], 1 / site.params["value"]) ** 2)
            for other in (d - 1, d + 1):
                factor = (other / d) ** 0.5 if site.params["value"] > 1 else (d / other) ** 0.5
                yield Site(site.node, {**site.params, "value": site.params["value"] * factor})


def _feeds_softmax(f: Facts, node: NodeProto) -> bool:
    if node.op_type == "Softmax":
        return True
    return node.op_type in ("Add", "Where") and any(r.op_type == "Softmax" for r in f.readers.get(node.output[0], []))


@kind("scale-off", "scores are scaled by the width of a head plus or minus one", _attention)
def scale_off(e: Edit, node: NodeProto, p: Params) -> None:
    node.input[p["operand"]] = e.constant(p["value"], np.float32)


@kind("scale-missing", "a number is not multiplied or divided by", _scaled)
def scale_missing(e: Edit, node: NodeProto, p: Params) -> None:
    e.become(node, "Identity", node.input[1 - p["operand"]])


def _epsilons(f: Facts, value: float) -> Iterator[Site]:
    for n in f.nodes("LayerNormalization", "RMSNormalization", "BatchNormalization"):
        if not np.isclose(attribute(n, "epsilon", 1e-5), value, atol=0):
            yield Site(n.name, {"value": value})
    for n in f.nodes("Add"):
        for i, name in enumerate(n.input):
            number = f.scalar(name)
            if number is not None and 0 < number < 1e-3 and not np.isclose(number, value, atol=0):
                yield Site(n.name, {"operand": i, "value": value})


@kind("epsilon-small", "a normalization has an epsilon of 1e-12", lambda f: _epsilons(f, 1e-12))
@kind("epsilon-large", "a normalization has an epsilon of 1e-3", lambda f: _epsilons(f, 1e-3))
def epsilon(e: Edit, node: NodeProto, p: Params) -> None:
    if node.op_type == "Add":
        node.input[p["operand"]] = e.constant(p["value"], np.float32)
    else:
        e.set(node, epsilon=float(p["value"]))


# --- sums that are cut short --------------------------------------------------------------------------------------


def _contracted(f: Facts) -> Iterator[tuple[str, dict[str, int]]]:
    """Contractions, and along which axes of their operands they sum."""
    for n in f.nodes("MatMul", "Gemm", "Conv"):
        a, b = f.shape(n.input[0]), f.shape(n.input[1])
        if n.op_type == "Conv":
            left, right = 1, 1
            if attribute(n, "group", 1) > 1:
                continue
        elif n.op_type == "Gemm":
            left, right = 1 - attribute(n, "transA", 0), attribute(n, "transB", 0)
        else:
            left, right = len(a) - 1, max(len(b) - 2, 0)
        if a[left] > 3:
            yield n.name, {"left": left, "right": right, "size": a[left]}


def _cut(f: Facts) -> Iterator[Site]:
    for name, axes in _contracted(f):
        yield Site(name, axes)
    for n in f.nodes("ReduceMean", "GlobalAveragePool"):
        shape = f.shape(n.input[0])
        axes = attribute(n, "axes") or [len(shape) - 1]
        if n.op_type == "ReduceMean" and len(n.input) > 1:
            axes = list(f.values[n.input[1]])
        if shape[int(axes[0])] > 1:
            yield Site(n.name, {"left": int(axes[0]) % len(shape)})


@kind("sum-short", "a sum leaves out its last element", _cut)
def sum_short(e: Edit, node: NodeProto, p: Params) -> None:
    node.input[0] = e.slice(node.input[0], p["left"], 0, -1)
    if "right" in p:
        node.input[1] = e.slice(node.input[1], p["right"], 0, -1)


def _precise(f: Facts) -> Iterator[Site]:
    for name, axes in _contracted(f):
        for of in (FLOAT16, BFLOAT16):
            yield Site(name, {**axes, "of": of})


@kind("half-accumulator", "a sum of products is kept in 16 bits, in four parts", _precise)
def half_accumulator(e: Edit, node: NodeProto, p: Params) -> None:
    op, operands = node.op_type, list(node.input)
    attrs = {a.name: attribute(node, a.name) for a in node.attribute}
    cuts = np.linspace(0, p["size"], min(4, p["size"]) + 1).astype(int)
    total = ""
    for start, end in zip(cuts[:-1], cuts[1:], strict=True):
        left = e.slice(operands[0], p["left"], int(start), int(end))
        right = e.slice(operands[1], p["right"], int(start), int(end))
        part = e.through(e.add(op, left, right, **attrs), p["of"])
        total = e.through(e.add("Add", total, part), p["of"]) if total else part
    if len(operands) < 3:
        e.become(node, "Identity", total)
    elif op == "Gemm":
        e.become(node, "Add", total, operands[2])
    else:
        e.become(node, "Add", total, e.reshape(operands[2], (-1, *[1] * len(attrs["kernel_shape"]))))


def _rounded(f: Facts) -> Iterator[Site]:
    for n in f.nodes("MatMul", "Gemm", "Conv", "Softmax", "LayerNormalization", "Gelu", "Add", "Mul"):
        if n.input[0] not in f.constants and np.abs(f.values[n.input[0]]).max() < 1e4:
            for of in (FLOAT16, BFLOAT16):
                yield Site(n.name, {"of": of})


@kind("half-operand", "an operand is read in 16 bits", _rounded)
def half_operand(e: Edit, node: NodeProto, p: Params) -> None:
    node.input[0] = e.through(node.input[0], p["of"])


def _sampled(f: Facts) -> Iterator[Site]:
    for n in f.nodes("LayerNormalization"):
        size = f.shape(n.input[0])[-1]
        yield Site(n.name, {"more": size / (size - 1), "epsilon": attribute(n, "epsilon", 1e-5)})
    for n in f.nodes("ReduceMean"):
        size = f.shape(n.input[0])[-1]
        made = f.producers.get(n.input[0])
        if made is not None and made.op_type in ("Pow", "Mul"):
            yield Site(n.name, {"more": size / (size - 1)})


@kind("variance-sample", "a variance is divided by the number of elements less one", _sampled)
def variance_sample(e: Edit, node: NodeProto, p: Params) -> None:
    if node.op_type == "LayerNormalization":
        from tests.zoo.kinds_layout import normalized

        normalized(e, node, p["epsilon"], more=p["more"])
    else:
        hidden, name = e.hide(node)
        e.add("Mul", hidden, e.constant(p["more"], np.float32), result=name)


# --- rounding, NaN ------------------------------------------------------------------------------------------------


def _quantized(f: Facts) -> Iterator[Site]:
    for n in f.model.graph.node:
        if n.op_type == "QuantizeLinear":
            of = np.asarray(f.values[n.input[2]]).dtype
            limits = np.iinfo(of)
            with np.errstate(all="ignore"):
                ties = np.any(np.mod(f.values[n.input[0]] / f.values[n.input[1]], 1) == 0.5)
            for how in ("up", "zero", "away") if ties else ("zero",):
                yield Site(n.name, {"how": how, "low": int(limits.min), "high": int(limits.max), "of": str(of)})


@kind("rounding", "a quantization rounds ties up or away, or cuts off what is behind the point", _quantized)
def rounding(e: Edit, node: NodeProto, p: Params) -> None:
    x, scale, zero = node.input
    quotient = e.add("Div", x, scale)
    half = e.constant(0.5, np.float32)
    match p["how"]:
        case "up":
            whole = e.add("Floor", e.add("Add", quotient, half))
        case "away":
            size = e.add("Floor", e.add("Add", e.add("Abs", quotient), half))
            whole = e.add("Mul", size, e.add("Sign", quotient))
        case _:
            whole = e.add("Mul", e.add("Floor", e.add("Abs", quotient)), e.add("Sign", quotient))
    moved = e.add("Add", whole, e.add("Cast", zero, to=1))
    clipped = e.add("Clip", moved, e.constant(p["low"], np.float32), e.constant(p["high"], np.float32))
    e.become(node, "Cast", clipped, to=2 if p["of"] == "uint8" else 3)


def _zero_points(f: Facts) -> Iterator[Site]:
    for n in f.model.graph.node:
        if n.op_type == "DequantizeLinear" and len(n.input) > 2 and np.any(f.values[n.input[2]]):
            yield Site(n.name)


@kind("zero-point", "the zero point is not taken off", _zero_points)
def zero_point(e: Edit, node: NodeProto, p: Params) -> None:
    del node.input[2]


def _channel_scales(f: Facts) -> Iterator[Site]:
    for n in f.model.graph.node:
        if n.op_type == "DequantizeLinear" and np.size(f.values[n.input[1]]) > 1:
            yield Site(n.name)


@kind("channel-scale", "all channels of a weight have the scale of the first", _channel_scales)
def channel_scale(e: Edit, node: NodeProto, p: Params) -> None:
    node.input[1] = e.reshape(e.slice(node.input[1], 0, 0, 1), [])
    kept = [a for a in node.attribute if a.name != "axis"]
    del node.attribute[:]
    node.attribute.extend(kept)


def _quiet(f: Facts) -> Iterator[Site]:
    if any(f.is_real(i.name) for i in f.model.graph.input):
        for n in f.nodes("Relu", "Clip", "LeakyRelu", "HardSwish"):
            yield Site(n.name)


@kind("nan-lost", "a NaN is taken for zero", _quiet, shows="nan")
def nan_lost(e: Edit, node: NodeProto, p: Params) -> None:
    x = node.input[0]
    node.input[0] = e.add("Where", e.add("IsNaN", x), e.constant(0, np.float32), x)
