"""What the tests of the graph evaluator share: small types, constants and runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from assay.interp import graph as interp
from assay.interp.values import Event
from assay.semantics.dtypes import dtype
from assay.semantics.graph import Expr, Function, constant, let, var
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.scalar import Dim, Var as Symbol
from assay.semantics.types import TensorType

n, m = Symbol("n"), Symbol("m")


def tensor(*shape: Dim, of: str = "float32") -> TensorType:
    return TensorType(shape, dtype(of))


SCALAR = tensor()
BOOL = tensor(of="bool")


def run(
    main: Function, *, externs: Mapping[str, Any] | None = None, trace: list[Event] | None = None, **inputs: Any
) -> Any:
    return run_module(Module({"main": main}), externs=externs, trace=trace, **inputs)


def run_module(module: Module, *, externs: Any = None, trace: list[Event] | None = None, **inputs: Any) -> Any:
    check(module)
    found = interp.run(module, inputs, externs=externs, trace=trace)
    values = tuple(found.values())
    return values[0] if len(values) == 1 else values


def f32(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


def number(value: float) -> Expr:
    return constant(np.float32(value))


def sequence(*steps: Expr) -> Expr:
    """Steps in order by lets; the last is the value."""
    *first, last = steps
    for i, step in reversed(list(enumerate(first))):
        last = let(var(f"_{i}", step.type), step, last)
    return last
