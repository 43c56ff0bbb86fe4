"""Models as modules of layers, written as Python classes (row R31; specs/semantics.md, "Builder").

    class Head(Layer):
        def __init__(self) -> None:
            self.first, self.second = Linear(8, 16), Linear(16, 4)

        def forward(self, b: Builder, x: Expr) -> Expr:
            return self.second(b, b.nn.relu(self.first(b, x)))

    module = export(Head(), x=tensor("n", 8))      # main(x, first.weight, first.bias, second.weight, second.bias)

A layer is a description: its parameters become parameters of `main`, named by the attributes that lead to them. A
parameter that two layers share is one. Ready-made layers are in `assay.semantics.builder.nn`. A parameter may have its
numbers (`load_state`), and is a constant of the module then, if `export` is told so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from assay.semantics.builder import Builder
from assay.semantics.builder.scopes import Described, tensor
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Invalid
from assay.semantics.graph import Expr, Var
from assay.semantics.module import Module
from assay.semantics.scalar import Dim
from assay.semantics.types import TensorType
from assay.semantics.walk import Worklist

Array = np.ndarray[Any, Any]


class Parameter:
    """A tensor that a model is given beside its inputs; a variable while the model is exported."""

    def __init__(self, *dims: Dim | str, of: str = "float32") -> None:
        self.dims = dims
        self.type = tensor(*dims, of=of)
        self.data: Array | None = None
        self.var: Var | None = None

    def to(self, of: str) -> None:
        """Another dtype; numbers that it has are rounded to it."""
        self.type = tensor(*self.dims, of=of)
        self.data = None if self.data is None else self.data.astype(dtype(of).numpy)

    def load(self, name: str, data: Array) -> None:
        """Its numbers. Invalid (layers.C3): of another type."""
        got = TensorType(data.shape, dtype(data.dtype))
        fits = isinstance(self.type, TensorType) and (got.shape, got.dtype) == (self.type.shape, self.type.dtype)
        if not fits:
            wanted = self.type if isinstance(self.type, TensorType) else "a tensor of sizes that have names"
            raise Invalid(f"the parameter {name} is {wanted}, and {got} is given", label="layers.C3")
        self.data = data

    @property
    def value(self) -> Var:
        """Its variable; Invalid (layers.C1) unless the model is being exported."""
        if self.var is None:
            raise Invalid("a parameter is used outside of export", label="layers.C1")
        return self.var


class Layer:
    """Base of layers: `forward` says what it does to its inputs."""

    def forward(self, b: Builder, *inputs: Any) -> Any:
        """Emits the layer's computation with `b`, and returns its result."""
        raise NotImplementedError

    def __call__(self, b: Builder, *inputs: Any) -> Any:
        """The same as `forward`."""
        return self.forward(b, *inputs)

    def parameters(self) -> Iterator[tuple[str, Parameter]]:
        """Every parameter below this layer, once, with the attributes that lead to it, in order."""
        seen: set[int] = set()
        work = Worklist[tuple[str, Any]]([("", self)])
        for name, item in work:
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
            work.add((f"{name}.{n}" if name else n, x) for n, x in inside)

    def state(self) -> dict[str, Array]:
        """The numbers of the parameters that have some, by name."""
        return {name: p.data for name, p in self.parameters() if p.data is not None}

    def load_state(self, given: Mapping[str, Array], strict: bool = True) -> None:
        """Numbers for parameters, by name. Invalid (layers.C2): `strict`, and names are missing or unknown."""
        known = dict(self.parameters())
        lost, more = sorted(known.keys() - given.keys()), sorted(given.keys() - known.keys())
        if strict and (lost or more):
            words = [f"{what} {', '.join(names)}" for what, names in (("missing:", lost), ("unknown:", more)) if names]
            raise Invalid(f"these are not the parameters: {'; '.join(words)}", label="layers.C2")
        for name in given.keys() & known.keys():
            known[name].load(name, given[name])

    def to(self, of: str) -> None:
        """All parameters in another dtype."""
        for _, p in self.parameters():
            p.to(of)


def export(layer: Layer, *, bound: bool = False, **inputs: Described) -> Module:
    """The module whose `main` takes the inputs and then the layer's parameters; with `bound`, only those without
    numbers."""
    return export_methods(layer, {"forward": inputs}, bound=bound)


def export_methods(layer: Layer, methods: Mapping[str, Mapping[str, Described]], *, bound: bool = False) -> Module:
    """The module with a function for each method, which takes its inputs and then the layer's parameters; `forward` is
    called main. Each parameter is a parameter of every function, whether the method reads it or not."""
    found = list(layer.parameters())
    b = Builder()
    try:
        for method, inputs in methods.items():
            free = {name: p.type for name, p in found if not (bound and p.data is not None)}
            clash = sorted(free.keys() & inputs.keys())
            if clash:
                raise Invalid(
                    f"{', '.join(clash)} of {method} is called as a parameter is: rename the input", label="layers.C5"
                )
            with b.function("main" if method == "forward" else method, params={**inputs, **free}) as f:
                for name, p in found:
                    p.var = f[name] if name in free else b.constant(p.data, name=name.replace(".", "_"))
                b.result(getattr(layer, method)(b, *(f[name] for name in inputs)))
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
        """Emits x @ weight, plus the bias if there is one."""
        y = b.matmul(x, self.weight.value)
        return b.add(y, self.bias.value) if self.bias else y


class LayerNorm(Layer):
    """Normalised over the last axis, scaled and shifted."""

    def __init__(self, size: int, of: str = "float32") -> None:
        self.weight, self.bias = Parameter(size, of=of), Parameter(size, of=of)

    def forward(self, b: Builder, x: Expr) -> Expr:
        """Emits the normalisation of `x`, in its own shape."""
        return b.nn.layer_norm(x, self.weight.value, self.bias.value, axes=(-1,))
