"""Who touches which memory in a program (rule M8; specs/verify.md, "liveness").

Each step, each slot and each pool is looked at, field by field of its device: what both sides say must be the same.
This reads no line of the pass, of the planner or of the machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from assay.interp import tensor
from assay.semantics.devices import VirtualDevice
from assay.semantics.dtypes import BOOL
from assay.semantics.errors import AssayError
from assay.semantics.instance import place_of
from assay.semantics.module import Program, Slot, Step
from assay.semantics.tensor import Buffer, PrimFunc
from assay.semantics.tensor.copying import no_copy
from assay.verify.evidence import Evidence, checked, refuted
from assay.verify.liveness.program import describe_step

PLACE, ALL = ("type", "id", "target"), ("type", "id", "target", "scope")
OPEN = ("", -1)


def check_pools(program: Program) -> Evidence:
    """Whether every pool is in one memory, that of its buffers."""
    for wrong in _pools(program):
        return refuted("checked", wrong)
    return checked("every buffer is in a pool in its memory")


def check_steps(program: Program, kernels: Mapping[str, PrimFunc]) -> Evidence:
    """Whether every access stays in the memory of its step."""
    for wrong in _steps(program, kernels):
        return refuted("checked", wrong)
    return checked("every buffer is in the memory of the steps that touch it")


def devices_apart(a: VirtualDevice, b: VirtualDevice, fields: tuple[str, ...] = ALL) -> bool:
    """Whether the two say different things."""
    pairs = [(getattr(a, f), getattr(b, f)) for f in fields]
    return any(x not in OPEN and y not in OPEN and x != y for x, y in pairs)


def _pools(program: Program) -> Iterator[str]:
    inside: dict[str, list[Slot]] = {p.name: [] for p in program.pools}
    for slot in program.pooled:
        place = place_of(program, slot)
        if place is not None:
            inside[place.pool].append(slot)
    for pool in program.pools:
        for slot in inside[pool.name]:
            if devices_apart(slot.device, pool.device):
                yield f"buffer {slot.name} is on {slot.device}, the pool {pool.name} is on {pool.device}"
        said: dict[str, Slot] = {}
        for slot in inside[pool.name]:
            for f in ALL:
                first = said.setdefault(f, slot) if getattr(slot.device, f) not in OPEN else slot
                if getattr(first.device, f) != getattr(slot.device, f):
                    yield (
                        f"buffers {first.name} and {slot.name} lie in the pool {pool.name}, the one is on"
                        f" {first.device}, the other on {slot.device}"
                    )


def _steps(program: Program, kernels: Mapping[str, PrimFunc]) -> Iterator[str]:
    slots = program.slots
    for i, step in enumerate(program.steps):
        if not isinstance(step, Step):
            for name in step.reads:
                if devices_apart(where := slots[name].device, program.host):
                    yield f"{describe_step(step, i)} is decided by the host, {program.host}; {name} is on {where}"
            continue
        kernel = kernels.get(step.kernel)
        copies = kernel is not None and kernel.attrs.get("operator") == "device_copy"
        if copies and kernel is not None and (why := _odd(kernel)):
            yield f"{describe_step(step, i)} is called a device_copy, and {why}"
        names = (*step.reads, *step.writes, *step.scratch)
        buffers: tuple[Buffer | None, ...] = (None,) * len(names)
        if kernel is not None:
            buffers = (*kernel.params, *kernel.allocations)
        for k, (name, buffer) in enumerate(zip(names, buffers, strict=True)):
            there, read = slots[name].device, k < len(step.reads)
            if read and copies:
                continue
            if devices_apart(there, step.device, PLACE):
                verb = "reads" if read else "writes"
                here = f"runs on {step.device.place}"
                yield f"{describe_step(step, i)} {here} and {verb} buffer {name}, which is on {there}"
            elif buffer is not None and "" not in (buffer.scope, there.scope) and buffer.scope != there.scope:
                yield (
                    f"{describe_step(step, i)} takes buffer {name} in scope {there.scope}"
                    f" as {buffer.name} in {buffer.scope}"
                )


MOST = 1 << 12
"""Elements up to which a copy is run."""


def _odd(kernel: PrimFunc) -> str:
    """Why a tensor function is no copy: by its text, and by what it gives for numbers that are all different."""
    why = no_copy(kernel)
    if why or not all(isinstance(d, int) for b in kernel.params for d in b.shape):
        return why
    x = kernel.inputs[0]
    count = int(np.prod(x.static_shape))
    if not 0 < count <= MOST or x.dtype is BOOL:
        return ""
    bits = np.arange(1, count + 1).astype(f"u{x.dtype.itemsize}").view(x.dtype.numpy)
    try:
        (found,) = tensor.run(kernel, [bits.reshape(x.static_shape)])
    except AssayError as trap:
        return str(trap)
    same = found.reshape(-1).view(f"u{x.dtype.itemsize}") == bits.view(f"u{x.dtype.itemsize}")
    return "" if same.all() else f"element {int(np.argmin(same))} is another"
