"""A graph as a module of PyTorch, whose forward calls a function for each operator (specs/verify.md, "Backends")."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from assay.lower.simplify.bind_params import numbers
from assay.semantics.dtypes import dtype
from assay.semantics.graph import (
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    Let,
    MatchCast,
    OnDevice,
    Tuple,
    TupleGetItem,
    Var,
    let_chain,
    show_head,
)
from assay.semantics.graph.matching import Bound, instantiate, instantiate_dim
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.scalar import Var as Symbol, show
from assay.semantics.types import ShapeType, dims
from assay.semantics.walk import post_order
from assay.verify.backends.protocol import Array

KNOWN = (Var, Constant, GlobalVar, Let, MatchCast, OnDevice, Tuple, TupleGetItem)


def to_torch(torch: Any, array: Array) -> Any:
    """A tensor with the same bits. NotImplementedError: PyTorch has no such element type."""
    of = dtype(array.dtype)
    if of.numpy.isbuiltin == 1:
        return torch.from_numpy(np.array(array))
    bits = np.array(array).view(np.int16 if of.bits == 16 else np.uint8)
    if not hasattr(torch, of.name):
        raise NotImplementedError(f"no element type {of.name}")
    return torch.from_numpy(bits).view(getattr(torch, of.name))


def torch_module(torch: Any, table: Mapping[str, Callable[..., Any]], of: Module) -> Any:
    """A module of PyTorch whose forward does what main does. Results are copies: none is an input. Sizes that main
    learns from elements are read from them in each run, and stand in `sizes` after it."""
    main: Function = of.main

    class Main(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.sizes: Bound = {}
            for i, c in enumerate(constants):
                self.register_buffer(f"c{i}", to_torch(torch, c))

        def forward(self, *args: Any) -> Any:
            self.sizes.clear()
            values: dict[Var, Any] = dict(zip(main.params, args, strict=True))
            lets, body = let_chain(main.body)
            for let in lets:
                values[let.var] = value(self, let.value, values)
            result = value(self, body, values)
            results = result if isinstance(result, tuple) else (result,)
            return tuple(r.clone() for r in results)

    constants: list[Array] = []
    places: dict[int, int] = {}
    for node in post_order(main.body):
        if isinstance(node, Constant) or isinstance(node, GlobalVar):
            places[id(node)] = len(constants)
            constants.append(node.data if isinstance(node, Constant) else of.constants[node.name])

    def value(self: Any, node: Expr, values: Mapping[Var, Any]) -> Any:
        match node:
            case Var():
                return values[node]
            case Constant() | GlobalVar():
                return getattr(self, f"c{places[id(node)]}")
            case Tuple(fields=fields):
                return tuple(value(self, f, values) for f in fields)
            case TupleGetItem(value=whole, index=index):
                return value(self, whole, values)[index]
            case MatchCast(value=inner):
                found = value(self, inner, values)
                if _named(node):
                    _learn(node, found, self.sizes)
                return found
            case OnDevice(value=inner):
                return value(self, inner, values)
            case Call(op=Operator() as op):
                args = [value(self, a, values) for a in node.args]
                attrs = {k: numbers(v, self.sizes) for k, v in op.check_attrs(node.attrs).items()}
                return table[op.name](attrs, instantiate(node.type, self.sizes), *args)
            case _:
                raise NotImplementedError(show_head(node))

    return Main()


def learns_sizes(function: Function) -> bool:
    """Whether a function has sizes that only a run tells, beside those of its inputs."""
    return any(_named(node) for node in post_order(function.body) if isinstance(node, MatchCast))


def _named(node: MatchCast) -> bool:
    return any(isinstance(d, Symbol) for d in dims(node.type))


def _learn(node: MatchCast, found: Any, sizes: Bound) -> None:
    """The sizes that a match-cast gives names to: the elements of a vector of sizes, or those of a tensor."""
    read = [int(n) for n in found] if isinstance(node.type, ShapeType) else list(found.shape)
    for d, n in zip(dims(node.type), read, strict=True):
        if isinstance(d, Symbol):
            sizes.setdefault(d, n)
        known = instantiate_dim(d, sizes)
        if isinstance(known, int) and known != n or n < 0:
            raise ValueError(f"a size is {n}, and {show(d)} is {known}")
