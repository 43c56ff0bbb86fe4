"""Bytes with owners: the shadow state of rule M7 (specs/interp.md, "Machine")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.interp.binding import Array
from assay.interp.memory import Memory, check_bounds, element, read_only
from assay.semantics.errors import Invalid, Trap
from assay.semantics.module import Program, Slot
from assay.semantics.tensor import Buffer, PrimFunc

NOBODY = 0
"""The owner of a byte that was not written."""


class Slots(Mapping[str, Slot]):
    """The slots of a program, with a number for each: what bytes carry."""

    def __init__(self, program: Program) -> None:
        self.slots = dict(program.slots)
        self.names = ["nobody", *self.slots]
        self.numbers = {name: k for k, name in enumerate(self.names)}

    def __getitem__(self, name: str) -> Slot:
        if name not in self.slots:
            raise Invalid(f"the program has no slot {name!r}", label="machine.C4")
        return self.slots[name]

    def __iter__(self) -> Any:
        return iter(self.slots)

    def __len__(self) -> int:
        return len(self.slots)


@dataclass(frozen=True, eq=False)
class Region:
    """Consecutive memory: its bytes, and the number of the slot that wrote each of them last."""

    name: str
    data: Array
    owner: Array
    slots: Slots

    @staticmethod
    def garbage(name: str, size: int, slots: Slots, rng: np.random.Generator) -> Region:
        """Memory of `size` bytes that nobody has written."""
        alignment = max([64, *(s.alignment for s in slots.values())])
        whole = rng.integers(0, 256, size + alignment, dtype=np.uint8)
        first = -whole.ctypes.data % alignment
        return Region(name, whole[first : first + size], np.zeros(size, np.int32), slots)

    def span(self, slot: Slot) -> slice:
        first = slot.offset or 0 if slot.place in ("workspace", "constant") else 0
        return slice(first, first + slot.nbytes)

    def view(self, slot: Slot) -> Array:
        """The slot's bytes as its tensor."""
        return self.data[self.span(slot)].view(slot.type.dtype.numpy).reshape(slot.type.static_shape)

    def write(self, slot: Slot) -> None:
        """Every byte of the slot is the slot's from now on."""
        self.owner[self.span(slot)] = self.slots.numbers[slot.name]

    def forget(self, slot: Slot) -> None:
        """What the slot wrote before counts as unwritten; what others wrote stays theirs."""
        owner = self.owner[self.span(slot)]
        owner[owner == self.slots.numbers[slot.name]] = NOBODY

    def spoil(self, slot: Slot) -> None:
        """Garbage in every byte of a slot that is workspace of a kernel: nothing may be left over for it to read."""
        self.data[self.span(slot)] = 0xA5

    def check(self, slot: Slot, what: str) -> None:
        """Traps unless every byte of the slot was last written by it."""
        span = self.span(slot)
        owner = self.owner[span]
        wrong = owner != self.slots.numbers[slot.name]
        if wrong.any():
            raise self.trap(slot, int(np.argmax(wrong)), what)

    def trap(self, slot: Slot, byte: int, what: str) -> Trap:
        """The trap for a byte of the slot, counted from its start, that is not the slot's."""
        owner = self.slots.names[int(self.owner[self.span(slot)][byte])]
        by = f" (filled by {slot.producer})" if slot.producer else ""
        place = f"byte {byte} of slot {slot.name}{by}, at {self.span(slot).start + byte} in the {self.name}"
        if owner == "nobody":
            return Trap("unwritten read", f"{place}, is {what}, but was never written", label="machine.T1")
        return Trap("clobbered", f"{place}, is {what}, but slot {owner} has overwritten it", label="machine.T2")


class ShadowMemory(Memory):
    """The memory of one kernel inside the machine's: every element access looks at the owners of its bytes."""

    def __init__(
        self, func: PrimFunc, params: Sequence[tuple[Slot, Region]], scratch: Sequence[tuple[Slot, Region]]
    ) -> None:
        super().__init__()
        self.homes = dict(zip(func.params, params, strict=True))
        self.homes.update(zip(func.allocations, scratch, strict=True))
        self.inputs = set(func.inputs)
        self.params = set(func.params)

    def begin(self, buffer: Buffer, shape: tuple[int, ...], contents: Array | None = None) -> None:
        if buffer not in self.homes:  # a constant of the kernel itself
            super().begin(buffer, shape, contents)
        elif self.homes[buffer][0].type.static_shape != shape:
            slot = self.homes[buffer][0]
            raise Invalid(f"slot {slot.name} is {slot.type}, for buffer {buffer!r}", label="machine.C5")
        elif buffer not in self.inputs:
            slot, region = self.homes[buffer]
            region.forget(slot)

    def end(self, buffer: Buffer) -> None:
        if buffer not in self.homes:
            super().end(buffer)

    def load(self, buffer: Buffer, index: Sequence[Any]) -> Any:
        if buffer not in self.homes:
            return super().load(buffer, index)
        slot, region = self.homes[buffer]
        at = check_bounds(buffer, slot.type.static_shape, index)
        first, size = self.place(slot, at)
        owner = region.owner[region.span(slot)][first : first + size]
        wrong = owner != region.slots.numbers[slot.name]
        if wrong.any():
            raise region.trap(slot, first + int(np.argmax(wrong)), f"read as {element(buffer, at)}")
        return region.view(slot)[at]

    def store(self, buffer: Buffer, index: Sequence[Any], value: Any) -> None:
        if buffer not in self.homes:
            super().store(buffer, index, value)
            return
        slot, region = self.homes[buffer]
        at = check_bounds(buffer, slot.type.static_shape, index)
        if buffer in self.inputs:
            raise read_only(buffer, at)
        first, size = self.place(slot, at)
        region.view(slot)[at] = value
        region.owner[region.span(slot)][first : first + size] = region.slots.numbers[slot.name]

    def place(self, slot: Slot, at: tuple[int, ...]) -> tuple[int, int]:
        """The first byte of an element within its slot, and how many bytes it has."""
        size = slot.type.dtype.itemsize
        return int(np.ravel_multi_index(at, slot.type.static_shape)) * size if at else 0, size

    def result(self, buffer: Buffer) -> Array:
        slot, region = self.homes[buffer]
        region.check(slot, "written")
        return region.view(slot)
