"""Inputs of tensor functions, and small ones of modules, by choices."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from assay.semantics.module import Module
from assay.semantics.scalar import evaluate_dim
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import TensorType, Type
from assay.verify.strategies.choosing import Pick
from assay.verify.strategies.values import Array, a_value, sizes_for


def inputs_of(pick: Pick, func: PrimFunc) -> list[Array]:
    """Inputs of a tensor function without parameters that are scalars, in order."""
    types = {b.name: TensorType(b.shape, b.dtype) for b in func.inputs}
    sizes = sizes_for(pick, types)
    return [a_value(pick, t, sizes) for t in types.values()]


def small_inputs(pick: Pick, module: Module) -> dict[str, Any]:
    """Inputs for `main` that are small numbers: sizes and indices made of them are right about as often as wrong."""
    types = {p.name: p.type for p in module.main.params}
    sizes = sizes_for(pick, types)

    def one(t: Type) -> Any:
        if not isinstance(t, TensorType):
            return a_value(pick, t, sizes)
        shape = tuple(evaluate_dim(d, sizes) for d in t.shape)
        numbers = [pick(2) if t.dtype.kind == "bool" else pick(9) - 3 for _ in range(min(prod(shape), 8))]
        return np.resize(np.array(numbers, dtype=np.int64), shape).astype(t.dtype.numpy)

    return {n: one(t) for n, t in types.items()}


def read_npz(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of a file, which is closed: an archive that is left to the garbage collector may warn in another
    test."""
    with np.load(path) as found:
        return dict(found)
