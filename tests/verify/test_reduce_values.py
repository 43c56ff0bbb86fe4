"""Reduced examples have few elements, and numbers that are easy to read: inputs and weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper as h

from assay.interp import graph
from assay.semantics.graph import Expr
from assay.verify.backends import Prepared, Subject
from assay.verify.reduce import ReducedCase, reduce
from assay.verify.reduce.finding import find, shows
from assay.verify.reduce.values import cost
from tests.models import model

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(1)
W = (40 * RNG.normal(size=(3, 5))).astype(np.float32)


@dataclass
class Planted:
    """The definition, but that what some operator makes goes through a function."""

    operator: str
    fault: Callable[[Array], Array]
    name: str = "planted"

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        odd = {
            id(subject.tensors[n.output[0]])
            for n in subject.model.graph.node
            if n.op_type == self.operator and n.output[0] in subject.tensors
        }

        def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
            found: dict[int, Array] = {}

            def look(node: Expr, value: Any) -> Any:
                if id(node) in odd:
                    value = np.asarray(self.fault(value)).astype(value.dtype)
                found[id(node)] = value
                return value

            graph.run(subject.module, inputs, observe=look)
            return {n: found[id(subject.tensors[n])] for n in wanted}

        return run


def is_round(x: float) -> bool:
    """Whole and of at most four digits, a power of two, or a decimal of at most three."""
    if not np.isfinite(x):
        return True
    digits = f"{abs(x):.9g}".replace(".", "").strip("0")
    return (x == round(x) and abs(x) < 10_000) or abs(np.frexp(x)[0]) in (0, 0.5) or len(digits) <= 3


CASES: dict[str, tuple[Planted, list[onnx.NodeProto], dict[str, Array], Array, int]] = {
    "saturates": (
        Planted("Relu", lambda v: np.minimum(v, 132)),
        [h.make_node("Relu", ["x"], ["y"])],
        {},
        (400 * RNG.normal(size=(2, 3))).astype(np.float32),
        1,
    ),
    "of the weights": (
        Planted("MatMul", lambda v: np.where(np.abs(v) > 50, v * np.float32(1.01), v)),
        [h.make_node("MatMul", ["x", "w"], ["m"]), h.make_node("Tanh", ["m"], ["y"])],
        {"w": W},
        RNG.normal(size=(4, 3)).astype(np.float32),
        2,
    ),
    "of integers": (
        Planted("Mul", lambda v: np.where(v > 1_000, v - 1, v)),
        [h.make_node("Mul", ["x", "x"], ["y"])],
        {},
        RNG.integers(-90, 90, (5, 7)).astype(np.int64),
        1,
    ),
    "of small numbers": (
        Planted("Exp", lambda v: np.where(v < 0.01, 0, v)),
        [h.make_node("Exp", ["x"], ["y"])],
        {},
        (20 * RNG.normal(size=(3, 4))).astype(np.float32),
        1,
    ),
    "of fractions": (
        Planted("Add", lambda v: np.floor(v)),
        [h.make_node("Add", ["x", "b"], ["y"])],
        {"b": RNG.normal(size=(4,)).astype(np.float32)},
        RNG.normal(size=(3, 4)).astype(np.float32),
        2,
    ),
    "of two that differ": (
        Planted("ReduceMax", lambda v: np.maximum(v, 0) * 0 + np.minimum(v, 7)),
        [h.make_node("ReduceMax", ["x"], ["y"], keepdims=1)],
        {},
        (30 * RNG.normal(size=(3, 4))).astype(np.float32),
        1,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_few_elements_and_round_numbers(name: str) -> None:
    planted, nodes, weights, x, most = CASES[name]
    made = model(nodes, {"x": (x.dtype, x.shape)}, {"y": (x.dtype, None)}, weights, 13, ir_version=8)
    case = ReducedCase(made, {"x": x})
    found = find(case, planted)
    assert found is not None
    small = reduce(case, shows(planted, found))
    arrays = [*small.inputs.values(), *small.initializers.values()]
    numbers = [float(v) for a in arrays for v in a.reshape(-1)]
    assert len(numbers) <= most and all(map(is_round, numbers)), numbers
    if name == "saturates":
        assert numbers == [133.0]
    if name == "of integers":
        assert numbers == [32.0]


def test_simpler_is_less() -> None:
    order = [0, 1, 2, 7, 10, 100, 133, 256, 0.5, 2.0**-30, 0.25, 1.5, 12.25, 1.23456789]
    costs = [cost(np.array([x])) for x in order]
    assert costs[:3] == sorted(costs[:3]) and costs[3] < costs[5] < costs[6] < costs[7] and costs[4] < costs[6]
    assert costs[7] < costs[11] < costs[12] < costs[13] and costs[8] < costs[12] and costs[9] < costs[12]
    assert cost(np.array([3.0, 3.0])) < cost(np.array([3.0, 4.0])) and cost(np.array([-0.0])) > cost(np.array([0.0]))
    assert cost(np.array([-5.0])) > cost(np.array([5.0])) and cost(np.array([np.nan])) < cost(np.array([0.3]))
    assert is_round(133.0) and is_round(2.0**-20) and is_round(0.125) and not is_round(251.37)
