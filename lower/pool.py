"""Offsets for the slots of a program, in one pool or several (specs/lower.md, "pool").

    module = plan(module)                                             # one pool without a limit
    module = plan(module, Memory((Pool("sram", limit=1 << 18), Pool("dram"))))
    module = plan(module, Memory(io=True, planner="greedy-size"))     # inputs and outputs in the pools as well

The program is a planning problem (`assay.lower.liveness.problem`); slots in the same bytes (`Step.in_place`) are one
buffer of it. A planner answers it (`assay.lower.memory`). Nothing here is trusted: the plan is proved afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from assay.lower.in_place import in_place
from assay.lower.liveness import devices, problem
from assay.lower.memory import plan as place
from assay.lower.memory.symbolic import plan_symbolic
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.errors import Invalid
from assay.semantics.memory import BufferInfo, Plan, Pool, Problem
from assay.semantics.module import Module, Program
from assay.semantics.paths import join
from assay.semantics.scalar import Expr


@dataclass(frozen=True)
class Memory:
    """What there is to plan with: pools in order of priority, and a planner by name or as a function. With `io`, inputs
    and outputs lie in the pools too; with `in_place`, outputs may take the bytes of operands. With `by_bound`, a tensor
    whose symbols all have a declared upper bound gets the bytes that it can need at most; without it, and where there is
    no such bound, places are expressions. `time_limit` in seconds; without one the planner's effort is the same
    everywhere.
    """

    pools: tuple[Pool, ...] = (Pool("workspace"),)
    planner: str | Callable[[Problem], Plan] = "exact"
    io: bool = False
    in_place: bool = True
    by_bound: bool = True
    time_limit: float | None = None


def plan(module: Module, memory: Memory | None = None) -> Module:
    """The module with a pool and an offset for every slot of the workspace of `main`, and the size of each pool.

    Invalid: a slot's device has no pool (pool.C1), or nothing fits (memory.C7, which names the limit that would do);
    pools with limits only, for a size without a largest value (memory.C8). Where sizes are expressions the program
    carries the plan as a whole (`Program.plan`), and no slot has an offset of its own.
    """
    memory = memory or Memory()
    program = replace((in_place(module) if memory.in_place else module).program, pools=memory.pools)
    asked = wanted(program, memory.io)

    def planner(of: Problem) -> Plan:
        return place(of, memory.planner, time_limit=memory.time_limit)

    first = leaders(program)
    if any(isinstance(b.nbytes, Expr) for b in asked.buffers):
        whole = plan_symbolic(asked, planner, by_bound=memory.by_bound)
        places = {n: whole.places[first.get(n, n)] for n in program.slots if first.get(n, n) in whole.places}
        return module.with_(main=replace(program, plan=replace(whole, places=places)))
    made = planner(asked)
    slots = dict(program.slots)
    for name, slot in slots.items():
        found = made.places.get(first.get(name, name))
        if found is not None:
            assert isinstance(found.offset, int)
            slots[name] = replace(slot, offset=found.offset, pool=found.pool)
    sizes = {name: size for name, size in made.sizes.items() if isinstance(size, int)}
    return module.with_(main=replace(program, slots=slots, sizes=sizes))


def wanted(program: Program, io: bool = False) -> Problem:
    """The planning problem of a program with pools: each slot in those of its device, slots in the same bytes as one."""
    whole = problem(program, (*program.inputs, *program.outputs) if io else (), program.bounds)
    made_on = devices(program)
    first = leaders(program)
    joined: dict[str, BufferInfo] = {}
    for b in whole.buffers:
        b = replace(b, pools=b.pools or _pools(whole.candidates(b), b, made_on.get(b.name, [ANYWHERE])[-1]))
        head = first.get(b.name, b.name)
        if head in joined:
            one = joined[head]
            b = replace(one, live=join((*one.live, *b.live)), alignment=max(one.alignment, b.alignment))
        joined[head] = replace(b, name=head)
    return replace(whole, buffers=tuple(joined.values()))


def leaders(program: Program) -> Mapping[str, str]:
    """For each slot that lies in the bytes of another: the one whose bytes they were first."""
    found: dict[str, str] = {}
    for step in program.calls:
        for k, j in step.in_place:
            found[step.writes[k]] = found.get(step.reads[j], step.reads[j])
    return found


def _pools(usable: tuple[Pool, ...], buffer: BufferInfo, device: VirtualDevice) -> tuple[str, ...]:
    """Those of the usable pools that are on a device; empty if all are."""
    found = [p for p in usable if p.device.agrees(device)]
    if not found:
        raise Invalid(
            f"no pool is on {device}, where buffer {buffer.name} ({buffer.producer}) is made; there are"
            f" {', '.join(f'{p.name} on {p.device}' for p in usable) or 'none that can be written'}",
            label="pool.C1",
        )
    return () if len(found) == len(usable) else tuple(p.name for p in found)
