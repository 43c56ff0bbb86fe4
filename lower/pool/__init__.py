"""Offsets for the slots of a program, in one pool or several (specs/lower.md, "pool").

    module = plan(module)                                             # one pool, without a limit, for each memory
    module = plan(module, Memory((Pool("sram", limit=1 << 18), Pool("dram"))))
    module = plan(module, Memory(io=True, planner="greedy-size"))     # inputs and outputs in the pools as well

The program is a planning problem (`assay.lower.liveness.problem`); slots in the same bytes (`Step.in_place`) are one
buffer of it. A planner answers it (`assay.lower.memory`). Nothing here is trusted: the plan is proved afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from assay.lower.constants.pools import place_constants
from assay.lower.in_place import in_place
from assay.lower.liveness import ALIGNMENT, problem
from assay.lower.memory import plan as place
from assay.lower.memory.symbolic import plan_symbolic
from assay.semantics.devices import ANYWHERE, GLOBAL, VirtualDevice
from assay.semantics.errors import Invalid
from assay.semantics.instance import run_bounds
from assay.semantics.live_positions import union
from assay.semantics.memory import BufferInfo, Plan, Pool, Problem
from assay.semantics.module import Module, Program, Slot
from assay.semantics.names import unused
from assay.semantics.scalar import Expr


@dataclass(frozen=True)
class Memory:
    """The memory to plan with: pools in order of priority (none: one without a limit for each place and scope in
    which a slot is), and a planner by name or as a function. Constants go into the pools that are for them (kind
    "constant"), if there are any (`assay.lower.constants.pools`). With `io`, inputs
    and outputs lie in the pools too; with `in_place`, outputs may take the bytes of operands. With `by_bound`, a tensor
    whose symbols all have a declared upper bound gets the bytes that it can need at most; without it, and where there
    is no such bound, places are expressions. `time_limit` in seconds; without one the planner's effort is the same
    everywhere.
    """

    pools: tuple[Pool, ...] = ()
    planner: str | Callable[[Problem], Plan] = "exact"
    io: bool = False
    in_place: bool = True
    by_bound: bool = True
    time_limit: float | None = None
    alignment: int = ALIGNMENT
    """Bytes to which buffers are aligned; `assay.lower.liveness.BY_ELEMENT`: what the elements of each need."""


def plan_pools(module: Module, memory: Memory | None = None) -> Module:
    """The module with a pool and an offset for every slot of the workspace of `main`, and the size of each pool.

    A slot lies in a pool of its own place and scope. Invalid: there is none (pool.C1), or one pool would hold slots of
    two (pool.C2); nothing fits (memory.C7, which names the limit that would do); pools with limits only, for a size
    without a largest value (memory.C8). Where sizes are expressions the program
    carries the plan as a whole (`Program.plan_pools`), and no slot has an offset of its own.
    """
    memory = memory or Memory()
    program = (in_place(module) if memory.in_place else module).program
    work = [p for p in memory.pools if p.kind == "workspace"] or pools_of(program, memory.io)
    constants = [p for p in memory.pools if p.kind == "constant"]
    program = with_constants(module, replace(program, pools=(*work, *constants), sizes={}))
    asked = wanted(program, memory.io)

    def planner(of: Problem) -> Plan:
        return place(of, memory.planner, time_limit=memory.time_limit)

    first = leaders(program)
    if any(isinstance(b.nbytes, Expr) for b in asked.buffers):
        whole = plan_symbolic(asked, planner, by_bound=memory.by_bound)

        def of_slots(arrangement: Plan) -> Plan:
            there = arrangement.places
            places = {n: there[first.get(n, n)] for n in program.slots if first.get(n, n) in there}
            return replace(arrangement, places=places, sizes={**arrangement.sizes, **program.sizes})

        whole = replace(of_slots(whole), others=tuple(map(of_slots, whole.others)))
        return module.with_(main=replace(program, plan=whole))
    made = planner(asked)
    slots = dict(program.slots)
    for name, slot in slots.items():
        found = made.places.get(first.get(name, name))
        if found is not None:
            assert isinstance(found.offset, int)
            slots[name] = replace(slot, offset=found.offset, pool=found.pool)
    sizes = {name: size for name, size in made.sizes.items() if isinstance(size, int)}
    return module.with_(main=replace(program, slots=slots, sizes={**sizes, **program.sizes}))


def with_constants(module: Module, program: Program) -> Program:
    """The program with its constants in its pools for constants, and their sizes; in the table if it has none."""
    places, sizes = place_constants(module, program)
    slots = dict(program.slots)
    for slot in program.placed("constant"):
        place = places.get(slot.name)
        offset, pool = (module.offsets.get(slot.name), "") if place is None else (place.offset, place.pool)
        assert offset is None or isinstance(offset, int)
        slots[slot.name] = replace(slot, offset=offset, pool=pool)
    return replace(program, slots=slots, sizes=sizes)


def wanted(program: Program, io: bool = False) -> Problem:
    """The planning problem of a program with pools: each slot in those of its device, slots in the same bytes as
    one."""
    whole = problem(program, (*program.inputs, *program.outputs) if io else (), run_bounds(program))
    first = leaders(program)
    held: dict[str, tuple[VirtualDevice, str]] = {}
    """Of each pool the memory that it is, and who says so."""
    joined: dict[str, BufferInfo] = {}
    for b in whole.buffers:
        b = replace(b, pools=_pools(whole.candidates(b), b, program.slots[b.name].device, held))
        head = first.get(b.name, b.name)
        if head in joined:
            one = joined[head]
            b = replace(one, live=union((*one.live, *b.live)), alignment=max(one.alignment, b.alignment))
        joined[head] = replace(b, name=head)
    return replace(whole, buffers=tuple(joined.values()))


def leaders(program: Program) -> Mapping[str, str]:
    """For each slot that lies in the bytes of another: the one whose bytes they were first."""
    found: dict[str, str] = {}
    for step in program.calls:
        for k, j in step.in_place:
            found[step.writes[k]] = found.get(step.reads[j], step.reads[j])
    return found


def pools_of(program: Program, io: bool = False) -> tuple[Pool, ...]:
    """A pool for each place and scope in which a slot of the workspace is; with `io`, an input or output too.

    The only one is called "workspace", and so is that of what says nothing; others by where they are, such as
    workspace_cuda_0 and workspace_cuda_0_texture.
    """
    wanted = [s for s in program.slots.values() if s.place == "workspace" or (io and s.place != "constant")]
    memories = dict.fromkeys(map(_memory, wanted)) or {ANYWHERE: None}
    found: list[Pool] = []
    for m in memories:
        words = [str(m.type or m.target.split(" ")[0] or "any"), *([str(m.id)] if m.id >= 0 else [])]
        words += [m.scope.removeprefix(f"{GLOBAL}.")] if m.scope != GLOBAL else []
        plain = len(memories) == 1 or m == ANYWHERE
        name = "workspace" if plain else re.sub(r"\W+", "_", "_".join(["workspace", *filter(None, words)]))
        most = max((s.alignment for s in wanted if _memory(s) == m), default=ALIGNMENT)
        found.append(Pool(unused(name, [p.name for p in found]), device=m, alignment=most))
    return tuple(found)


def _memory(slot: Slot) -> VirtualDevice:
    """Where a slot is; in the main memory where it names a device and no scope."""
    device = slot.device
    return device if device == ANYWHERE else device.default(VirtualDevice(scope=GLOBAL))


def _pools(
    usable: tuple[Pool, ...], buffer: BufferInfo, device: VirtualDevice, held: dict[str, tuple[VirtualDevice, str]]
) -> tuple[str, ...]:
    """Those of the usable pools that are in a memory; empty if all are. `held` is what each pool has been found to
    be."""
    found = [p for p in usable if p.device.agrees(device)]
    if not found:
        raise Invalid(
            f"no pool is on {device}, where buffer {buffer.name} ({buffer.producer}) is made; there are"
            f" {', '.join(f'{p.name} on {p.device}' for p in usable) or 'none that can be written'}",
            label="pool.C1",
        )
    for p in found:
        before, other = held.get(p.name, (p.device, ""))
        both = before.join(device)
        if both is None:
            raise Invalid(
                f"the pool {p.name}, of which is said that it is on {p.device}, would hold buffer {other} on {before}"
                f" and buffer {buffer.name} on {device}; a pool is in one memory: there must be one for each of"
                " the two",
                label="pool.C2",
            )
        held[p.name] = both, buffer.name if both != before else other
    return buffer.pools or (() if len(found) == len(usable) else tuple(p.name for p in found))
