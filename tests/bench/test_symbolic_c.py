"""What unknown sizes cost in C: a model built without numbers beside the same with its sizes fixed: `make bench`.

Both libraries are run in one process by turns, on the same inputs at the same sizes. A round takes the fastest of some
runs of each; the ratio of a case is the median of its rounds. The outputs are the same bits (rule M10).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from rich.console import Console
from rich.table import Table

from assay.interp.graph import evaluate
from assay.lower.c import emit
from assay.lower.c.layout import by_pointer
from assay.lower.frontends.onnx.model import import_onnx
from assay.verify.app.stages import lowering_passes
from assay.verify.c.compiled import Compiled, compile_c
from assay.verify.c.tools import FLAGS
from tests.verify.whole.test_symbolic_sizes import attention, image, model, perceptron, weights

Array = np.ndarray[Any, Any]
Make = Callable[[], onnx.ModelProto]

MEAN, WORST = 1.15, 1.5
"""How much the time with unknown sizes may be, by that with fixed ones: in the geometric mean, and of any case."""
ROUNDS, RUNS = 9, 12
ALIGNED = (*FLAGS, "-falign-loops=32")
"""One loop, the same bytes of code, takes up to half as long again where it lies across a boundary of 32 bytes. Which
loop does is chance, so none does in either library."""
STORED = Path(__file__).parents[1] / "exported" / "models"


def one(
    *ops: str, shape: list[int | str], rank: int = 0, given: Mapping[str, tuple[int, ...]] = {}, **attrs: Any
) -> Make:
    """A model that applies some operators in a row, the weights and attributes to the first of them."""

    def make() -> onnx.ModelProto:
        names = ["x", *(f"t{k}" for k in range(1, len(ops))), "y"]
        nodes = [
            helper.make_node(op, [names[k], *(given if k == 0 else ())], [names[k + 1]], **(attrs if k == 0 else {}))
            for k, op in enumerate(ops)
        ]
        return model(nodes, list(shape), [None] * len(shape), weights(**given))

    return make


def wide_perceptron() -> onnx.ModelProto:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["s"]),
        helper.make_node("Relu", ["s"], ["r"]),
        helper.make_node("MatMul", ["r", "v"], ["y"]),
    ]
    return model(nodes, ["batch", 32], ["batch", 10], weights(w=(32, 64), b=(64,), v=(64, 10)))


def wide_attention() -> onnx.ModelProto:
    """One head of 16 numbers, the query scaled."""
    nodes = [
        helper.make_node("MatMul", ["x", "wq"], ["q"]),
        helper.make_node("MatMul", ["x", "wk"], ["k"]),
        helper.make_node("MatMul", ["x", "wv"], ["v"]),
        helper.make_node("Mul", ["q", "scale"], ["u"]),
        helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["u", "kt"], ["s"]),
        helper.make_node("Softmax", ["s"], ["a"], axis=-1),
        helper.make_node("MatMul", ["a", "v"], ["y"]),
    ]
    given = weights(wq=(16, 16), wk=(16, 16), wv=(16, 16), scale=(1,))
    return model(nodes, ["batch", "seq", 16], ["batch", "seq", 16], given)


def stored(name: str) -> Make:
    return lambda: onnx.load(STORED / f"{name}.onnx")


def at(batch: int, side: int = 32) -> dict[str, int]:
    return {"batch": batch, "height": side, "width": side}


IMAGE: list[int | str] = ["batch", 8, "height", "width"]
ROWS: list[int | str] = ["batch", "wide"]
PAD = [1, 1, 1, 1]
RUN: dict[str, tuple[Make, dict[str, int]]] = {
    "perceptron, small": (perceptron, {"batch": 4096}),
    "perceptron": (wide_perceptron, {"batch": 128}),
    "attention, small": (attention, {"batch": 8, "seq": 64}),
    "attention": (wide_attention, {"batch": 2, "seq": 64}),
    "image": (image, at(8, 64)),
    "convolution": (one("Conv", shape=IMAGE, given={"w": (8, 8, 3, 3)}, pads=PAD), at(2)),
    "convolution, strides": (
        one("Conv", shape=IMAGE, given={"w": (8, 8, 3, 3)}, pads=PAD, strides=[2, 2]),
        at(4),
    ),
    "convolution, bias, relu": (
        one("Conv", "Relu", shape=IMAGE, given={"w": (8, 8, 3, 3), "b": (8,)}, pads=PAD),
        at(2),
    ),
    "convolution, 1x1": (one("Conv", shape=IMAGE, given={"w": (8, 8, 1, 1)}), at(4)),
    "max pool": (one("MaxPool", shape=IMAGE, kernel_shape=[2, 2], strides=[2, 2]), at(8)),
    "average pool": (
        one("AveragePool", shape=IMAGE, kernel_shape=[3, 3], pads=PAD, strides=[1, 1]),
        at(4),
    ),
    "mean over the image": (one("GlobalAveragePool", shape=IMAGE), at(8)),
    "softmax": (one("Softmax", shape=ROWS), {"batch": 64, "wide": 64}),
    "layer norm": (
        one("LayerNormalization", shape=["batch", "seq", 32], given={"g": (32,), "b": (32,)}),
        {"batch": 16, "seq": 32},
    ),
    "elementwise chain": (one("Neg", "Relu", "Abs", "Neg", shape=IMAGE), at(8)),
    "maximum of rows": (one("ReduceMax", shape=ROWS, axes=[1]), {"batch": 256, "wide": 256}),
    "sum of columns": (one("ReduceMean", shape=ROWS, axes=[0]), {"batch": 256, "wide": 256}),
    "transpose": (one("Transpose", shape=["batch", "height", "width"], perm=[0, 2, 1]), at(8, 64)),
    "unet": (stored("unet_traced_17"), at(2)),
    # of an even size nothing is resized, which only fixed sizes tell
    "unet, resized": (stored("unet_resized_traced_17"), at(2, 33)),
    "linear regression": (stored("sk_linear"), {"x_0": 8192}),
    "nearest mean": (stored("sk_means"), {"x_0": 2048}),
    "network of scikit-learn": (stored("sk_network"), {"x_0": 1024}),
    "polynomial features": (stored("sk_polynomial"), {"x_0": 2048}),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Ready:
    """A library, with the addresses of all that its entry takes."""

    compiled: Compiled
    addresses: list[int]
    outputs: list[Array]
    kept: list[Array]

    def seconds(self) -> float:
        """The fastest of some runs, in CPU seconds."""
        best = float("inf")
        for _ in range(RUNS):
            start = time.process_time()
            status = self.compiled.call(*self.addresses)
            best = min(best, time.process_time() - start)
            assert status == "OK"
        return best


def memory(nbytes: int, number: int) -> Array:
    """Zeros, alike for both libraries: from a page on, and a few hundred bytes further for each buffer, for what has
    the same place in its page as another costs a processor half its speed. At least one byte, for an empty slice
    begins anywhere."""
    whole = np.zeros(nbytes + 4096 + 4096, np.uint8)
    start = -whole.ctypes.data % 4096 + 320 * number % 4096
    return whole[start : start + max(nbytes, 1)]


def ready(of: onnx.ModelProto, sizes: Mapping[str, int], fixed: bool) -> Ready:
    """The model lowered with these sizes fixed, or with none, compiled, and ready to run at these sizes."""
    module = import_onnx(of, evaluate=evaluate, dims=dict(sizes) if fixed else {})
    for stage in lowering_passes().values():
        module = stage(module)
    source = emit(module, "m")
    compiled = compile_c(source, reproducible=False, flags=ALIGNED)
    values = [sizes[s.size] for s in source.sizes]
    assert bool(values) is not fixed
    source = compiled.at(values)
    rng = np.random.default_rng(1)
    inputs, outputs = by_pointer(source.inputs), by_pointer(source.outputs)
    needed = [*(a.nbytes for a in (*inputs, *outputs)), *(int(str(w.nbytes)) for w in source.workspaces)]
    given = [memory(n, k) for k, n in enumerate(needed)]
    for block, a in zip(given, inputs, strict=False):
        block[: a.nbytes] = (
            rng.standard_normal(a.type.static_shape).astype(a.type.dtype.numpy).reshape(-1).view(np.uint8)
        )
    numbers = np.array(values, np.int64)
    addresses = [numbers.ctypes.data + 8 * i for i in range(len(values))]
    addresses += [b.ctypes.data for b in given]
    return Ready(compiled, addresses, given[len(inputs) : len(inputs) + len(outputs)], [numbers, *given])


def ratio(of: onnx.ModelProto, sizes: Mapping[str, int]) -> tuple[float, float, float]:
    """The least seconds with unknown and with fixed sizes, and the median of their ratios."""
    free, fixed = ready(of, sizes, fixed=False), ready(of, sizes, fixed=True)
    rounds = [(free.seconds(), fixed.seconds()) for _ in range(ROUNDS)]
    assert all(a.tobytes() == b.tobytes() for a, b in zip(free.outputs, fixed.outputs, strict=True))
    return min(a for a, _ in rounds), min(b for _, b in rounds), median(a / b for a, b in rounds)


@pytest.mark.bench
def test_unknown_sizes_cost_little() -> None:
    table = Table("case", "sizes", "unknown, ms", "fixed, ms", "ratio", title="C of unknown sizes and of fixed ones")
    for column in table.columns[2:]:
        column.justify = "right"
    ratios: dict[str, float] = {}
    for name, (make, sizes) in RUN.items():
        free, fixed, ratios[name] = ratio(make(), sizes)
        said = ", ".join(f"{k} {v}" for k, v in sizes.items())
        table.add_row(name, said, f"{1e3 * free:.3f}", f"{1e3 * fixed:.3f}", f"{ratios[name]:.2f}")
    mean = geometric_mean(ratios.values())
    table.add_row("geometric mean", "", "", "", f"{mean:.3f}")
    Console(width=120).print(table)
    assert mean <= MEAN
    assert [n for n, r in ratios.items() if r > WORST] == []
