"""Contents of tensors, and inputs for modules, with the numbers that are most often wrong (specs/verify.md,
"Programs")."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from assay.semantics.dtypes import DType
from assay.semantics.errors import Invalid
from assay.semantics.module import Module
from assay.semantics.scalar import Var as Symbol, evaluate_dim
from assay.semantics.types import ShapeType, TensorType, TupleType, Type, symbols
from assay.semantics.walk import post_order
from assay.verify.strategies.choosing import Pick, one_of
from assay.verify.strategies.kinds import special

Array = np.ndarray[Any, Any]
SMALL, SAME, REAL, SPECIAL, LARGE, CANCELLING = range(6)
"""Kinds of contents: small whole numbers; one round number everywhere; random ones; random ones with special values
among them; extremes; large ones that cancel."""
FRACTIONS = (1.0, 0.5, 0.125, 2.0**-10)
"""What the round number is in units of."""


def an_array(pick: Pick, shape: tuple[int, ...], of: DType, kinds: int = 3) -> Array:
    """Contents of a tensor: the simplest are small whole numbers in order. `kinds` says how many kinds there are, the
    same number everywhere not counted: that is what random numbers shrink to."""
    usual = (SMALL, REAL, SPECIAL, LARGE, CANCELLING)[:kinds]
    kind = one_of(pick, (SMALL, SAME, *usual[1:], *usual))
    if kind == SMALL:
        return small(shape, of, pick(4))
    number = pick(1 << 16)
    if kind == SAME:
        return np.full(shape, round_number(number, pick, of), of.numpy)
    return random_contents(np.random.default_rng(number), shape, of, kind)


def small(shape: tuple[int, ...], of: DType, start: int = 0) -> Array:
    """Whole numbers from -3 to 5, or from 0 to 5, in order; 1 is the first, and behind 5 comes the least."""
    numbers = (np.arange(prod(shape)) + start + 1).reshape(shape)
    if of.kind == "bool":
        return (numbers % 2).astype(of.numpy)
    low = int(max(-3, float(of.min))) if of.bits >= 8 else 0
    return np.asarray((numbers - low) % (6 - low) + low).astype(of.numpy)


def round_number(number: int, pick: Pick, of: DType) -> Any:
    """A number that is easy to read: a whole number, or that many halves, eighths or 1024ths, of either sign."""
    if of.kind == "bool":
        return of.numpy.type(number % 2)
    value = number * (one_of(pick, FRACTIONS) if of.is_float else 1)
    value = max(float(of.min), min(float(of.max), -value if pick(2) else value))
    return of.numpy.type(value if of.is_float else int(value))


def random_contents(rng: np.random.Generator, shape: tuple[int, ...], of: DType, kind: int = SPECIAL) -> Array:
    """Random contents of a kind. Floats are exact in their type."""
    if of.kind == "bool":
        return rng.integers(0, 2, shape).astype(of.numpy)
    if of.is_integer:
        low, high = (-9, 10) if kind == REAL else (int(of.min), int(of.max))
        drawn = rng.integers(max(low, int(of.min)), min(high, int(of.max)), shape, dtype=_wide(of), endpoint=True)
        if kind == REAL:
            return drawn.astype(of.numpy)
        extreme = rng.choice(np.array(special(of), dtype=_wide(of)), shape)
        return np.where(rng.random(shape) < 0.5, extreme, drawn).astype(of.numpy)
    with np.errstate(all="ignore"):
        match kind:
            case 2:  # REAL
                return np.asarray(rng.standard_normal(shape)).astype(of.numpy)
            case 3:  # SPECIAL
                data = rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, shape)
                return np.where(rng.random(shape) < 0.3, rng.choice(np.array(special(of)), shape), data).astype(
                    of.numpy
                )
            case 4:  # LARGE
                data = rng.standard_normal(shape) * float(of.max) ** rng.uniform(0.3, 0.9, shape)
                return np.asarray(data).astype(of.numpy)
            case _:
                count = prod(shape)
                base = rng.standard_normal(count) * min(1e4, float(of.max) ** 0.5)
                base[1::2] = -base[: count // 2 * 2 : 2] * (1 + 8 * of.unit_roundoff)
                return np.asarray(base.reshape(shape)).astype(of.numpy)


def _wide(of: DType) -> Any:
    return of.numpy if of.numpy.isbuiltin == 1 else np.int64


# --- inputs ----------------------------------------------------------------------------------------------------------


def sizes_for(pick: Pick, types: Mapping[str, Type], least: int = 1) -> dict[Symbol, int]:
    """Sizes of all symbols of some types: 3, and others that differ."""
    found: dict[Symbol, int] = {}
    for t in types.values():
        for s in symbols(t):
            if s not in found:
                found[s] = max(least, one_of(pick, (3, 2, 4, 1, 5)))
    return found


def a_value(pick: Pick, of: Type, sizes: Mapping[Symbol, int]) -> Any:
    """A value of a type of inputs: a tensor, a shape, or a tuple of such."""
    done: dict[int, Any] = {}
    for t in post_order(of):
        match t:
            case TensorType():
                shape = tuple(evaluate_dim(d, sizes) for d in t.shape)
                done[id(t)] = an_array(pick, shape, t.dtype)
            case ShapeType():
                done[id(t)] = tuple(evaluate_dim(d, sizes) for d in t.dims)
            case TupleType():
                done[id(t)] = tuple(done[id(f)] for f in t.fields)
            case _:
                raise Invalid(f"no values are made of {t}; tensors, shapes and tuples of them are", label="input.C6")
    return done[id(of)]


def picked_inputs(pick: Pick, module: Module) -> dict[str, Any]:
    """Inputs for `main`, by name."""
    types = {p.name: p.type for p in module.main.params}
    sizes = sizes_for(pick, types)
    return {n: a_value(pick, t, sizes) for n, t in types.items()}
