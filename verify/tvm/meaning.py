"""What a stage of TVM means here, and whether two outcomes are one (specs/verify.md, "Inside a backend").

Bit for bit where nothing was rounded otherwise; else inside the bounds of the module that is meant, where there are any;
else inside the spread that the stage before shows when each of its tensor functions errs by a few units in the last place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from assay.interp import graph, vector
from assay.interp.graph.filling import flat
from assay.interp.values import Shape
from assay.semantics.bounds import Bounded
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Invalid, Trap, Unpredictable, Unsupported
from assay.semantics.graph import Expr, ExternFunc, Function
from assay.semantics.module import Module
from assay.semantics.scalar import const
from assay.semantics.tensor import Block, PrimFunc, Stmt
from assay.semantics.walk import post_order
from assay.verify.legalize_check import outside
from assay.verify.tvm.peer import Array

CLAIMS = ("tensor.T8", "tensor.T10")
"""Traps of ours on what compiled code does not look at: a block's iterator outside of its domain, a block that touches what
it does not declare."""

NOISE = 4
"""By how many units in the last place a tensor function may err in the runs that show the spread."""
ROUND = 16
"""By how many, of the largest number of a result, any result may be off where nothing better is known."""
SEEDS = (1, 2, 3)
SLACK = 8
"""How many times the spread that these few runs show is allowed."""


@dataclass(frozen=True, eq=False)
class KernelCall:
    """One call of a tensor function, by its name here, with copies of what it was given and gave."""

    name: str
    inputs: tuple[Array, ...]
    scalars: tuple[Any, ...]
    results: tuple[Array, ...]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run showed: the tensors of its result, left to right, or the trap that ended it."""

    values: tuple[Array, ...] = ()
    trap: Trap | None = None
    calls: tuple[KernelCall, ...] = ()
    claims: str = ""
    """The first claim of a block that is not so, if there is one."""
    begun: tuple[str, ...] = ()
    """The tensor functions that were called, by their names here; the last of them may have trapped."""

    def __str__(self) -> str:
        return str(self.trap) if self.trap else f"{len(self.values)} results"


@dataclass
class Recorder:
    """Runs tensor functions and keeps each call, and the first claim of a block that is not so."""

    calls: list[KernelCall] = field(default_factory=list)
    claims: str = ""
    begun: dict[str, None] = field(default_factory=dict)

    def __call__(self, func: PrimFunc, inputs: Sequence[Any], *, scalars: Sequence[Any] = (), **more: Any) -> Sequence[Any]:
        self.begun[func.name] = None
        results = run_kernel(func, inputs, self.note, scalars=scalars, **more)
        self.calls.append(KernelCall(func.name, tuple(inputs), tuple(scalars), tuple(results)))
        return results

    def note(self, claim: Trap) -> None:
        self.claims = self.claims or str(claim)


def run_kernel(func: PrimFunc, inputs: Sequence[Any], note: Callable[[Trap], None] = lambda t: None, **more: Any) -> Sequence[Array]:
    """The results of a tensor function. What its blocks claim of themselves and is not so is noted, and else passed over."""
    try:
        return vector.run(func, inputs, **more)
    except Trap as trap:
        if trap.label not in CLAIMS:
            raise
        note(trap)
        return vector.run(unclaimed(func), inputs, **more)


def unclaimed(func: PrimFunc) -> PrimFunc:
    """`func` without what its blocks say of themselves: they touch what they touch, and a spatial iterator is in its
    domain."""
    new: dict[int, Stmt] = {}
    for stmt in post_order(func.body):
        made = stmt.with_children([new[id(c)] for c in stmt.children])
        if isinstance(made, Block):
            own = tuple(replace(i, start=i.value, extent=const(1)) if i.kind == "spatial" else i for i in made.iterators)
            made = replace(made, iterators=own, reads=None, writes=None)
        new[id(stmt)] = made
    return replace(func, body=new[id(func.body)])


def erring(seed: int) -> Callable[[Expr, Any], Any]:
    """An observer that moves each float which an operator or a tensor function gives, as `graph.run` takes one."""
    noise = np.random.default_rng(seed)

    def err(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(err, value))
        return _perturbed(value, noise) if isinstance(value, (np.ndarray, np.generic)) else value

    return lambda _, value: err(value)


def _perturbed(x: Any, noise: np.random.Generator) -> Any:
    if not dtype(x.dtype).is_float or x.size == 0:
        return x
    wide = x.astype(np.float64)
    unit = dtype(x.dtype).unit_roundoff
    with np.errstate(all="ignore"):
        moved = wide * (1 + 2 * unit * NOISE * noise.uniform(-1, 1, x.shape))
        return np.asarray(np.where(np.isfinite(wide), moved, wide)).astype(x.dtype)


def observed(module: Module, arguments: Sequence[Any]) -> Outcome:
    """What a module gives on those arguments. Unsupported where it calls what is outside; Invalid where they do not fit."""
    recorder = Recorder()
    try:
        values = _run(module, arguments, recorder)
    except Trap as trap:
        return Outcome((), trap, tuple(recorder.calls), recorder.claims, tuple(recorder.begun))
    return Outcome(values, None, tuple(recorder.calls), recorder.claims, tuple(recorder.begun))


def _run(module: Module, arguments: Sequence[Any], kernel: Any, bounds: bool = False, observe: Any = None) -> tuple[Any, ...]:
    main = module.main
    for f in module.definitions.values():
        if not isinstance(f, Function):
            continue
        found = next((e for e in post_order(f) if isinstance(e, ExternFunc)), None)
        if found is not None:
            raise Unsupported(f"{found.name} is outside of the module, and is not run here", label="tvm.C19")
    if len(main.params) != len(arguments):
        raise Invalid(f"main takes {len(main.params)} arguments, {len(arguments)} are given", label="tvm.C22")
    inputs = dict(zip((p.name for p in main.params), arguments, strict=True))
    results = graph.run(module, inputs, kernel=kernel, bounds=bounds, observe=observe)
    return tuple(_array(v) for v in flat(tuple(results.values())))


def _array(value: Any) -> Any:
    if isinstance(value, Bounded):
        return value
    if not isinstance(value, (np.ndarray, np.generic, Shape)):
        raise Unsupported(f"a result that is no tensor: {type(value).__name__}", label="tvm.C21")
    return np.array(value.dims, np.int64) if isinstance(value, Shape) else np.asarray(value)


def bounds_of(module: Module, arguments: Sequence[Any]) -> tuple[Any, ...] | None:
    """What every correct implementation of a module gives, as intervals; None where none are known."""
    try:
        return _run(module, arguments, run_kernel, bounds=True)
    except (Unpredictable, Unsupported, Trap):
        return None


def spread(values: Sequence[Array], runs: Iterable[Callable[[], Sequence[Array]]]) -> list[Any]:
    """How far each result may be off: what runs that err a little show, and `ROUND` units in the last place of its largest
    number; None for what is not rounded."""
    found: list[Any] = []
    for v in values:
        radius = None
        if dtype(v.dtype).is_float:
            wide = np.abs(v.astype(np.float64))
            radius = 2 * dtype(v.dtype).unit_roundoff * ROUND * float(np.max(wide, initial=0.0, where=np.isfinite(wide)))
        found.append(radius)
    for run in runs:
        try:
            moved = run()
        except Trap:
            continue  # it errs past a trap: another run shows the spread
        for i, (v, m) in enumerate(zip(values, moved, strict=True)):
            if found[i] is not None and m.shape == v.shape:
                with np.errstate(all="ignore"):
                    shift = np.abs(m.astype(np.float64) - v.astype(np.float64))
                found[i] = max(found[i], SLACK * float(np.max(shift, initial=0.0, where=np.isfinite(shift))))
    return found


def spread_of(module: Module, values: Sequence[Array], arguments: Sequence[Any]) -> list[Any]:
    """The spread of a module's results, when each operator and tensor function errs."""
    return spread(values, (partial(_run, module, arguments, run_kernel, observe=erring(s)) for s in SEEDS))


def spread_of_kernel(func: PrimFunc, module: Module, call: KernelCall) -> list[Any]:
    """The spread of a tensor function's results, when what it is given is off."""

    def run(seed: int) -> Sequence[Array]:
        noise = np.random.default_rng(seed)
        inputs = [_perturbed(x, noise) for x in call.inputs]
        return run_kernel(func, inputs, scalars=call.scalars, functions=module.kernels)

    return spread(call.results, (partial(run, s) for s in SEEDS))


def same_bits(a: Array, b: Array) -> bool:
    """The same type and the same bits, every NaN as one."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.tobytes() == b.tobytes() or not dtype(a.dtype).is_float:
        return a.tobytes() == b.tobytes()
    bits = np.dtype(f"u{a.dtype.itemsize}")
    one, other = np.ascontiguousarray(a).view(bits), np.ascontiguousarray(b).view(bits)
    return bool(np.all((one == other) | (np.isnan(a) & np.isnan(b))))


def off(values: Sequence[Array], got: Sequence[Array], radius: Sequence[Any]) -> str | None:
    """Where `got` is further from `values` than the radius of each result, if anywhere: the worst element."""
    if len(values) != len(got):
        return f"{len(got)} results instead of {len(values)}"
    for k, (v, g, r) in enumerate(zip(values, got, radius, strict=True)):
        if v.shape != g.shape or v.dtype != g.dtype or r is None:
            if (wrong := outside(v, g)) is not None:
                return f"result {k}: {wrong}"
            continue
        with np.errstate(all="ignore"):
            a, b = v.astype(np.float64), g.astype(np.float64)
            distance = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
        distance = np.where(np.isnan(distance), np.inf, distance)
        if bool(np.any(distance > r)):
            at = tuple(int(i) for i in np.unravel_index(int(np.argmax(distance)), g.shape))
            count = int(np.count_nonzero(distance > r))
            return f"result {k}: element {at} is {float(b[at])!r}, was {float(a[at])!r} ({count} of {g.size} differ)"
    return None
