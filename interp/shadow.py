"""Bytes with owners: the shadow state of rule M7 (specs/interp.md, "Machine")."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from assay.interp.binding import Array
from assay.interp.device_access import StepAcross
from assay.interp.memory import Memory, check_bounds, to_bytes, with_byte
from assay.interp.reports import element, read_only
from assay.semantics.bits import frozen
from assay.semantics.dtypes import size_in_bytes
from assay.semantics.errors import Invalid, Trap
from assay.semantics.module import Program, Slot
from assay.semantics.tensor import Buffer, PrimFunc
from assay.semantics.types import TensorType

NOBODY = 0
"""The owner of a byte that was not written."""
SPOILED = 0xA5


def raw_bytes(array: Array) -> Array:
    """The bytes of a row-major array."""
    return array.reshape(-1).view(np.uint8)


class Slots(Mapping[str, Slot]):
    """Slots with a number for each: what bytes carry."""

    def __init__(self, slots: Mapping[str, Slot], alignment: int) -> None:
        self.slots = dict(slots)
        self.names = ["nobody", *self.slots]
        self.numbers = {name: k for k, name in enumerate(self.names)}
        self.alignment = max([alignment, *(s.alignment for s in self.slots.values())])

    @staticmethod
    def of(program: Program) -> Slots:
        """The slots of a program."""
        return Slots(program.slots, program.alignment)

    def __getitem__(self, name: str) -> Slot:
        if name not in self.slots:
            raise Invalid(f"the program has no slot {name!r}", label="machine.C4")
        return self.slots[name]

    def add(self, slot: Slot) -> None:
        """One more slot, of a name that none has yet."""
        self.numbers[slot.name] = len(self.names)
        self.names.append(slot.name)
        self.slots[slot.name] = slot

    def retype(self, name: str, of: TensorType) -> None:
        """A slot has another type from now on."""
        self.slots[name] = replace(self.slots[name], type=of)

    def __iter__(self) -> Iterator[str]:
        return iter(self.slots)

    def __len__(self) -> int:
        return len(self.slots)


@dataclass(frozen=True, eq=False)
class ShadowRegion:
    """Consecutive memory: its bytes, and the number of the slot that wrote each of them last.

    Memory that is filled before the start and read-only from then on keeps no owners (rule M7.1).
    """

    name: str
    data: Array
    owner: Array | None
    slots: Slots
    alignment: int
    held: dict[str, Array] | None = None
    """Of memory for constants: their contents, which are not copied. Then `data` says how many bytes it has, no
    more."""

    @staticmethod
    def of_constants(name: str, size: int, slots: Slots, alignment: int | None = None) -> ShadowRegion:
        """Read-only memory of `size` bytes that is filled with `hold`."""
        data = np.broadcast_to(np.uint8(0), (size,))
        return ShadowRegion(name, data, None, slots, alignment or slots.alignment, {})

    @staticmethod
    def make(name: str, size: int, slots: Slots, garbage: Array | None, alignment: int | None = None) -> ShadowRegion:
        """Memory of `size` bytes, of which is said that it is aligned to `alignment`, or else as any slot asks; with
        `garbage` in it that has no owner."""
        whole = (
            np.zeros(size + slots.alignment, np.uint8)
            if garbage is None
            else np.resize(garbage, size + slots.alignment)
        )
        first = -whole.ctypes.data % slots.alignment
        number = np.min_scalar_type(len(slots))
        owner = None if garbage is None else np.zeros(size, number)
        return ShadowRegion(name, whole[first : first + size], owner, slots, alignment or slots.alignment)

    def span(self, slot: Slot) -> slice:
        """The bytes of a slot in this region, by its offset (0 where it has none)."""
        first = slot.offset or 0
        return slice(first, first + slot.nbytes)

    def view(self, slot: Slot) -> Array:
        """The slot's bytes as its tensor."""
        if self.held is not None:
            return self.held[slot.name]
        first = self.span(slot).start
        return self.data[first : first + slot.type.nbytes].view(slot.type.dtype.numpy).reshape(slot.type.static_shape)

    def bytes(self, slot: Slot) -> Array:
        """The slot's bytes."""
        return self.data[self.span(slot)] if self.held is None else raw_bytes(self.held[slot.name])

    def hold(self, slot: Slot, contents: Array) -> None:
        """Constant contents for the slot, for good."""
        assert self.held is not None
        self.held[slot.name] = frozen(contents)

    def owners(self, slot: Slot) -> Array:
        """Who wrote each byte of the slot last."""
        if self.owner is None:
            return np.broadcast_to(np.uint32(self.slots.numbers[slot.name]), (slot.nbytes,))
        return self.owner[self.span(slot)]

    def write(self, slot: Slot) -> None:
        """Every byte of the slot is the slot's from now on."""
        self.owners(slot)[:] = self.slots.numbers[slot.name]

    def forget(self, slot: Slot) -> None:
        """What the slot wrote before counts as unwritten; what others wrote stays theirs."""
        owners = self.owners(slot)
        owners[owners == self.slots.numbers[slot.name]] = NOBODY

    def fill(self, slot: Slot, contents: Array) -> None:
        """Contents for the bytes of the slot that are its own."""
        new = np.ascontiguousarray(contents).reshape(-1).view(np.uint8)
        there = self.data[self.span(slot)][: len(new)]
        np.copyto(there, new, where=self.owners(slot)[: len(new)] == self.slots.numbers[slot.name])

    def spoil(self, slot: Slot) -> None:
        """Garbage in every byte of a slot that is workspace of a kernel: nothing may be left over for it to read."""
        self.data[self.span(slot)] = SPOILED

    def check(self, slot: Slot, what: str) -> None:
        """Traps unless every byte of what the slot holds was last written by it."""
        wrong = (
            self.owners(slot)[: slot.type.nbytes] != self.slots.numbers[slot.name]
            if self.owner is not None
            else np.zeros(0, bool)
        )
        if wrong.any():
            raise self.trap(slot, int(np.argmax(wrong)), what)

    def trap(self, slot: Slot, byte: int, what: str) -> Trap:
        """The trap for a byte of the slot, counted from its start, that is not the slot's (rule M7.5)."""
        owner = self.slots.names[int(self.owners(slot)[byte])]
        by = f" (filled by {slot.producer})" if slot.producer else ""
        place = f"byte {byte} of slot {slot.name}{by}, {self.span(slot).start + byte} of the {self.name}"
        if owner == "nobody":
            return Trap("unwritten read", f"{place}, is {what} but was never written", label="machine.T1")
        why = _advice(slot, self.slots[owner])
        return Trap("clobbered", f"{place}, is {what} but slot {owner} has overwritten it ({why})", label="machine.T2")


def _advice(slot: Slot, other: Slot) -> str:
    """What would have kept the bytes of a slot from another that has overwritten them."""
    both = [max(a[0], b[0]) for a in slot.live for b in other.live if max(a[0], b[0]) < min(a[1], b[1])]
    if both:
        return f"both are live at position {min(both)}: they need bytes of their own"
    return f"they are never live together: the life of {slot.name} should reach from what fills it to here"


class ShadowMemory(Memory):
    """The memory of one kernel inside the machine's: every element access looks at the owners of its bytes, and at the
    device that they are on.

    Outputs in `kept` must be whole at the end; the others are not live any more, and may have been overwritten.
    """

    def __init__(
        self,
        func: PrimFunc,
        homes: Mapping[Buffer, tuple[Slot, ShadowRegion]],
        kept: Collection[Buffer],
        across: StepAcross | None = None,
    ) -> None:
        super().__init__()
        self.across = across if across else None
        self.homes = homes
        self.kept = kept
        self.inputs = set(func.inputs)
        self.shapes: dict[Buffer, tuple[int, ...]] = {}

    def begin(self, buffer: Buffer, shape: tuple[int, ...], contents: Array | None = None) -> None:
        """As the base's; a buffer with a slot takes its bytes, which are unwritten unless it is an input."""
        if buffer not in self.homes:  # a constant of the kernel itself
            super().begin(buffer, shape, contents)
            return
        slot, region = self.homes[buffer]
        if size_in_bytes(shape, buffer.dtype) != slot.type.nbytes:
            raise Invalid(f"slot {slot.name} is {slot.type}, which does not fit {buffer!r}", label="machine.C5")
        self.shapes[buffer] = shape
        if buffer not in self.inputs:
            region.forget(slot)

    def end(self, buffer: Buffer) -> None:
        """As the base's; the bytes of a slot keep their contents and owners."""
        if buffer not in self.homes:
            super().end(buffer)
        else:
            del self.shapes[buffer]

    def shape(self, buffer: Buffer) -> tuple[int, ...]:
        """As the base's, from the shape with which a slot's buffer began."""
        return self.shapes[buffer] if buffer in self.shapes else super().shape(buffer)

    def address(self, buffer: Buffer) -> int:
        """The byte of its region at which the buffer's slot begins."""
        if buffer not in self.homes:
            return super().address(buffer)
        slot, region = self.homes[buffer]
        return int(region.span(slot).start)

    def is_constant(self, buffer: Buffer) -> bool:
        """As the base's; of the buffers with slots, the inputs are read-only."""
        return buffer in self.inputs if buffer in self.homes else super().is_constant(buffer)

    def is_written(self, buffer: Buffer, index: Sequence[Any]) -> bool:
        """Whether all bytes of the element at `index` belong to the buffer's slot."""
        if buffer not in self.homes:
            return super().is_written(buffer, index)
        _, place = self.locate(buffer, index)
        slot, region = self.homes[buffer]
        return bool((region.owners(slot)[place] == region.slots.numbers[slot.name]).all())

    def locate(self, buffer: Buffer, index: Sequence[Any]) -> tuple[tuple[int, ...], slice]:
        """The index of an element as numbers, and its bytes within its slot."""
        if buffer not in self.shapes:
            self.cell(buffer)
        at = check_bounds(buffer, self.shapes[buffer], index)
        if self.across is not None:
            self.across.check_element(buffer, at)
        place = int(np.ravel_multi_index(at, self.shapes[buffer])) if at else 0
        size = buffer.dtype.itemsize
        return at, slice(place * size, place * size + size)

    def load(self, buffer: Buffer, index: Sequence[Any]) -> Any:
        """As the base's; traps where a byte of the element belongs to another slot or to none."""
        if buffer not in self.homes:
            return super().load(buffer, index)
        at, place = self.locate(buffer, index)
        slot, region = self.homes[buffer]
        wrong = region.owners(slot)[place] != region.slots.numbers[slot.name]
        if wrong.any():
            raise region.trap(slot, place.start + int(np.argmax(wrong)), f"read as {element(buffer, at)}")
        return region.bytes(slot)[place].view(buffer.dtype.numpy)[0]

    def store(self, buffer: Buffer, index: Sequence[Any], value: Any) -> None:
        """As the base's; makes the buffer's slot the owner of the element's bytes."""
        if buffer not in self.homes:
            super().store(buffer, index, value)
            return
        at, place = self.locate(buffer, index)
        if buffer in self.inputs:
            raise read_only(buffer, at)
        slot, region = self.homes[buffer]
        region.data[region.span(slot)][place].view(buffer.dtype.numpy)[0] = value
        region.owners(slot)[place] = region.slots.numbers[slot.name]

    def is_byte_written(self, buffer: Buffer, index: Sequence[Any], byte: int) -> bool:
        """Whether this one byte of the element belongs to the buffer's slot."""
        if buffer not in self.homes:
            return super().is_byte_written(buffer, index, byte)
        _, place = self.locate(buffer, index)
        slot, region = self.homes[buffer]
        return bool(region.owners(slot)[place.start + byte] == region.slots.numbers[slot.name])

    def load_byte(self, buffer: Buffer, index: Sequence[Any], byte: int) -> int:
        """As the base's; traps where the byte belongs to another slot or to none."""
        if buffer not in self.homes:
            return super().load_byte(buffer, index, byte)
        at, place = self.locate(buffer, index)
        slot, region = self.homes[buffer]
        if not self.is_byte_written(buffer, at, byte):
            raise region.trap(slot, place.start + byte, f"read as byte {byte} of {element(buffer, at)}")
        return to_bytes(region.bytes(slot)[place].view(buffer.dtype.numpy)[0])[byte]

    def store_byte(self, buffer: Buffer, index: Sequence[Any], byte: int, value: int) -> None:
        """As the base's; makes the buffer's slot the owner of this one byte."""
        if buffer not in self.homes:
            super().store_byte(buffer, index, byte, value)
            return
        at, place = self.locate(buffer, index)
        if buffer in self.inputs:
            raise read_only(buffer, at)
        slot, region = self.homes[buffer]
        memory = region.data[region.span(slot)][place].view(buffer.dtype.numpy)
        memory[0] = with_byte(memory[0], byte, value, buffer, at)
        region.owners(slot)[place.start + byte] = region.slots.numbers[slot.name]

    def result(self, buffer: Buffer) -> Array:
        """An output's slot, in the buffer's shape; traps where it is kept and a byte of it is another's or none's."""
        slot, region = self.homes[buffer]
        if buffer in self.kept:
            region.check(slot, "an output")
        return region.view(slot).reshape(self.shapes[buffer])
