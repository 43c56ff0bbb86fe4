"""What the models of the zoo are built of: layers with weights of sane scales, as exporters write them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper

from tests.models import Build, Shape, model

LIMITS = "zoo.limits"
"""The key of a model's metadata under which the limits of its whole-number inputs stand: each below which number."""


def _constant(name: str, array: Any) -> NodeProto:
    value = numpy_helper.from_array(np.asarray(array), name)
    return helper.make_node("Constant", [], [name], name=f"/Constant_{name}", value=value)


class Net(Build):
    """A graph under construction. Nodes and weights are called by where they stand, as exporters call them.

    Weights are trained-like: scales are not all one, biases and statistics not zero, and activations stay of order one
    through the depth.
    """

    def __init__(self, name: str, opset: int, seed: int, inline: bool = False) -> None:
        """`inline`: numbers and sizes are Constant nodes, as PyTorch's older exporter writes them."""
        super().__init__(seed)
        self.inline = inline
        self.name = name
        self.opset = opset
        self.inputs: dict[str, tuple[Any, Shape]] = {}
        self.limits: dict[str, int] = {}
        self._scopes: list[str] = []
        self._numbers: dict[str, int] = {}
        self._shared: dict[bytes, str] = {}

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Nodes and weights that are made inside are called by it."""
        self._scopes.append(name)
        yield
        self._scopes.pop()

    def node(self, op: str, *inputs: str, outputs: int = 1, **attrs: Any) -> Any:
        """A node, whose results are called by it."""
        path = "/".join(["", *self._scopes, op])
        number = self._numbers[path] = self._numbers.get(path, -1) + 1
        name = f"{path}_{number}" if number else path
        made = [f"{name}_output_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), made, name=name, **attrs))
        return made[0] if outputs == 1 else made

    def constant(self, array: Any, hint: str = "c") -> str:
        """A stored tensor of its own."""
        path = ".".join([*self._scopes, hint])
        number = self._numbers[path] = self._numbers.get(path, -1) + 1
        name = f"{path}_{number}" if number else path
        self.stored[name] = np.asarray(array)
        return name

    def number(self, value: float) -> str:
        """A stored float32, or the one that is there already."""
        return self._known(np.float32(value), "number")

    def whole(self, *values: int) -> str:
        """A stored list of whole numbers, or the one that is there already."""
        return self._known(np.array(values, np.int64), "sizes")

    def index(self, value: int) -> str:
        """A stored whole number of no axes."""
        return self._known(np.array(value, np.int64), "index")

    def _known(self, array: Any, hint: str) -> str:
        key = array.tobytes() + str(np.shape(array)).encode() + hint.encode()
        if key not in self._shared:
            scopes, self._scopes = self._scopes, []
            self._shared[key] = self.constant(array, hint)
            self._scopes = scopes
        return self._shared[key]

    def input(self, name: str, of: Any, shape: Sequence[int], below: int = 0) -> str:
        """An input of the model; whole numbers lie in [0, below)."""
        self.inputs[name] = (of, list(shape))
        if below:
            self.limits[name] = below
        return name

    def model(self, outputs: dict[str, tuple[str, Sequence[int]]]) -> ModelProto:
        """The model with these outputs: for each its tensor and its shape."""
        for name, (tensor, _) in outputs.items():
            self._rename(tensor, name)
        inlined = {
            n: v for n, v in self.stored.items() if self.inline and n.split("_")[0] in ("number", "sizes", "index")
        }
        constants = [_constant(n, v) for n, v in inlined.items()]
        stored = {n: v for n, v in self.stored.items() if n not in inlined}
        declared = {name: (np.float32, list(shape)) for name, (_, shape) in outputs.items()}
        made = model([*constants, *self.nodes], self.inputs, declared, stored, self.opset, self.name)
        made.producer_name = "tests.zoo"
        helper.set_model_props(made, {LIMITS: json.dumps(self.limits)})
        return made

    def _rename(self, old: str, new: str) -> None:
        for node in self.nodes:
            for names in (node.input, node.output):
                for i, n in enumerate(names):
                    if n == old:
                        names[i] = new

    # --- layers ---------------------------------------------------------------------------------------------------

    def spread(self, *shape: int, mean: float = 0.0, by: float = 1.0, hint: str = "weight") -> str:
        """Random numbers about `mean`."""
        return self.constant((mean + by * self._random.standard_normal(shape)).astype(np.float32), hint)

    def bias(self, width: int) -> str:
        """A bias that is not zero."""
        return self.spread(width, by=0.2, hint="bias")

    def linear(
        self, x: str, inner: int, outer: int, *, bias: bool = True, gain: float = 1.0, swapped: bool = False
    ) -> str:
        """MatMul and Add; `swapped` has the bias first, as PyTorch's exporter writes it."""
        y: str = self.node("MatMul", x, self.spread(inner, outer, by=gain / inner**0.5))
        if not bias:
            return y
        b = self.bias(outer)
        return str(self.node("Add", b, y) if swapped else self.node("Add", y, b))

    def gemm(self, x: str, inner: int, outer: int, *, transposed: bool = True, gain: float = 1.0) -> str:
        """Gemm on rows."""
        shape = (outer, inner) if transposed else (inner, outer)
        attrs = {"transB": 1} if transposed else {}
        return str(self.node("Gemm", x, self.spread(*shape, by=gain / inner**0.5), self.bias(outer), **attrs))

    def layer_norm(self, x: str, width: int, *, parts: bool = False, epsilon: float = 1e-5) -> str:
        """LayerNormalization over the last axis, as one node or in parts."""
        gamma = self.spread(width, mean=1.0, by=0.25, hint="weight")
        beta = self.bias(width)
        if not parts:
            return str(self.node("LayerNormalization", x, gamma, beta, axis=-1, epsilon=epsilon))
        centred = self.node("Sub", x, self.mean(x))
        variance = self.mean(self.node("Pow", centred, self.number(2.0)))
        root = self.node("Sqrt", self.node("Add", variance, self.number(epsilon)))
        return str(self.node("Add", self.node("Mul", self.node("Div", centred, root), gamma), beta))

    def mean(self, x: str, axis: int = -1, keepdims: int = 1) -> str:
        """The mean over an axis."""
        if self.opset < 18:
            return str(self.node("ReduceMean", x, axes=[axis], keepdims=keepdims))
        return str(self.node("ReduceMean", x, self.whole(axis), keepdims=keepdims))

    def rms_norm(self, x: str, width: int, epsilon: float = 1e-5) -> str:
        """RMSNormalization over the last axis: one node where the operator set has it."""
        gamma = self.spread(width, mean=1.0, by=0.25)
        if self.opset >= 23:
            return str(self.node("RMSNormalization", x, gamma, axis=-1, epsilon=epsilon))
        variance = self.mean(self.node("Pow", x, self.number(2.0)))
        root = self.node("Sqrt", self.node("Add", variance, self.number(epsilon)))
        inverse = self.node("Reciprocal", root) if self.opset >= 18 else self.node("Div", self.number(1.0), root)
        return str(self.node("Mul", gamma, self.node("Mul", x, inverse)))

    def activation(self, x: str, kind: str) -> str:
        """An activation: gelu as a chain of Erf, as the formula with tanh, or as a node; silu; others are nodes."""
        match kind:
            case "erf":
                inner = self.node("Erf", self.node("Div", x, self.number(2**0.5)))
                return str(
                    self.node("Mul", self.node("Mul", x, self.node("Add", inner, self.number(1))), self.number(0.5))
                )
            case "tanh-formula":
                cube = self.node("Mul", self.number(0.044715), self.node("Pow", x, self.number(3)))
                inner = self.node("Mul", self.number((2 / np.pi) ** 0.5), self.node("Add", x, cube))
                right = self.node("Add", self.number(1), self.node("Tanh", inner))
                return str(self.node("Mul", self.node("Mul", self.number(0.5), x), right))
            case "silu":
                return str(self.node("Mul", x, self.node("Sigmoid", x)))
            case "relu6":
                return str(self.node("Clip", x, self.number(0), self.number(6)))
            case "LeakyRelu":
                return str(self.node("LeakyRelu", x, alpha=0.1))
            case "Gelu-tanh":
                return str(self.node("Gelu", x, approximate="tanh"))
            case "none":
                return x
            case _:
                return str(self.node(kind, x))

    def shaped(self, x: str, *last: int, keep: int = 2, computed: bool = False) -> str:
        """Reshape to the first `keep` axes of x and then `last`; `computed` takes the sizes by Shape and Gather."""
        if not computed:
            return str(self.node("Reshape", x, self.whole(*[0] * keep, *last)))
        sizes = [
            self.node("Unsqueeze", self.node("Gather", self.node("Shape", x), self.index(a), axis=0), self.whole(0))
            for a in range(keep)
        ]
        return str(self.node("Reshape", x, self.node("Concat", *sizes, self.whole(*last), axis=0)))

    def conv(
        self, x: str, inner: int, outer: int, kernel: int, *, stride: int = 1, group: int = 1, dilation: int = 1,
        bias: bool = False, gain: float = 1.4,
    ) -> str:  # fmt: skip
        """A convolution over two axes that keeps the size, but for the stride."""
        centred = group == 1 and inner > 3  # what all images have in common does not pile up through the depth
        by = gain * (1.2 if centred else 1) / (inner // group * kernel**2) ** 0.5
        values = by * self._random.standard_normal((outer, inner // group, kernel, kernel))
        values -= values.mean((1, 2, 3), keepdims=True) * centred
        weight = self.constant(values.astype(np.float32), "weight")
        pad = dilation * (kernel - 1) // 2
        attrs = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
        attrs |= {"dilations": [dilation] * 2, "group": group}  # type: ignore[dict-item]
        return str(self.node("Conv", x, weight, *[self.bias(outer)] * bias, **attrs))

    def batch_norm(self, x: str, width: int, gain: float = 1.0, epsilon: float = 1e-5) -> str:
        """BatchNormalization by statistics that are not trivial."""
        scale = self.constant((gain * self._random.uniform(0.6, 1.4, width)).astype(np.float32), "weight")
        shift, mean = self.bias(width), self.spread(width, by=0.3, hint="running_mean")
        variance = self.constant(self._random.uniform(0.6, 1.8, width).astype(np.float32), "running_var")
        return str(self.node("BatchNormalization", x, scale, shift, mean, variance, epsilon=epsilon, momentum=0.9))

    def conv_bn(self, x: str, inner: int, outer: int, kernel: int, act: str = "Relu", **how: Any) -> str:
        """A convolution, a batch normalization and an activation."""
        gain = how.pop("scale", 1.0)
        return self.activation(self.batch_norm(self.conv(x, inner, outer, kernel, **how), outer, gain), act)

    def pooled(self, x: str, width: int, classes: int) -> str:
        """A global average pool and a classifier."""
        flat = self.node("Flatten", self.node("GlobalAveragePool", x), axis=1)
        with self.scope("fc"):
            return self.gemm(flat, width, classes, gain=2.0)
