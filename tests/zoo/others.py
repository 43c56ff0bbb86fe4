"""Mixers, recurrent nets, convolutions over time, and a quantized net."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import ModelProto

from tests.zoo.net import Net

OPSETS = {"mixer": 20, "lstm": 17, "gru": 17, "tcn": 17, "quantized": 17, "quantized-channels": 17}


def names() -> list[str]:
    """The models of this family."""
    return list(OPSETS)


def model(name: str, real: bool = False) -> ModelProto:
    """The model. KeyError where a real size is asked for: there is none."""
    if real:
        raise KeyError(name)
    net = Net(name, OPSETS[name], seed=sum(map(ord, name)))
    return {"mixer": mixer, "lstm": lstm, "gru": gru, "tcn": tcn}.get(name, quantized)(net)


def mixer(net: Net) -> ModelProto:
    """MLP-Mixer: twelve layers, each over the words and over the channels; as many words as channels."""
    length = width = 24
    x = net.input("x", np.float32, [1, length, width])
    for i in range(12):
        with net.scope(f"layer.{i}"):
            with net.scope("tokens"):
                h = net.node("Transpose", net.layer_norm(x, width), perm=[0, 2, 1])
                h = net.linear(net.activation(net.linear(h, length, 48), "Gelu"), 48, length, gain=0.7)
                x = net.node("Add", x, net.node("Transpose", h, perm=[0, 2, 1]))
            with net.scope("channels"):
                h = net.activation(net.linear(net.layer_norm(x, width), width, 96), "Gelu")
                x = net.node("Add", x, net.linear(h, 96, width, gain=0.7))
    x = net.mean(net.layer_norm(x, width), 1, keepdims=0)
    return net.model({"logits": (net.gemm(x, width, 16, gain=2.0), [1, 16])})


def _recurrent(net: Net, op: str, x: str, inner: int, width: int, gates: int, both: bool, **attrs: Any) -> str:
    """A recurrent layer; results of both directions side by side."""
    ways = 2 if both else 1
    weights = [
        net.spread(ways, gates * width, inner, by=2 * inner**-0.5, hint="W"),
        net.spread(ways, gates * width, width, by=width**-0.5, hint="R"),
        net.spread(ways, 2 * gates * width, by=0.2, hint="B"),
    ]
    states = [net.spread(ways, 1, width, by=0.3, hint="initial") for _ in range(2 if op == "LSTM" else 1)]
    direction = "bidirectional" if both else "forward"
    y = net.node(
        op, x, *weights, "", *states, outputs=3 if op == "LSTM" else 2, hidden_size=width, direction=direction, **attrs
    )[0]
    turned = net.node("Transpose", y, perm=[0, 2, 1, 3])
    return str(net.node("Reshape", turned, net.whole(0, 0, -1)))


def lstm(net: Net) -> ModelProto:
    """Four layers of LSTM in both directions, and a classifier at each step."""
    length, width = 10, 16
    x = net.node("Transpose", net.input("x", np.float32, [1, length, width]), perm=[1, 0, 2])
    for i in range(4):
        with net.scope(f"lstm.{i}"):
            x = _recurrent(net, "LSTM", x, width if i == 0 else 2 * width, width, 4, True)
    x = net.linear(net.node("Transpose", x, perm=[1, 0, 2]), 2 * width, 12, gain=2.0)
    return net.model({"logits": (net.node("LogSoftmax", x, axis=-1), [1, length, 12])})


def gru(net: Net) -> ModelProto:
    """Six layers of GRU with residuals and normalizations, and the last step's classifier."""
    length, width = 10, 24
    x = net.node("Transpose", net.input("x", np.float32, [1, length, width]), perm=[1, 0, 2])
    for i in range(6):
        with net.scope(f"gru.{i}"):
            h = net.layer_norm(x, width)
            x = net.node("Add", x, _recurrent(net, "GRU", h, width, width, 3, False, linear_before_reset=1))
    last = net.node("Gather", x, net.index(-1), axis=0)
    return net.model({"logits": (net.gemm(last, width, 16, gain=2.0), [1, 16])})


def tcn(net: Net) -> ModelProto:
    """Twelve layers as in WaveNet: causal convolutions over time with growing dilation, gates, residuals and skips."""
    length, width = 32, 16
    x = net.node("Transpose", net.input("x", np.float32, [1, length, width]), perm=[0, 2, 1])
    skips = ""
    for i in range(12):
        dilation = 2 ** (i % 4)
        with net.scope(f"layer.{i}"):
            gates = []
            for part in ("filter", "gate"):
                with net.scope(part):
                    weight = net.spread(width, width, 2, by=1 / (2 * width) ** 0.5)
                    attrs = {"kernel_shape": [2], "dilations": [dilation], "pads": [dilation, 0], "strides": [1]}
                    gates.append(net.node("Conv", x, weight, net.bias(width), **attrs))
            h = net.node("Mul", net.node("Tanh", gates[0]), net.node("Sigmoid", gates[1]))
            with net.scope("residual"):
                h = net.node("Conv", h, net.spread(width, width, 1, by=width**-0.5), net.bias(width), kernel_shape=[1])
            x = net.node("Add", h, x)
            skips = net.node("Add", skips, h) if skips else h
    x = net.node("Conv", net.node("Relu", skips), net.spread(12, width, 1, by=0.3), net.bias(12), kernel_shape=[1])
    return net.model({"logits": (x, [1, 12, length])})


def quantized(net: Net) -> ModelProto:
    """A residual net with QuantizeLinear and DequantizeLinear about each convolution. Scales are powers of two, so that
    quotients lie on ties; `quantized-channels` has a scale for each channel of the weights instead."""
    by_channel = net.name.endswith("channels")
    x = net.input("x", np.float32, [1, 3, 16, 16])
    width = 12

    def rounded(y: str, scale: float, zero: int = 0) -> str:
        of = np.uint8 if zero else np.int8
        point, by = net.constant(np.array(zero, of), "zero_point"), net.constant(np.float32(scale), "scale")
        return str(net.node("DequantizeLinear", net.node("QuantizeLinear", y, by, point), by, point))

    def conv(y: str, inner: int, act: bool) -> str:
        values = np.clip(np.round(net._random.standard_normal((width, inner, 3, 3)) * 30), -127, 127).astype(np.int8)
        size = 1 / (30 * (inner * 9) ** 0.5)
        scale = np.float32(2.0 ** np.round(np.log2(size)))
        if by_channel:
            by = net.constant((size * net._random.uniform(0.6, 1.6, width)).astype(np.float32), "weight_scale")
            weight = net.node("DequantizeLinear", net.constant(values, "weight"), by, axis=0)
        else:
            by = net.constant(scale, "weight_scale")
            weight = net.node("DequantizeLinear", net.constant(values, "weight"), by)
        attrs = {"kernel_shape": [3, 3], "pads": [1] * 4, "strides": [1, 1]}
        made = net.node("Conv", y, weight, *[net.bias(width)] * by_channel, **attrs)
        return str(net.node("Relu", made) if act else made)

    x = rounded(x, 2.0**-5)
    for i in range(8):
        with net.scope(f"block.{i}"):
            h = rounded(conv(x, 3 if i == 0 else width, True), 2.0**-4 if not by_channel else 0.051, 3)
            if i == 0:
                x = h
                continue
            h = rounded(conv(h, width, False), 2.0**-4 if not by_channel else 0.047)
            x = rounded(net.node("Relu", net.node("Add", h, x)), 2.0**-3 if not by_channel else 0.11)
    return net.model({"logits": (net.pooled(x, width, 16), [1, 16])})
