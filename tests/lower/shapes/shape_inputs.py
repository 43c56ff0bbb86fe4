"""Inputs of a function with symbolic sizes: of sizes that agree, and of sizes that do not in some place."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np

from assay.semantics.errors import Trap
from assay.semantics.graph import Function
from assay.semantics.scalar import Dim, Var as Symbol, evaluate_dim
from assay.semantics.types import ShapeType, TensorType, TupleType, Type, symbols


def inputs(main: Function, rng: random.Random, most: int = 6) -> dict[str, Any]:
    """Random inputs: symbols get sizes up to `most`; in half of the cases a dim or two are another size instead."""
    env: dict[Symbol, int] = {}
    for p in main.params:
        env.update((s, rng.randint(0, most)) for s in symbols(p.type) if s not in env)
    wrong = rng.choice([0.0, 0.0, 0.15])
    return {p.name: _value(p.type, env, rng, wrong) for p in main.params}


def _size(d: Dim, env: Mapping[Symbol, int], rng: random.Random, wrong: float) -> int:
    try:
        size = evaluate_dim(d, env)
    except Trap:  # a division by a size that is 0
        size = 1
    return max(0, size + rng.choice([-1, 1, 2]) if rng.random() < wrong else size) % 300


def _value(of: Type, env: Mapping[Symbol, int], rng: random.Random, wrong: float) -> Any:
    match of:
        case TensorType():
            shape = tuple(_size(d, env, rng, wrong) for d in of.shape)
            return (
                np.array([rng.randint(0, 1) for _ in range(int(np.prod(shape)))]).reshape(shape).astype(of.dtype.numpy)
            )
        case ShapeType():
            return tuple(_size(d, env, rng, wrong) for d in of.dims)
        case TupleType():
            return tuple(_value(t, env, rng, wrong) for t in of.fields)
        case _:
            raise TypeError(f"no inputs of type {of}")
