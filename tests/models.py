"""Models for tests, made with onnx.helper: small, parametrisable, with the operators that real ones have.

transformer_block(16, 32, 4)      # one encoder block: length, width, heads
small_cnn()                       # convolutions, pools, batch normalization, a classifier
single("Relu", 14, [x])           # one node at any operator set
light_models()                    # the nine real ones in the onnx package
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, ValueInfoProto, helper, numpy_helper

Array = np.ndarray[Any, Any]
Shape = Sequence[int | str | None]

NEWEST_RELEASED = 26
"""The newest operator set that the supported runtimes have."""


def ir_version_for(opset: int) -> int:
    """An IR version that goes with an operator set, low enough for runtimes."""
    return 3 if opset < 9 else 8 if opset < 19 else 10


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, tuple[Any, Shape]],
    outputs: Mapping[str, tuple[Any, Shape | None]],
    initializers: Mapping[str, Array] | None = None,
    opset: int = 17,
    name: str = "model",
    ir_version: int | None = None,
    opsets: Mapping[str, int] | None = None,
) -> ModelProto:
    """A model. Types are (NumPy dtype or TensorProto number, shape); a shape of None is left out.

    With an IR version below 4 initializers are inputs too, as they had to be then.
    """
    stored = initializers or {}
    ir = ir_version_for(opset) if ir_version is None else ir_version
    params = [value(n, of, shape) for n, (of, shape) in inputs.items()]
    if ir < 4:
        params += [value(n, a.dtype, a.shape) for n, a in stored.items()]
    graph = helper.make_graph(
        list(nodes),
        name,
        params,
        [value(n, of, shape) for n, (of, shape) in outputs.items()],
        [numpy_helper.from_array(a, n) for n, a in stored.items()],
    )
    imports = [helper.make_opsetid(d, v) for d, v in {"": opset, **(opsets or {})}.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir)


def value(name: str, of: Any, shape: Shape | None) -> ValueInfoProto:
    """A declaration of a tensor."""
    number = of if isinstance(of, int) else helper.np_dtype_to_tensor_dtype(np.dtype(of))
    return helper.make_tensor_value_info(name, number, None if shape is None else list(shape))


def single(
    op: str,
    opset: int,
    inputs: Sequence[Array | None],
    attrs: Mapping[str, Any] | None = None,
    *,
    constants: Sequence[int] = (),
    outputs: int | Sequence[tuple[Any, Shape | None]] = 1,
    domain: str = "",
) -> ModelProto:
    """A model of one node `op` with inputs x0, x1, ... and outputs y0, y1, ...

    `inputs` gives types by example; None leaves an operand out. Those numbered in `constants` are initializers.
    """
    names = ["" if a is None else f"x{i}" for i, a in enumerate(inputs)]
    given = {n: a for n, a in zip(names, inputs, strict=True) if a is not None}
    fixed = {f"x{i}": given[f"x{i}"] for i in constants}
    declared: dict[str, tuple[Any, Shape | None]]
    if isinstance(outputs, int):
        declared = {f"y{i}": (TensorProto.UNDEFINED, None) for i in range(outputs)}
    else:
        declared = {f"y{i}": t for i, t in enumerate(outputs)}
    node = helper.make_node(op, names, list(declared), name="node", domain=domain, **(attrs or {}))
    params = {n: (a.dtype, a.shape) for n, a in given.items() if n not in fixed}
    made = model([node], params, {}, fixed, opset, opsets={domain: 1} if domain else None)
    for n, (of, shape) in declared.items():
        made.graph.output.append(value(n, of, shape) if of else ValueInfoProto(name=n))
    return made


# --- the nine light models ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LightModel:
    """A real network in the onnx package, its weights replaced by ConstantOfShape, and what it should give."""

    name: str
    path: Path
    expected: Path

    def load(self) -> ModelProto:
        return onnx.load(self.path)

    @property
    def inputs(self) -> dict[str, Array]:
        """arange(n) / n in the input's shape, as onnx.backend.test feeds it."""
        graph = self.load().graph
        stored = {i.name for i in graph.initializer}
        found: dict[str, Array] = {}
        for given in graph.input:
            if given.name not in stored:
                shape = [d.dim_value for d in given.type.tensor_type.shape.dim]
                n = int(np.prod(shape))
                found[given.name] = (np.arange(n).reshape(shape) / n).astype(np.float32)
        return found

    @property
    def outputs(self) -> dict[str, Array]:
        """The stored output, which is ONNX Runtime's, by name."""
        (name,) = (o.name for o in self.load().graph.output)
        return {name: numpy_helper.to_array(onnx.load_tensor(str(self.expected)))}


def light_models() -> list[LightModel]:
    """The nine light models, by name."""
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    return [
        LightModel(path.stem.removeprefix("light_"), path, path.with_name(f"{path.stem}_output_0.pb"))
        for path in sorted(folder.glob("light_*.onnx"))
    ]


# --- a transformer block ------------------------------------------------------------------------------------------


class Build:
    """Nodes and initializers of a graph under construction; every method gives the name of its result."""

    def __init__(self, seed: int) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.stored: dict[str, Array] = {}
        self._random = np.random.default_rng(seed)

    def node(self, op: str, *inputs: str, outputs: int = 1, **attrs: Any) -> Any:
        name = f"{op.lower()}_{len(self.nodes)}"
        made = [name] if outputs == 1 else [f"{name}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), made, name=f"{op}_{len(self.nodes)}", **attrs))
        return made[0] if outputs == 1 else made

    def constant(self, array: Any, hint: str = "c") -> str:
        name = f"{hint}_{len(self.stored)}"
        self.stored[name] = np.asarray(array)
        return name

    def weight(self, *shape: int, scale: float | None = None, hint: str = "w") -> str:
        """Random numbers whose spread keeps the sums of a layer near 1."""
        spread = 1 / np.sqrt(max(1, np.prod(shape[:-1]))) if scale is None else scale
        return self.constant((self._random.standard_normal(shape) * spread).astype(np.float32), hint)


def transformer_block(
    length: int | str = 16,
    width: int = 32,
    heads: int = 4,
    *,
    batch: int | str = 1,
    hidden: int | None = None,
    erf: bool = True,
    approximate: str = "none",
    opset: int | None = None,
    shapes: str = "constant",
    seed: int = 0,
) -> ModelProto:
    """An encoder block, normalization first: attention with heads, then a feed-forward net, both around a residual.

    With `erf` its activation is the formula in Div, Erf, Add and Mul, else one Gelu node of operator set 20 with
    `approximate`. `shapes` is "constant" (Reshape by 0 and -1) or "computed" (by Shape, Gather and Concat, as exporters
    write it). `length` and `batch` may be names of symbolic dims.
    """
    hidden = 4 * width if hidden is None else hidden
    per_head = width // heads
    b = Build(seed)

    def normalized(x: str) -> str:
        # fmt: skip
        return b.node(
            "LayerNormalization",
            x,
            b.weight(width, scale=1.0, hint="gamma"),
            b.weight(width, scale=0.1, hint="beta"),
            axis=-1,
            epsilon=1e-5,
        )

    def linear(x: str, inner: int, outer: int) -> str:
        return b.node("Add", b.node("MatMul", x, b.weight(inner, outer)), b.weight(outer, scale=0.1, hint="b"))

    def shaped(x: str, *last: int) -> str:
        if shapes == "constant":
            return b.node("Reshape", x, b.constant(np.array([0, 0, *last], np.int64), "shape"))
        whole = b.node("Shape", x)
        sizes = [
            b.node(
                "Unsqueeze",
                b.node("Gather", whole, b.constant(np.int64(a)), axis=0),
                b.constant(np.array([0], np.int64)),
            )
            for a in (0, 1)
        ]
        return b.node("Reshape", x, b.node("Concat", *sizes, b.constant(np.array(last, np.int64), "last"), axis=0))

    def split_heads(x: str, order: Sequence[int]) -> str:
        return b.node("Transpose", shaped(x, heads, per_head), perm=order)

    h = normalized("x")
    q = split_heads(linear(h, width, width), [0, 2, 1, 3])
    k = split_heads(linear(h, width, width), [0, 2, 3, 1])
    v = split_heads(linear(h, width, width), [0, 2, 1, 3])
    scores = b.node("Mul", b.node("MatMul", q, k), b.constant(np.float32(1 / np.sqrt(per_head)), "scale"))
    mixed = b.node("Transpose", b.node("MatMul", b.node("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
    x = b.node("Add", "x", linear(shaped(mixed, -1), width, width))

    h = linear(normalized(x), width, hidden)
    if erf:
        inner = b.node("Erf", b.node("Div", h, b.constant(np.float32(np.sqrt(2)))))
        half = b.node("Mul", h, b.node("Add", inner, b.constant(np.float32(1))))
        h = b.node("Mul", half, b.constant(np.float32(0.5)))
    else:
        h = b.node("Gelu", h, approximate=approximate)
    b.node("Add", x, linear(h, hidden, width))
    shape: Shape = (batch, length, width)
    b.nodes[-1].output[0] = "y"
    sets = opset or (17 if erf else 20)
    return model(b.nodes, {"x": (np.float32, shape)}, {"y": (np.float32, shape)}, b.stored, sets, "transformer")


# --- a convolutional network --------------------------------------------------------------------------------------


def small_cnn(
    size: int = 12, channels: int = 3, classes: int = 5, *, batch: int | str = 1, opset: int = 13, seed: int = 0
) -> ModelProto:
    """A stem, an inverted residual with a depthwise convolution, an average pool and a classifier.

    Convolutions with padding, stride, dilation and groups; batch normalization; both pools; Clip; Gemm; Softmax.
    """
    b = Build(seed)

    def normalized(x: str, c: int) -> str:
        positive = np.abs(b._random.standard_normal(c)).astype(np.float32) + np.float32(0.5)
        params = [b.weight(c, scale=0.5, hint="bn") for _ in range(3)]
        return b.node("BatchNormalization", x, *params, b.constant(positive, "var"), epsilon=1e-3)

    x = b.node("Conv", "x", b.weight(8, channels, 3, 3, scale=0.3), strides=[1, 1], pads=[1, 1, 1, 1])
    x = b.node("Relu", normalized(x, 8))
    x = b.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[0, 0, 1, 1])
    expanded = b.node("Conv", x, b.weight(16, 8, 1, 1, scale=0.3), b.weight(16, scale=0.1))
    low, high = b.constant(np.float32(0)), b.constant(np.float32(6))
    expanded = b.node("Clip", normalized(expanded, 16), low, high)
    deep = b.node("Conv", expanded, b.weight(16, 1, 3, 3, scale=0.3), group=16, pads=[2, 2, 2, 2], dilations=[2, 2])
    projected = b.node("Conv", deep, b.weight(8, 16, 1, 1, scale=0.3))
    x = b.node("Add", x, projected)
    x = b.node("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2], auto_pad="SAME_UPPER")
    x = b.node("Flatten", b.node("GlobalAveragePool", x), axis=1)
    x = b.node("Gemm", x, b.weight(classes, 8, scale=0.5), b.weight(classes, scale=0.1), transB=1)
    b.node("Softmax", x, axis=-1)
    b.nodes[-1].output[0] = "y"
    inputs: dict[str, tuple[Any, Shape]] = {"x": (np.float32, (batch, channels, size, size))}
    return model(b.nodes, inputs, {"y": (np.float32, (batch, classes))}, b.stored, opset, "cnn")


def mesh(count: int, size: int = 8) -> ModelProto:
    """`count` nodes, each of the one before it and of the one above it in a square: most values are read twice."""
    width = max(2, round(count**0.5))
    above, left = ["x"] * width, "x"
    nodes = []
    for k in range(count):
        name = "y" if k == count - 1 else f"v{k}"
        nodes.append(helper.make_node(("Max", "Min", "Mean")[k % 3], [left, above[k % width]], [name]))
        left = above[k % width] = name
    shape = (size,)
    return model(nodes, {"x": (np.float32, shape)}, {"y": (np.float32, shape)}, [], 13, "mesh")


def chain(count: int, size: int = 8) -> ModelProto:
    """`count` nodes one after another, which cannot all be one kernel."""
    nodes = [
        helper.make_node(
            "Relu" if k % 2 else "Softmax", ["x" if k == 0 else f"v{k - 1}"], ["y" if k == count - 1 else f"v{k}"]
        )
        for k in range(count)
    ]
    return model(nodes, {"x": (np.float32, (size,))}, {"y": (np.float32, (size,))}, [], 13, "chain")
