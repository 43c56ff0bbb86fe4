"""Models as modules of layers: what they are exported to, and what that computes."""

from __future__ import annotations

import numpy as np
import pytest

from assay.interp.graph import run
from assay.semantics.builder import Builder, tensor
from assay.semantics.builder.layers import Layer, LayerNorm, Linear, Parameter, export
from assay.semantics.builder.nn import Conv2d, Sequential
from assay.semantics.errors import Invalid
from assay.semantics.graph import Expr
from assay.semantics.rules import check


class Head(Layer):
    def __init__(self) -> None:
        self.first, self.second = Linear(3, 5), Linear(5, 2, bias=False)
        self.norm = LayerNorm(2)

    def forward(self, b: Builder, x: Expr) -> Expr:
        return self.norm(b, self.second(b, b.nn.relu(self.first(b, x))))


@pytest.mark.row("R31")
def test_a_model_of_layers() -> None:
    module = export(Head(), x=tensor("n", 3))
    check(module)
    names = [p.name for p in module.main.params]
    assert names == ["x", "first.weight", "first.bias", "second.weight", "norm.weight", "norm.bias"]
    rng = np.random.default_rng(0)
    shapes = [(4, 3), (3, 5), (5,), (5, 2), (2,), (2,)]
    data = {n: rng.standard_normal(s).astype(np.float32) for n, s in zip(names, shapes, strict=True)}
    (found,) = run(module, data).values()
    h = np.maximum(data["x"] @ data["first.weight"] + data["first.bias"], 0) @ data["second.weight"]
    h = (h - h.mean(-1, keepdims=True)) / np.sqrt(h.var(-1, keepdims=True) + 1e-5)
    assert np.allclose(found, h * data["norm.weight"] + data["norm.bias"], atol=1e-4)


def test_shared_parameters_are_one_and_lists_are_looked_into() -> None:
    conv = Conv2d(2, 2, 3, padding=1)
    module = export(Sequential(conv, conv, Conv2d(2, 1, 1)), image=tensor(1, 2, 4, 4))
    names = [p.name for p in module.main.params]
    assert names == ["image", "layers.0.weight", "layers.0.bias", "layers.2.weight", "layers.2.bias"]
    assert str(module.main.result_type) == "Tensor((1, 1, 4, 4), float32)"


def test_a_parameter_outside_of_export_is_refused() -> None:
    with pytest.raises(Invalid) as caught:
        _ = Parameter(3).value
    assert caught.value.label == "layers.C1"
    linear = Linear(2, 2)
    export(linear, x=tensor(1, 2))
    with pytest.raises(Invalid):
        _ = linear.weight.value
