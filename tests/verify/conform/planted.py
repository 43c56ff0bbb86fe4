"""Backends that are judged in the tests: one that is right, and some with a fault. Each is at MODULE:NAME too."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from assay.semantics.errors import Unsupported
from assay.verify.backends import Prepared, Subject
from assay.verify.backends.reference import Reference

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Planted:
    """ONNX's reference, which `change` spoils where the model has a node of `operator`."""

    operator: str = ""
    change: Callable[[Array], Array] = lambda a: a
    name: str = "planted"

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        run = Reference().prepare(subject, wanted)
        there = any(n.op_type == self.operator for n in subject.model.graph.node)

        def call(inputs: Mapping[str, Array]) -> dict[str, Array]:
            found = run(inputs)
            return {n: self.change(a) if isinstance(a, np.ndarray) else a for n, a in found.items()} if there else found

        return call


def _axis(a: Array) -> Array:
    return a[::-1].copy() if a.ndim else a


def _nan(a: Array) -> Array:
    made = a.copy()
    made.reshape(-1)[:1] = np.nan
    return made


def _refuse(a: Array) -> Array:
    raise Unsupported("the backend planted cannot run this model: not today", label="backend.C2")


def _die(a: Array) -> Array:
    os._exit(3)


def _sleep(a: Array) -> Array:
    time.sleep(60)
    return a


right = Planted()
off_by_an_axis = Planted("Concat", _axis)
gives_nan = Planted("Relu", _nan)
refuses = Planted("Relu", _refuse)
dies = Planted("Relu", _die)
sleeps = Planted("Relu", _sleep)


def model_of(operator: str, shape: Sequence[int] = (2, 3), **attrs: Any) -> onnx.ModelProto:
    """A model of one operator on an input x of float32."""
    count = 2 if operator == "Concat" else 1
    names = [f"x{i}" for i in range(count)]
    made = onnx.helper.make_node(operator, names, ["y"], **attrs)
    infos = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, shape) for n in names]
    outputs = [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)]
    graph = onnx.helper.make_graph([made], operator, infos, outputs)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
