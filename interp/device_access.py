"""Who may touch which memory (rule M8; specs/interp.md, "Machine").

Each place and each scope on it is memory of its own. A step touches that of its own place, under parameters of the
scope that it is in; only a `device_copy` that is one reads elsewhere. The host reads the conditions of branches. What
is open on either side agrees with anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from assay.interp.reports import wrong_device
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.errors import Trap
from assay.semantics.module import Program, Slot, Step
from assay.semantics.tensor import Buffer, PrimFunc
from assay.semantics.tensor.copying import claims_copy, no_copy


@dataclass(frozen=True)
class StepAcross:
    """What a step would touch that it must not: of each such buffer what is wrong, and what would be right."""

    wrong: Mapping[Buffer, tuple[str, str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.wrong)

    def check(self) -> None:
        """Raise the trap of the first access that was found wrong, if there is one."""
        for buffer, (what, right) in self.wrong.items():
            raise wrong_device(what, right, buffer)

    def check_element(self, buffer: Buffer, index: Sequence[int]) -> None:
        """Traps where an element is touched that must not be."""
        if buffer in self.wrong:
            raise wrong_device(*self.wrong[buffer], buffer, index)


NOTHING = StepAcross()


class Across:
    """The rule for one program. Traps where a pool holds slots of two memories, or a slot of another than its own."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.is_open = all(s.device == ANYWHERE for s in program.slots.values())
        """Nothing says where it is."""
        if not self.is_open:
            self.check_pools()

    def check_pools(self) -> None:
        """Each pool is in one memory."""
        known = {p.name: (p.device, "") for p in self.program.pools}
        for slot in self.program.pooled:
            if slot.offset is None:
                continue  # it is nowhere yet
            pool = self.program.pool_of(slot).name
            device, who = known[pool]
            both = device.join(slot.device)
            if both is None:
                there = f"slot {who} there is" if who else "that is"
                raise Trap(
                    "wrong device",
                    f"slot {slot.name} is on {slot.device}, but lies in the pool {pool}, and {there} on {device}",
                    right=f"it must lie in a pool on {slot.device}",
                    label="machine.T11",
                )
            known[pool] = both, slot.name if both != device else who

    def of_step(self, step: Step, func: PrimFunc, pairs: Sequence[tuple[Buffer, Slot]]) -> StepAcross:
        """What a step would touch that it must not. `pairs` are its slots, what it reads first."""
        return NOTHING if self.is_open else of_call(step.device, func, pairs)


def check_host(host: VirtualDevice, slot: Slot) -> None:
    """Traps where the host does not see what it goes by, such as the condition of a branch."""
    if not host.agrees(slot.device):
        what = f"slot {slot.name} is on {slot.device}, a condition is read by the host, which is {host}"
        raise wrong_device(what, f"a device_copy of {slot.name} to {host} must come before")


def of_call(device: VirtualDevice, func: PrimFunc, pairs: Sequence[tuple[Buffer, Slot]]) -> StepAcross:
    """What a call of a tensor function on a device would touch that it must not (rule M8.5)."""
    wrong: dict[Buffer, tuple[str, str]] = {}
    may_cross = claims_copy(func)
    why = no_copy(func) if may_cross else ""
    for k, (buffer, slot) in enumerate(pairs):
        read = k < len(func.inputs)
        found = _wrong(device, func, buffer, slot, read)
        if found is None or (read and may_cross and not why):
            continue
        what, right = found
        wrong[buffer] = (
            f"{what}; {func.name} says that it is a device_copy, but {why}" if read and why else what,
            right,
        )
    return StepAcross(wrong)


def _wrong(device: VirtualDevice, func: PrimFunc, buffer: Buffer, slot: Slot, read: bool) -> tuple[str, str] | None:
    """What is wrong with a slot in a step, and what would be right."""
    here, there = device.place, slot.device.place
    touched = "read" if read else "written"
    if not here.agrees(there):
        right = (
            f"a device_copy of {slot.name} to {here} must come before" if read else f"what it writes must be on {here}"
        )
        return f"slot {slot.name} is on {there}, and is {touched} on {here}", right
    scope = slot.device.scope
    if scope and buffer.scope and scope != buffer.scope:
        what = (
            f"slot {slot.name} is in scope {scope}, and is {touched} as {buffer.name}, which {func.name} has in scope"
        )
        right = (
            f"a device_copy of {slot.name} to scope {buffer.scope} must come before"
            if read
            else (f"it must be in scope {buffer.scope}")
        )
        return f"{what} {buffer.scope}", right
    return None
