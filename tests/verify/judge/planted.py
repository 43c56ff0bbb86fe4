"""Backends with a planted fault, named as MODULE:NAME on the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from assay.verify.backends import Subject, backend
from assay.verify.backends.protocol import Prepared

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Off:
    """The NumPy backend, but for the element (0, 1) of the output `b`."""

    name: str = "off"

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        run = backend("numpy").prepare(subject, wanted)

        def act(inputs: Mapping[str, Array]) -> dict[str, Array]:
            made = {n: v.copy() for n, v in run(inputs).items()}
            if "b" in made:
                made["b"][0, 1] += 1
            return made

        return act


@dataclass(frozen=True)
class Refuses:
    """Takes no model."""

    name: str = "refuses"

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        raise NotImplementedError("no such operator here")


@dataclass(frozen=True)
class Missing:
    """A backend whose tool is not installed."""

    name: str = "missing"

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        import no_such_tool  # type: ignore[import-not-found]

        raise AssertionError(no_such_tool)


def two_outputs() -> onnx.ModelProto:
    """a = relu(x @ w), b = tanh(a) + x."""
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "w"], ["h"], "product"),
        onnx.helper.make_node("Relu", ["h"], ["a"], "rectified"),
        onnx.helper.make_node("Tanh", ["a"], ["t"], "bent"),
        onnx.helper.make_node("Add", ["t", "x"], ["b"], "sum"),
    ]
    x = onnx.helper.make_tensor_value_info("x", 1, [2, 3])
    outputs = [onnx.helper.make_tensor_value_info(n, 1, [2, 3]) for n in "ab"]
    weights = np.array([[0.5, -1, 0.25], [2, 0.75, -0.5], [1, -0.25, 3]], np.float32)
    graph = onnx.helper.make_graph(nodes, "two", [x], outputs, [onnx.numpy_helper.from_array(weights, "w")])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


@dataclass
class Endless:
    """Gives many megabytes where a few bytes are wanted."""

    name: str = "endless"

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        return lambda inputs: {n: np.zeros(20 << 20, np.float32) for n in wanted}
