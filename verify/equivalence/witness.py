"""An input on which two tensor functions give different bits, found by trying (specs/verify.md, "equivalence")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np

from assay.interp import tensor, vector
from assay.semantics.dtypes import DType
from assay.semantics.errors import Trap
from assay.semantics.scalar import evaluate_dim, variables
from assay.semantics.tensor import Call, PrimFunc, While, program_order

Array: TypeAlias = np.ndarray[Any, Any]
FEW, MANY, LITTLE = 8, 60, 4096
"""How many inputs are tried; more of them where there are few elements."""
SMALL = 20_000
"""Statements up to which a run is repeated by the definition."""
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, np.nan, np.inf, -np.inf, 1e-40, 3e38]


@dataclass(frozen=True, eq=False)
class Witness:
    """Inputs and scalars, and what came out where the results differ. `replayed`: the definition itself says so."""

    inputs: tuple[Array, ...]
    scalars: tuple[Any, ...]
    what: str
    replayed: bool

    def __str__(self) -> str:
        return f"on an input that was found {self.what}"


def find_witness(source: PrimFunc, target: PrimFunc, sizes: Mapping[str, Any], seed: int) -> Witness | None:
    """An input on which `source` gives a value and `target` another one, or a trap; None where none was found."""
    dims = {v: int(sizes[v.name]) for b in source.params for d in b.shape for v in variables(d)}
    statements = [s for f in (source, target) for s in program_order(f.body)]
    if any(isinstance(s, Call) for s in statements):  # what they call is not here
        return None
    endless = any(isinstance(s, While) for s in statements)
    limit = SMALL // 10 if endless else None
    shapes = [tuple(evaluate_dim(d, dims) for d in b.shape) for b in source.inputs]
    for k in range(MANY if sum(map(prod, shapes)) <= LITTLE and not endless else FEW):
        rng = np.random.default_rng([seed, k])
        inputs = tuple(_random(s, b.dtype, rng, k) for s, b in zip(shapes, source.inputs, strict=True))
        scalars = tuple(sizes.get(v.name, _random((), v.dtype, rng, k)[()]) for v in source.scalars)
        was, now = (_run(f, inputs, scalars, limit) for f in (source, target))
        what = _differ(was, now, source)
        if what:
            was, now = (_run(f, inputs, scalars, SMALL) for f in (source, target))
            return Witness(inputs, scalars, what, bool(_differ(was, now, source)))
    return None


def _run(func: PrimFunc, inputs: tuple[Array, ...], scalars: tuple[Any, ...], limit: int | None) -> Any:
    """The outputs, or a trap; None where a run by the definition takes more than `limit` statements."""
    try:
        if limit is None:
            return vector.run(func, inputs, scalars=scalars)
        return tensor.run(func, inputs, scalars=scalars, limit=limit)
    except Trap as trap:
        return trap
    except tensor.Unfinished:
        return None


def _differ(was: Any, now: Any, func: PrimFunc) -> str:
    if was is None or now is None or isinstance(was, Trap):
        return ""
    if isinstance(now, Trap):
        return f"the target traps: {now}"
    for b, x, y in zip(func.outputs, was, now, strict=True):
        same = (x == y) & (np.signbit(x) == np.signbit(y)) if b.dtype.is_float else x == y
        if b.dtype.is_float:
            same |= np.isnan(x) & np.isnan(y)
        if not same.all():
            at = tuple(int(i) for i in np.unravel_index(int(np.argmin(same)), x.shape))
            return f"{b.name}[{', '.join(map(str, at))}] is {y[at]}, was {x[at]}"
    return ""


def _random(shape: tuple[int, ...], of: DType, rng: np.random.Generator, k: int) -> Array:
    """Reals of both signs, whole numbers, or special ones; small whole numbers where the dtype has no others."""
    if of.kind == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if of.is_integer:
        if k % 4 == 3:
            return rng.integers(
                int(of.min), int(of.max), shape, np.int64 if of.kind == "int" else np.uint64, endpoint=True
            ).astype(of.numpy)
        low = 0 if of.kind == "uint" or k % 2 else -4
        return rng.integers(low, 5, shape).astype(of.numpy)
    if k % 4 == 1:
        return rng.integers(-4, 5, shape).astype(of.numpy)
    data = rng.standard_normal(shape)
    if k % 4 == 2:
        data = np.where(rng.random(shape) < 0.2, rng.choice(SPECIAL, shape), data)
    elif k % 4 == 3:
        data = rng.choice(SPECIAL[: 2 + k % 9], shape)
    with np.errstate(all="ignore"):
        return np.asarray(data).astype(of.numpy)
