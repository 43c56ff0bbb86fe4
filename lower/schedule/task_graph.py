"""The calls of `main` as a graph of work over bytes (specs/lower.md, "schedule").

The bytes are those of chapters liveness and pool: a tensor that a call makes is live from that call until after the
last call that reads it under any alias; what a tensor function allocates inside is live during the call, of which the
phases are not looked at. Inputs, constants and results are not in the workspace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from assay.lower.memory.symbolic import nominal
from assay.semantics.alias import Origin, bindings, origins, result
from assay.semantics.graph import CallTIR, Expr, Function, Var
from assay.semantics.graph.effects import can_fail, kernel_can_trap
from assay.semantics.graph.limits import declared_limits
from assay.semantics.instance import sizes_of_call
from assay.semantics.module import Module
from assay.semantics.scalar import Var as Symbol, evaluate_dim
from assay.semantics.tensor import Buffer
from assay.semantics.types import TensorType, symbols


@dataclass(frozen=True)
class TaskGraph:
    """Calls and the tensors of the workspace, both by number; calls in the given order."""

    vars: list[Var]
    need: list[int]
    """For each call the bytes that it adds while it runs: what it makes, and what it allocates inside."""
    makes: list[list[int]]
    """For each call the tensors that it makes and some call reads."""
    reads: list[list[int]]
    """For each call the tensors that it reads, each once."""
    size: list[int]
    readers: list[list[int]]
    before: list[list[int]]
    """For each call those that must run before it: who makes what it reads, and where it may trap the last one before
    it that may (M3). Something else that may fail, as a view of computed sizes, has its place among these, so what
    reads it waits for them too."""


def nominal_sizes(main: Function) -> dict[Symbol, int]:
    """A number for each symbol in the types of `main`: the greatest that is declared, else some number; one number for
    symbols of one name."""
    found = [*(p.type for p in main.params), *(v.type for v, _ in bindings(main))]
    bounds = {s: (low, high) for s, low, high in declared_limits(main)}
    at = nominal((s for t in found for s in symbols(t)), bounds)
    return {s: max(n for other, n in at.items() if other.name == s.name) for s in at}


def task_graph_of(module: Module) -> TaskGraph:
    """The work of `main`, at its nominal sizes where it has symbols; Invalid where liveness would refuse it."""
    main = module.main
    at = nominal_sizes(main)
    look = origins(main)
    given = {o for o in look(result(main)) if o.kind == "call"}
    work = TaskGraph([], [], [], [], [], [], [])
    maker: dict[Origin, int] = {}
    tensor: dict[Origin, int] = {}
    traps: list[int] = []
    behind: dict[Expr, set[int]] = {}  # for what is no call the calls that come before it since one of both may fail
    for var, value in bindings(main):
        if not isinstance(value, CallTIR):
            behind[var] = {b for c in value.children or (value,) for b in behind.get(c, ())}
            if can_fail(value, module):
                traps = [*dict.fromkeys([*traps, *behind[var], *(maker[o] for o in look(var) if o in maker)])]
                behind[var] = set(traps)
            continue
        kernel, index = module.kernel(value.func), len(work.vars)
        read = dict.fromkeys(o for a in value.args for o in look(a) if o.kind == "call")
        for o in read:
            if o not in given:
                work.readers[tensor[o]].append(index)
        before = {maker[o] for o in read} | {b for a in value.args for b in behind.get(a, ())}
        if kernel_can_trap(kernel):
            before.update(traps)
            traps = [index]
        made = look(var)
        for o in made:
            maker[o] = index
            if o not in given:
                tensor[o] = len(work.size)
                work.size.append(_bytes(o.type, at))
                work.readers.append([])
        work.vars.append(var)
        own = {s: evaluate_dim(d, at) for s, d in sizes_of_call(value, kernel).items()}
        inside = sum(_bytes(b, own) for b in kernel.allocations)
        work.need.append(sum(_bytes(o.type, at) for o in made if o not in given) + inside)
        work.makes.append([tensor[o] for o in made if o in tensor])
        work.reads.append([tensor[o] for o in read if o in tensor])
        work.before.append(sorted(before))
    work.makes[:] = [[t for t in made if work.readers[t]] for made in work.makes]
    return work


def _bytes(of: TensorType | Buffer, at: Mapping[Symbol, int]) -> int:
    return prod(max(evaluate_dim(d, at), 0) for d in of.shape) * of.dtype.itemsize


def profile(work: TaskGraph, order: Sequence[int]) -> list[tuple[int, int]]:
    """For each call of an order the bytes live before it, and the most while it runs."""
    left = [len(r) for r in work.readers]
    live, found = 0, []
    for call in order:
        found.append((live, live + work.need[call]))
        live += sum(work.size[t] for t in work.makes[call])
        for t in work.reads[call]:
            left[t] -= 1
            if not left[t]:
                live -= work.size[t]
    return found


def peak(work: TaskGraph, order: Sequence[int]) -> int:
    """The most bytes live at once."""
    return max((high for _, high in profile(work, order)), default=0)
