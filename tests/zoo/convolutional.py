"""Convolutional nets: ResNet, SqueezeNet, MobileNet, DenseNet, ShuffleNet, ConvNeXt, Inception, U-Net, YOLO."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import ModelProto

from tests.zoo.net import Net


@dataclass(frozen=True)
class Form:
    """One net: the width of its first layer, the size of its image, its blocks for each stage, its classes."""

    width: int = 8
    image: int = 32
    blocks: tuple[int, ...] = ()
    classes: int = 20
    opset: int = 17
    folded: bool = False
    """Batch normalization is in the convolutions already, as PyTorch's exporter leaves it."""


FORMS = {
    "resnet18": Form(blocks=(2, 2, 2, 2)),
    "resnet50": Form(blocks=(3, 4, 6, 3), width=6),
    "resnet50-folded": Form(blocks=(3, 4, 6, 3), width=6, folded=True),
    "squeezenet": Form(width=16, opset=13),
    "mobilenetv2": Form(width=8, image=48, opset=13),
    "mobilenetv3": Form(width=8, image=48),
    "densenet": Form(width=12, blocks=(4, 6, 8, 6)),
    "shufflenet": Form(width=16, blocks=(3, 5, 3)),
    "convnext": Form(width=12, blocks=(2, 2, 6, 2), image=48, opset=20),
    "inception": Form(width=12, blocks=(4, 5)),
    "unet": Form(width=8, image=32),
    "unet-bilinear": Form(width=8, image=32, opset=18),
    "yolo": Form(width=8, image=32, blocks=(1, 2, 4, 2)),
}
REAL = {
    "resnet50": {"width": 64, "image": 224, "classes": 1000},
    "resnet50-folded": {"width": 64, "image": 224, "classes": 1000},
    "squeezenet": {"width": 64, "image": 224, "classes": 1000},
    "mobilenetv2": {"width": 32, "image": 224, "classes": 1000},
}


def names() -> list[str]:
    """The models of this family."""
    return list(FORMS)


def model(name: str, real: bool = False) -> ModelProto:
    """The model; `real` has the sizes of the published one, where it has such (KeyError where not)."""
    return sized(name, REAL[name] if real else {}, sum(map(ord, name)))


def sized(name: str, sizes: Mapping[str, Any], seed: int) -> ModelProto:
    """The model with other sizes than its form has, and with the weights of a seed."""
    form = replace(FORMS[name], **sizes)
    net = Net(name, form.opset, seed=seed)
    x = net.input("image", np.float32, [1, 3, form.image, form.image])
    builders: dict[str, Callable[[Net, Form, str], ModelProto]] = {
        "resnet18": resnet, "resnet50": resnet, "squeezenet": squeezenet, "mobilenetv2": mobilenet_v2,
        "mobilenetv3": mobilenet_v3, "densenet": densenet, "shufflenet": shufflenet, "convnext": convnext,
        "inception": inception, "unet": unet, "yolo": yolo,
    }  # fmt: skip
    return builders[name.partition("-")[0]](net, form, x)


def classified(net: Net, f: Form, x: str, width: int) -> ModelProto:
    """The model with a classifier over the mean of each channel."""
    return net.model({"logits": (net.pooled(x, width, f.classes), [1, f.classes])})


def max_pool(net: Net, x: str, size: int = 3, stride: int = 2, ceil: int = 0) -> str:
    """A pool that halves the size."""
    pad = 0 if ceil or size == 2 else (size - 1) // 2
    attrs = {"kernel_shape": [size] * 2, "strides": [stride] * 2, "pads": [pad] * 4, "ceil_mode": ceil}
    return str(net.node("MaxPool", x, **attrs))


def unit(net: Net, f: Form, x: str, inner: int, outer: int, kernel: int, act: str = "Relu", **how: Any) -> str:
    """A convolution, normalized or with a bias where that is folded, and an activation."""
    if not f.folded:
        return net.conv_bn(x, inner, outer, kernel, act, **how)
    scale = how.pop("scale", 1.0)
    return net.activation(net.conv(x, inner, outer, kernel, bias=True, gain=1.2 * scale, **how), act)


def resnet(net: Net, f: Form, x: str) -> ModelProto:
    """ResNet-18 by basic blocks, or ResNet-50 by bottlenecks."""
    deep = net.name.startswith("resnet50")
    with net.scope("stem"):
        x = max_pool(net, unit(net, f, x, 3, f.width, 7, stride=2))
    inner = f.width
    for stage, count in enumerate(f.blocks):
        width = f.width * 2**stage
        outer = 4 * width if deep else width
        for i in range(count):
            stride = 2 if stage and not i else 1
            with net.scope(f"layer{stage + 1}.{i}"):
                if deep:
                    h = unit(net, f, x, inner, width, 1)
                    h = unit(
                        net, f, unit(net, f, h, width, width, 3, stride=stride), width, outer, 1, "none", scale=0.5
                    )
                else:
                    h = unit(net, f, x, inner, width, 3, stride=stride)
                    h = unit(net, f, h, width, outer, 3, "none", scale=0.5)
                if stride > 1 or inner != outer:
                    with net.scope("downsample"):
                        x = unit(net, f, x, inner, outer, 1, "none", stride=stride, scale=0.8)
                x = net.node("Relu", net.node("Add", h, x))
            inner = outer
    return classified(net, f, x, inner)


def squeezenet(net: Net, f: Form, x: str) -> ModelProto:
    """SqueezeNet 1.1: fire modules, and a convolution as classifier."""
    with net.scope("stem"):
        x = net.node("Relu", net.conv(x, 3, f.width, 3, stride=2, bias=True))
    inner, w = f.width, f.width // 4
    for i, squeeze in enumerate((0, w, w, 0, 2 * w, 2 * w, 0, 3 * w, 3 * w, 4 * w, 4 * w)):
        if not squeeze:
            x = max_pool(net, x)
            continue
        with net.scope(f"fire.{i}"):
            h = net.node("Relu", net.conv(x, inner, squeeze, 1, bias=True))
            left = net.node("Relu", net.conv(h, squeeze, 4 * squeeze, 1, bias=True))
            right = net.node("Relu", net.conv(h, squeeze, 4 * squeeze, 3, bias=True))
            x, inner = net.node("Concat", left, right, axis=1), 8 * squeeze
    with net.scope("classifier"):
        x = net.node("GlobalAveragePool", net.node("Relu", net.conv(x, inner, f.classes, 1, bias=True)))
    return net.model({"logits": (net.node("Flatten", x, axis=1), [1, f.classes])})


def inverted(
    net: Net, x: str, inner: int, wide: int, outer: int, stride: int, act: str = "relu6", kernel: int = 3,
    excite: bool = False,
) -> str:  # fmt: skip
    """An inverted residual: wider, each channel by itself, narrower."""
    h = net.conv_bn(x, inner, wide, 1, act) if wide != inner else x
    h = net.conv_bn(h, wide, wide, kernel, act, stride=stride, group=wide)
    if excite:
        with net.scope("se"):
            pooled = net.node("GlobalAveragePool", h)
            s = net.node("Relu", net.conv(pooled, wide, max(wide // 4, 4), 1, bias=True))
            h = net.node(
                "Mul", h, net.node("HardSigmoid", net.conv(s, max(wide // 4, 4), wide, 1, bias=True), alpha=1 / 6)
            )
    h = net.conv_bn(h, wide, outer, 1, "none", scale=1.0 if excite else 0.7)
    return str(net.node("Add", x, h)) if stride == 1 and inner == outer else h


def mobilenet_v2(net: Net, f: Form, x: str) -> ModelProto:
    """MobileNetV2 with its seventeen inverted residuals."""
    table = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    inner = f.width
    with net.scope("features.0"):
        x = net.conv_bn(x, 3, inner, 3, "relu6", stride=2)
    for i, (wider, channels, count, stride) in enumerate(table):
        outer = channels * f.width // 32
        for j in range(count):
            with net.scope(f"features.{i + 1}.{j}"):
                x = inverted(net, x, inner, wider * inner, outer, stride if j == 0 else 1)
                inner = outer
    with net.scope("last"):
        x = net.conv_bn(x, inner, 4 * inner, 1, "relu6")
    return classified(net, f, x, 4 * inner)


def mobilenet_v3(net: Net, f: Form, x: str) -> ModelProto:
    """MobileNetV3 small: hard-swish, squeeze and excitation, kernels of five."""
    w = f.width
    table = (
        (3, 2, 2, True, "Relu", 2), (3, 4, 3, False, "Relu", 2), (3, 4, 3, False, "Relu", 1),
        (5, 4, 5, True, "HardSwish", 2), (5, 6, 5, True, "HardSwish", 1), (5, 6, 5, True, "HardSwish", 1),
        (5, 3, 6, True, "HardSwish", 1), (5, 3, 6, True, "HardSwish", 1), (5, 6, 12, True, "HardSwish", 2),
        (5, 6, 12, True, "HardSwish", 1), (5, 6, 12, True, "HardSwish", 1),
    )  # fmt: skip
    with net.scope("features.0"):
        x, inner = net.conv_bn(x, 3, w, 3, "HardSwish", stride=2), w
    for i, (kernel, wider, outer, excite, act, stride) in enumerate(table):
        with net.scope(f"features.{i + 1}"):
            x = inverted(net, x, inner, wider * inner, outer * w // 2, stride, act, kernel, excite)
            inner = outer * w // 2
    with net.scope("last"):
        x = net.conv_bn(x, inner, 4 * inner, 1, "HardSwish")
    return classified(net, f, x, 4 * inner)


def densenet(net: Net, f: Form, x: str) -> ModelProto:
    """DenseNet: each layer reads all before it in its block; the normalization stands before the convolution."""
    grow = f.width // 2
    with net.scope("stem"):
        x, inner = net.conv_bn(x, 3, f.width, 3), f.width
    for b, count in enumerate(f.blocks):
        known = [x]
        for i in range(count):
            with net.scope(f"dense.{b}.{i}"):
                h = net.node("Concat", *known, axis=1) if len(known) > 1 else x
                h = net.conv(net.node("Relu", net.batch_norm(h, inner)), inner, 4 * grow, 1)
                known.append(net.conv(net.node("Relu", net.batch_norm(h, 4 * grow)), 4 * grow, grow, 3))
                inner += grow
        x = net.node("Concat", *known, axis=1)
        with net.scope(f"transition.{b}"):
            x = net.node("Relu", net.batch_norm(x, inner))
            if b + 1 < len(f.blocks):
                x, inner = net.conv(x, inner, inner // 2, 1), inner // 2
                x = net.node("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    return classified(net, f, x, inner)


def shuffled(net: Net, x: str, width: int, size: int) -> str:
    """Channels of two groups in turn."""
    grouped = net.node("Reshape", x, net.whole(1, 2, width // 2, size, size))
    turned = net.node("Transpose", grouped, perm=[0, 2, 1, 3, 4])
    return str(net.node("Reshape", turned, net.whole(1, width, size, size)))


def shufflenet(net: Net, f: Form, x: str) -> ModelProto:
    """ShuffleNet V2: half of the channels pass, the others are convolved, then all are shuffled."""
    with net.scope("stem"):
        x, width, size = net.conv_bn(x, 3, f.width, 3), f.width, f.image
    for stage, count in enumerate(f.blocks):
        for i in range(count):
            with net.scope(f"stage{stage}.{i}"):
                stride = 1 if i else 2
                half = width // 2 if i else width
                if i:
                    ends = (net.whole(0), net.whole(half)), (net.whole(half), net.whole(width))
                    left, right = (net.node("Slice", x, a, b, net.whole(1)) for a, b in ends)
                else:
                    size, right = size // 2, x
                    left = net.conv_bn(x, width, width, 3, "none", stride=2, group=width)
                    left = net.conv_bn(left, width, width, 1)
                right = net.conv_bn(right, half, half, 1)
                right = net.conv_bn(right, half, half, 3, "none", stride=stride, group=half)
                right = net.conv_bn(right, half, half, 1)
                width = 2 * half
                x = shuffled(net, net.node("Concat", left, right, axis=1), width, size)
    return classified(net, f, x, width)


def convnext(net: Net, f: Form, x: str) -> ModelProto:
    """ConvNeXt: a wide kernel for each channel, a normalization over the channels, a net at each place, and a scale."""

    def normalized(h: str, width: int) -> str:
        turned = net.layer_norm(net.node("Transpose", h, perm=[0, 2, 3, 1]), width, epsilon=1e-6)
        return str(net.node("Transpose", turned, perm=[0, 3, 1, 2]))

    def patches(h: str, inner: int, outer: int, size: int) -> str:
        weight = net.spread(outer, inner, size, size, by=1 / (inner * size**2) ** 0.5)
        return str(net.node("Conv", h, weight, net.bias(outer), kernel_shape=[size] * 2, strides=[size] * 2))

    with net.scope("stem"):
        inner = f.width
        x = normalized(patches(x, 3, inner, 4), inner)
    for stage, count in enumerate(f.blocks):
        width = f.width * 2**stage
        if stage:
            with net.scope(f"down.{stage}"):
                x = patches(normalized(x, inner), inner, width, 2 if stage < 3 else 1)
        inner = width
        for i in range(count):
            with net.scope(f"stage{stage}.{i}"):
                h = net.conv(x, width, width, 7, group=width, bias=True, gain=1.0)
                h = net.layer_norm(net.node("Transpose", h, perm=[0, 2, 3, 1]), width, epsilon=1e-6)
                h = net.linear(net.activation(net.linear(h, width, 4 * width), "Gelu"), 4 * width, width)
                h = net.node("Transpose", net.node("Mul", net.spread(width, mean=0.5, by=0.2), h), perm=[0, 3, 1, 2])
                x = net.node("Add", h, x)
    x = net.node("Flatten", net.mean(net.mean(x, -1), -2), axis=1)
    with net.scope("head"):
        return net.model({"logits": (net.gemm(net.layer_norm(x, inner), inner, f.classes), [1, f.classes])})


def inception(net: Net, f: Form, x: str) -> ModelProto:
    """Inception: branches of several kernels and an average pool that leaves out the padding, side by side."""
    w = f.width
    with net.scope("stem"):
        x, inner = net.conv_bn(x, 3, 2 * w, 3, stride=2), 2 * w
    for stage, count in enumerate(f.blocks):
        if stage:
            x = max_pool(net, x, ceil=1)
        for i in range(count):
            with net.scope(f"mixed.{stage}.{i}"):
                branches = [net.conv_bn(x, inner, w, 1)]
                branches.append(net.conv_bn(net.conv_bn(x, inner, w // 2, 1), w // 2, w, 5))
                h = net.conv_bn(net.conv_bn(x, inner, w // 2, 1), w // 2, w, 3)
                branches.append(net.conv_bn(h, w, w, 3))
                pads = {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [1] * 4, "count_include_pad": i % 2}
                branches.append(net.conv_bn(net.node("AveragePool", x, **pads), inner, w, 1))
                x, inner = net.node("Concat", *branches, axis=1), 4 * w
    return classified(net, f, x, inner)


def unet(net: Net, f: Form, x: str) -> ModelProto:
    """U-Net: down and up again, with what was there on the way down beside it; up by ConvTranspose or by Resize."""
    bilinear = net.name.endswith("bilinear")
    kept, inner = [], 3
    for i in range(4):
        width = f.width * 2**i
        with net.scope(f"down.{i}"):
            x = net.conv_bn(net.conv_bn(x, inner, width, 3), width, width, 3)
        inner = width
        if i < 3:
            kept.append(x)
            x = max_pool(net, x, size=2)
    for i in reversed(range(3)):
        width = f.width * 2**i
        with net.scope(f"up.{i}"):
            if bilinear:
                scales = net.constant(np.array([1, 1, 2, 2], np.float32), "scales")
                attrs = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
                up, wide = net.node("Resize", x, "", scales, **attrs), inner
            else:
                weight = net.spread(inner, width, 2, 2, by=1.4 / inner**0.5)
                attrs = {"kernel_shape": [2, 2], "strides": [2, 2]}  # type: ignore[dict-item]
                up, wide = net.node("ConvTranspose", x, weight, net.bias(width), **attrs), width
            x = net.node("Concat", kept[i], up, axis=1)
            x = net.conv_bn(net.conv_bn(x, width + wide, width, 3), width, width, 3)
        inner = width
    with net.scope("out"):
        x = net.node("Sigmoid", net.conv(x, inner, 2, 1, bias=True, gain=2.0))
    return net.model({"mask": (x, [1, 2, f.image, f.image])})


def yolo(net: Net, f: Form, x: str) -> ModelProto:
    """Darknet's backbone with LeakyRelu, and two scales of boxes; the finer one with what Resize brings back up."""
    inner, seen = f.width, []
    with net.scope("stem"):
        x = net.conv_bn(x, 3, inner, 3, "LeakyRelu")
    for stage, count in enumerate(f.blocks):
        with net.scope(f"stage{stage}"):
            x = net.conv_bn(x, inner, 2 * inner, 3, "LeakyRelu", stride=2)
            inner *= 2
            for i in range(count):
                with net.scope(f"block.{i}"):
                    h = net.conv_bn(x, inner, inner // 2, 1, "LeakyRelu")
                    x = net.node("Add", x, net.conv_bn(h, inner // 2, inner, 3, "LeakyRelu", scale=0.5))
        seen.append((x, inner))
    with net.scope("coarse"):
        x = net.conv_bn(x, inner, inner // 2, 1, "LeakyRelu")
        coarse = net.conv(x, inner // 2, 9, 1, bias=True)
    with net.scope("fine"):
        up = net.conv_bn(x, inner // 2, inner // 4, 1, "LeakyRelu")
        scales = net.constant(np.array([1, 1, 2, 2], np.float32), "scales")
        attrs = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        up = net.node("Resize", up, "", scales, **attrs)
        before, width = seen[-2]
        x = net.node("Concat", up, before, axis=1)
        fine = net.conv(net.conv_bn(x, inner // 4 + width, width, 3, "LeakyRelu"), width, 9, 1, bias=True)
    size = f.image >> len(f.blocks)
    flat = [net.node("Transpose", net.node("Reshape", y, net.whole(1, 9, -1)), perm=[0, 2, 1]) for y in (coarse, fine)]
    boxes = net.node("Concat", *flat, axis=1)
    return net.model({"boxes": (boxes, [1, 5 * size**2, 9])})
