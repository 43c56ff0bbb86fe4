"""What a stage of TVM means here, and whether two outcomes are one (specs/verify.md, "Inside a backend").

Bit for bit where nothing was rounded otherwise, else inside the bounds of what is meant. Where no bounds are known
nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from assay.interp import graph, vector
from assay.interp.graph.kernel_calls import flat
from assay.interp.values import Shape
from assay.semantics.bounds import Bounded
from assay.semantics.errors import Invalid, Trap, Unsupported
from assay.semantics.graph import ExternFunc, Function
from assay.semantics.module import Module
from assay.semantics.scalar import const
from assay.semantics.tensor import Block, PrimFunc, Stmt
from assay.semantics.walk import post_order
from assay.verify.legalize import why_outside
from assay.verify.tvm.peer import Array

CLAIMS = ("tensor.T8", "tensor.T10")
"""Traps of ours on what compiled code does not look at: a block's iterator outside of its domain, a block that touches
what it does not declare."""


@dataclass(frozen=True, eq=False)
class KernelCall:
    """One call of a tensor function, by its name here, with copies of what it was given and gave."""

    name: str
    inputs: tuple[Array, ...]
    scalars: tuple[Any, ...]
    results: tuple[Array, ...]


@dataclass(frozen=True, eq=False)
class RunOutcome:
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

    def __call__(
        self, func: PrimFunc, inputs: Sequence[Any], *, scalars: Sequence[Any] = (), **more: Any
    ) -> Sequence[Any]:
        """Run a tensor function and keep the call."""
        self.begun[func.name] = None
        results = run_kernel(func, inputs, self.note, scalars=scalars, **more)
        self.calls.append(KernelCall(func.name, tuple(inputs), tuple(scalars), tuple(results)))
        return results

    def note(self, claim: Trap) -> None:
        """Keep the first claim that is not so."""
        self.claims = self.claims or str(claim)


def run_kernel(
    func: PrimFunc, inputs: Sequence[Any], note: Callable[[Trap], None] = lambda t: None, **more: Any
) -> Sequence[Array]:
    """The results of a tensor function. What its blocks claim of themselves and is not so is noted, and else passed
    over."""
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
            own = tuple(
                replace(i, start=i.value, extent=const(1)) if i.kind == "spatial" else i for i in made.iterators
            )
            made = replace(made, iterators=own, reads=None, writes=None)
        new[id(stmt)] = made
    return replace(func, body=new[id(func.body)])


def observed(module: Module, arguments: Sequence[Any]) -> RunOutcome:
    """What a module gives on those arguments. Unsupported where it calls what is outside; Invalid where they do not
    fit."""
    recorder = Recorder()
    try:
        values = run_main(module, arguments, recorder)
    except Trap as trap:
        return RunOutcome((), trap, tuple(recorder.calls), recorder.claims, tuple(recorder.begun))
    return RunOutcome(values, None, tuple(recorder.calls), recorder.claims, tuple(recorder.begun))


def run_main(
    module: Module, arguments: Sequence[Any], kernel: Any, bounds: bool = False, apply: Any = None
) -> tuple[Any, ...]:
    """Run `main`: its results, flat. Unsupported (`tvm.C19`) for extern functions, Invalid (`tvm.C22`) for a wrong
    count."""
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
    results = graph.run(module, inputs, kernel=kernel, bounds=bounds, apply=apply)
    return tuple(_array(v) for v in flat(tuple(results.values())))


def _array(value: Any) -> Any:
    if isinstance(value, Bounded):
        return value
    if not isinstance(value, (np.ndarray, np.generic, Shape)):
        raise Unsupported(f"a result that is no tensor: {type(value).__name__}", label="tvm.C21")
    return np.array(value.dims, np.int64) if isinstance(value, Shape) else np.asarray(value)


def beyond(allowed: Sequence[Any], got: Sequence[Array]) -> str | None:
    """Where results are outside of what is allowed (intervals, or arrays for what is exact), if anywhere: the worst
    element."""
    if len(got) != len(allowed):
        return f"{len(got)} results instead of {len(allowed)}"
    for k, (a, g) in enumerate(zip(allowed, got, strict=True)):
        if (wrong := why_outside(a, g)) is not None:
            return f"result {k}: {wrong}"
    return None


def mismatched(was: Sequence[Array], got: Sequence[Array]) -> str | None:
    """Which result is another kind of thing than before, if one is: that needs no bounds."""
    if len(got) != len(was):
        return f"{len(got)} results instead of {len(was)}"
    for k, (a, g) in enumerate(zip(was, got, strict=True)):
        if (a.shape, a.dtype) != (g.shape, g.dtype):
            return f"result {k} is Tensor({g.shape}, {g.dtype}), was Tensor({a.shape}, {a.dtype})"
    return None
