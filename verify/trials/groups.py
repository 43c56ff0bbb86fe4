"""Fused tensor functions beside the calls of their group, on special values, ties, extremes, and on all numbers of
small types, bit for bit (specs/verify.md, "Trials")."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.interp import vector
from assay.semantics.alias import bindings
from assay.semantics.errors import Invalid, Trap
from assay.semantics.graph import CallTIR, Function
from assay.semantics.module import Module
from assay.semantics.scalar import Var as Symbol, evaluate_dim
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import TensorType, flatten
from assay.verify.trials.batch import batched, through
from assay.verify.trials.data import KINDS, Kind, constants_of, draw
from assay.verify.trials.kernels import LARGE, SMALL, KernelTrials, different

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class GroupCall:
    """A call of a group at given sizes: its kernel, its operands by name, its scalars."""

    name: object
    kernel: PrimFunc
    args: Sequence[object]
    scalars: Sequence[int]


def calls_of(group: Function, module: Module, sizes: Mapping[Symbol, int]) -> Iterator[GroupCall]:
    """The calls of a group at given sizes, in order."""
    for var, value in bindings(group):
        if isinstance(value, CallTIR):
            scalars = [evaluate_dim(d, sizes) for d in value.scalars]
            yield GroupCall(var, module.kernel(value.func), value.args, scalars)


def try_group(
    kernel: PrimFunc,
    calls: Sequence[GroupCall],
    group: Function,
    sizes: Mapping[Symbol, int],
    seed: int,
    size: int,
    tried: KernelTrials,
) -> str | None:
    """Where a fused tensor function of `size` stores differs from the calls of its group, if it does."""
    if size > LARGE:
        tried.large.append(kernel.name)
        return None
    tried.functions += 1
    scalars = [sizes[s] for s in kernel.scalars]
    types = [t for p in group.params for t in flatten(p.type) if isinstance(t, TensorType)]
    shapes = [(tuple(evaluate_dim(d, sizes) for d in t.shape), t.dtype) for t in types]
    constants = [c for f in (kernel, *(c.kernel for c in calls)) for c in constants_of(f)][:32]
    rng = np.random.default_rng([seed, 11])
    kinds: Sequence[Kind] = KINDS if size <= SMALL else ("mixed",)
    for kind in kinds:
        operands = [draw(of, shape, rng, kind, constants) for shape, of in shapes]
        wrong = apart(kernel, scalars, calls, group, operands)
        if wrong:
            return f"on {kind}: {wrong}"
    if symbolic(kernel) or any(symbolic(c.kernel) for c in calls):
        return None
    ways = list(through(shapes, max(1, size)))
    complete = True
    for way in ways:
        wide, inner = batched(kernel, way.count), [batched(c.kernel, way.count) for c in calls]
        if wide is None or any(f is None for f in inner):
            complete = False
            continue
        complete &= way.all
        made = way.make(way.count, rng)
        operands = [
            made[i] if i in made else draw(of, (way.count, *shape), rng, "mixed", constants)
            for i, (shape, of) in enumerate(shapes)
        ]
        many = [GroupCall(c.name, f, c.args, c.scalars) for c, f in zip(calls, inner, strict=True) if f is not None]
        wrong = apart(wide, scalars, many, group, operands)
        if wrong:
            return (
                f"on all values of operand{'s' if len(way.places) > 1 else ''} {' and '.join(map(str, way.places))}:"
                f" {wrong}"
            )
    if ways and complete:
        tried.through += 1
    elif ways:
        tried.part.append(kernel.name)
    return None


def symbolic(kernel: PrimFunc) -> bool:
    """Whether a kernel has scalar parameters or symbolic sizes."""
    return bool(kernel.scalars) or not all(isinstance(d, int) for b in kernel.params for d in b.shape)


def apart(
    kernel: PrimFunc, scalars: Sequence[int], calls: Iterable[GroupCall], group: Function, operands: Sequence[Array]
) -> str | None:
    """Where a fused kernel differs from the calls of its group, one after another, on one set of operands; None if
    nowhere."""
    values: dict[object, Sequence[Array]] = {p: [x] for p, x in zip(group.params, operands, strict=True)}
    wanted: Sequence[Array] = []
    try:
        for call in calls:
            read = [x for a in call.args for x in values[a]]
            values[call.name] = wanted = vector.run(call.kernel, read, scalars=call.scalars)
    except (Trap, Invalid) as why:
        return f"its calls do not run: {why}"
    try:
        got = vector.run(kernel, operands, scalars=scalars)
    except (Trap, Invalid) as why:
        return f"it does not run: {why}"
    for i, (w, g) in enumerate(zip(wanted, got, strict=True)):
        wrong = different(w, g)
        if wrong:
            return f"result {i}: {wrong}"
    return None
