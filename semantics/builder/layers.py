"""Models as modules of layers, written as Python classes (row R31; specs/semantics.md, "Builder").

    class Head(Layer):
        def __init__(self) -> None:
            self.first, self.second = Linear(8, 16), Linear(16, 4)

        def forward(self, b: Builder, x: Expr) -> Expr:
            return self.second(b, b.nn.relu(self.first(b, x)))

    module = export(Head(), x=tensor("n", 8))      # main(x, first.weight, first.bias, second.weight, second.bias)

A layer is a description: its parameters become parameters of `main`, named by the attributes that lead to them. A
parameter that two layers share is one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from assay.semantics.builder import Builder
from assay.semantics.builder.scopes import Described, tensor
from assay.semantics.errors import Invalid
from assay.semantics.graph import Expr, Var
from assay.semantics.module import Module
from assay.semantics.scalar import Dim


class Parameter:
    """A tensor that a model is given beside its inputs; a variable while the model is exported."""

    def __init__(self, *dims: Dim | str, of: str = "float32") -> None:
        self.type = tensor(*dims, of=of)
        self.var: Var | None = None

    @property
    def value(self) -> Var:
        if self.var is None:
            raise Invalid("a parameter is used outside of export", label="layers.C1")
        return self.var


class Layer:
    """Base of layers: `forward` says what it does to its inputs."""

    def forward(self, b: Builder, *inputs: Any) -> Any:
        raise NotImplementedError

    def __call__(self, b: Builder, *inputs: Any) -> Any:
        return self.forward(b, *inputs)

    def parameters(self) -> Iterator[tuple[str, Parameter]]:
        """Every parameter below this layer, once, with the attributes that lead to it, in order."""
        seen: set[int] = set()
        work: list[tuple[str, Any]] = [("", self)]
        while work:
            name, item = work.pop()
            inside: list[tuple[str, Any]] = []
            match item:
                case Parameter() if id(item) not in seen:
                    seen.add(id(item))
                    yield name, item
                case Layer() if id(item) not in seen:
                    seen.add(id(item))
                    inside = list(vars(item).items())
                case list() | tuple():
                    inside = [(str(i), x) for i, x in enumerate(item)]
                case _:
                    pass
            work += [(f"{name}.{n}" if name else n, x) for n, x in reversed(inside)]


def export(layer: Layer, **inputs: Described) -> Module:
    """The module whose `main` takes the inputs and then the layer's parameters."""
    found = list(layer.parameters())
    b = Builder()
    types = {**inputs, **{name: p.type for name, p in found}}
    try:
        with b.function("main", params=types) as f:
            for name, p in found:
                p.var = f[name]
            result = layer(b, *(f[name] for name in inputs))
            b.result(result)
    finally:
        for _, p in found:
            p.var = None
    return b.module()


class Linear(Layer):
    """x @ weight + bias, over the last axis of x."""

    def __init__(self, inputs: int, outputs: int, bias: bool = True, of: str = "float32") -> None:
        self.weight = Parameter(inputs, outputs, of=of)
        self.bias = Parameter(outputs, of=of) if bias else None

    def forward(self, b: Builder, x: Expr) -> Expr:
        y = b.matmul(x, self.weight.value)
        return b.add(y, self.bias.value) if self.bias else y


class Conv2d(Layer):
    """A convolution over N, C, H, W, padded with zeros."""

    def __init__(
        self, inputs: int, outputs: int, size: int, strides: int = 1, padding: int = 0, of: str = "float32"
    ) -> None:
        self.strides, self.padding = (strides,) * 2, (padding,) * 4
        self.weight = Parameter(outputs, inputs, size, size, of=of)
        self.bias = Parameter(outputs, of=of)

    def forward(self, b: Builder, x: Expr) -> Expr:
        return b.nn.conv2d(x, self.weight.value, self.bias.value, strides=self.strides, padding=self.padding)


class LayerNorm(Layer):
    """Normalised over the last axis, scaled and shifted."""

    def __init__(self, size: int, of: str = "float32") -> None:
        self.weight, self.bias = Parameter(size, of=of), Parameter(size, of=of)

    def forward(self, b: Builder, x: Expr) -> Expr:
        return b.nn.layer_norm(x, self.weight.value, self.bias.value, axes=(-1,))


class Sequential(Layer):
    """One layer after another."""

    def __init__(self, *layers: Layer) -> None:
        self.layers = layers

    def forward(self, b: Builder, x: Any) -> Any:
        for layer in self.layers:
            x = layer(b, x)
        return x
