"""Places for constants in the memories that are for them (rows C7, C8; specs/lower.md, "constants").

    plan(module, Memory((Pool("sram"), Pool("tcm", "constant", limit=4096), Pool("flash", "constant"))))

Each constant goes into the first of the pools that suit it and have room. A pool suits a constant if it is in the
device's memory that the constant asks for, is aligned as the constant asks, and becomes the section of the object file
that the constant asks for; what either leaves open suits. But a pool in a special scope, one that is not the main
memory, holds only what asks for that scope: kernels that know nothing of it could not read the others there. Constants
are there all the time, so no two share a byte.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assay.lower.memory import plan as place
from assay.semantics.devices import GLOBAL, VirtualDevice
from assay.semantics.errors import Invalid
from assay.semantics.memory import BufferInfo, Place, Pool, Problem
from assay.semantics.module import ConstantInfo, Module, Program, Slot

MOST_SEARCHED = 200
"""Up to so many constants, a way into the pools is searched for where the quick planner finds none."""


def place_constants(module: Module, program: Program) -> tuple[Mapping[str, Place], Mapping[str, int]]:
    """The place of each constant of a program of the module, and the bytes of each of its pools that is for constants.

    Constants that only tensor functions name have places too. Without a pool for constants there are no places: they
    are in the one table. Invalid: no pool suits a constant (constants.C7), or they do not fit (memory.C7, which names
    one that does not, and the limits that would do).
    """
    mine = tuple(p for p in program.pools if p.kind == "constant")
    if not mine:
        return {}, {}
    held: dict[str, tuple[VirtualDevice, str]] = {p.name: (p.device, "") for p in mine}
    buffers = []
    for slot in program.placed("constant"):
        buffers.append(constant_buffer(slot, module.info(slot.name), mine))
        _one_memory(buffers[-1], slot.device, held)
    problem = Problem(tuple(buffers), mine)
    try:
        made = place(problem, "greedy-size")
    except Invalid as wrong:
        if wrong.label != "memory.C7" or len(buffers) > MOST_SEARCHED:
            raise
        made = place(problem, "exact")
    sizes = {p.name: made.sizes.get(p.name, 0) for p in mine}
    assert all(isinstance(n, int) for n in sizes.values())
    return made.places, {name: n for name, n in sizes.items() if isinstance(n, int)}


def _one_memory(buffer: BufferInfo, device: VirtualDevice, held: dict[str, tuple[VirtualDevice, str]]) -> None:
    """Invalid (constants.C8): a pool might hold constants of two memories. `held` is what each has been found to be."""
    for name in buffer.pools:
        before, other = held[name]
        both = before.join(device)
        if both is None:
            raise Invalid(
                f"the pool {name} would hold constant {other} on {before} and constant {buffer.name} on {device}; a"
                " pool is in one memory: say in which each pool is",
                label="constants.C8",
            )
        held[name] = both, buffer.name if both != before else other


def constant_buffer(slot: Slot, info: ConstantInfo, pools: Sequence[Pool]) -> BufferInfo:
    """A constant as a buffer to place. Invalid: no pool suits it (constants.C7)."""
    suits = [p for p in pools if suiting(p, slot, info) is None]
    if not suits:
        why = "; ".join(f"{p.name} {suiting(p, slot, info)}" for p in pools)
        raise Invalid(f"no pool suits the constant {slot.name}: {why}", label="constants.C7")
    names = tuple(p.name for p in suits)
    return BufferInfo(slot.name, slot.nbytes, ((0, 1),), slot.alignment, "constant", names, producer=slot.producer)


def suiting(pool: Pool, slot: Slot, info: ConstantInfo) -> str | None:
    """Why a constant cannot lie in a pool; None if it can."""
    for wanted in (info.device, slot.device):
        if not pool.device.agrees(wanted):
            return f"is on {pool.device}, the constant on {wanted}"
    if pool.device.scope not in ("", GLOBAL, info.device.scope, slot.device.scope):
        return f"is in the scope {pool.device.scope}, for which the constant does not ask"
    if info.section and pool.section != info.section:
        return f"becomes {pool.section or 'the usual section'}, the constant {info.section}"
    if pool.alignment % slot.alignment:
        return f"is aligned to {pool.alignment}, the constant to {slot.alignment}"
    return None
