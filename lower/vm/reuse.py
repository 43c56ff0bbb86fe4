"""Storage that is used again: a tensor is put where one lay that nothing reads any more (specs/lower.md, "vm").

Only within a function, and only where the sizes surely fit: equal or less for all values of the sizes. What escapes,
into a tuple, a data value, a closure, a reference, a call or a result, keeps its storage for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from assay.lower.vm.kills import moved
from assay.semantics.bytecode import (
    AllocateStorage,
    AllocateTensor,
    BytecodeFunction,
    Instruction,
    InvokeKernel,
    JumpUnless,
    MatchType,
    PrintRegisters,
    ReadShape,
    Register,
    RequireTrue,
    ShapeOfTensor,
    ViewTensor,
    ends,
    reads,
    target,
)
from assay.semantics.integers.polynomials import Polynomials
from assay.semantics.integers.ranges import at_least
from assay.semantics.scalar import Dim, Interner, provably_equal

LOOKS = (AllocateTensor, InvokeKernel, JumpUnless, MatchType, PrintRegisters, ReadShape, RequireTrue, ShapeOfTensor)
"""The instructions that look at a tensor and keep nothing of it."""
TRIED = 32
"""How many free storages are looked at for one tensor."""


def with_reuse(function: BytecodeFunction) -> BytecodeFunction:
    """The function with fewer storages."""
    body = function.body
    plan = _Plan(_uses(body))
    there = _Reached(body)
    for number, i in enumerate(body):
        there.come(number)
        match i:
            case AllocateStorage():
                plan.made[i.to] = number, i
            case AllocateTensor():
                plan.place(number, i, there)
            case _:
                pass
        there.leave(number)
    places: list[int] = []
    text: list[Instruction] = []
    for number, i in enumerate(body):
        places.append(len(text))
        if number not in plan.gone:
            text.append(plan.changed.get(number, i))
    return replace(function, body=tuple(moved(text, places)))


@dataclass(eq=False)
class Room:
    """A storage, and the number of the last instruction that reads what lies in it."""

    made: AllocateStorage
    busy: int


class _Plan:
    """Which tensor is put into which storage."""

    def __init__(self, uses: dict[Register, tuple[int, bool]]) -> None:
        self.uses = uses
        self.made: dict[Register, tuple[int, AllocateStorage]] = {}
        self.rooms: list[Room] = []
        self.gone: set[int] = set()
        """The instructions that are not needed any more."""
        self.changed: dict[int, AllocateTensor] = {}
        self.sizes = _Sizes()

    def place(self, number: int, tensor: AllocateTensor, there: _Reached) -> None:
        """A tensor gets its own storage, or one that is free."""
        at, own = self.made[tensor.storage]
        last, escapes = self.uses[tensor.to]
        if escapes:
            return
        room = self.free(at, own, there)
        if room is None:
            there.storages.add(own.to)
            self.rooms.append(Room(own, last))
            return
        self.gone.add(at)
        self.changed[number] = replace(tensor, storage=room.made.to)
        room.busy = last

    def free(self, at: int, own: AllocateStorage, there: _Reached) -> Room | None:
        """A storage that can be used again: one of the same size, or the first that is large enough."""
        found = [r for r in self.rooms if r.busy < at and r.made.to in there.storages and _suits(own, r.made)]
        found = found[-TRIED:]
        same = next((r for r in found if self.sizes.same(own.nbytes, r.made.nbytes)), None)
        return same or next((r for r in found if self.sizes.less(own.nbytes, r.made.nbytes)), None)


def _suits(wanted: AllocateStorage, there: AllocateStorage) -> bool:
    return wanted.device == there.device and there.alignment % wanted.alignment == 0


@dataclass(eq=False)
class _Sizes:
    """Comparisons of sizes for all values of their symbols, none of which is negative."""

    number: Interner = field(default_factory=Interner)
    known: dict[tuple[str, int, int], bool] = field(default_factory=dict)

    def same(self, a: Dim, b: Dim) -> bool:
        """Whether two are surely equal."""
        if isinstance(a, int) and isinstance(b, int):
            return a == b
        key = "same", self.number(a), self.number(b)
        if key not in self.known:
            self.known[key] = key[1] == key[2] or provably_equal(a, b)
        return self.known[key]

    def less(self, a: Dim, b: Dim) -> bool:
        """Whether the first is surely no greater."""
        if isinstance(a, int) and isinstance(b, int):
            return a <= b
        key = "less", self.number(a), self.number(b)
        if key not in self.known:
            sizes = Polynomials({})
            self.known[key] = at_least(sizes.range(sizes.of(b - a)), 0)
        return self.known[key]


class _Reached:
    """The storages that are surely there, whichever way an instruction is reached. Jumps go forwards only."""

    def __init__(self, body: Sequence[Instruction]) -> None:
        self.body = body
        self.storages: set[Register] = set()
        self.at: dict[int, set[Register]] = {}

    def come(self, number: int) -> None:
        """An instruction is next."""
        if number in self.at:
            came = self.at.pop(number)
            self.storages = came if number and ends(self.body[number - 1]) else self.storages & came

    def leave(self, number: int) -> None:
        """It is done."""
        goes = target(self.body[number])
        if goes is not None:
            self.at[goes] = self.at[goes] & self.storages if goes in self.at else set(self.storages)


def _uses(body: Sequence[Instruction]) -> dict[Register, tuple[int, bool]]:
    """Of each tensor that is allocated: the last instruction that reads it or a view of it, and whether it escapes."""
    root: dict[Register, Register] = {}
    found: dict[Register, tuple[int, bool]] = {}
    for number, i in enumerate(body):
        for r in reads(i):
            if r in root:
                _, escapes = found[root[r]]
                found[root[r]] = number, escapes or not isinstance(i, (*LOOKS, ViewTensor))
        if isinstance(i, AllocateTensor):
            root[i.to] = i.to
            found[i.to] = number, False
        elif isinstance(i, ViewTensor) and i.of in root:
            root[i.to] = root[i.of]
    return found
