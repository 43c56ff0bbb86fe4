"""Sizes that a run of a planned program measures (specs/interp.md, "Machine")."""

from __future__ import annotations

from collections.abc import Sequence

from assay.interp.shadow import Slots
from assay.semantics.errors import Invalid, Trap
from assay.semantics.instance import item_with, measured_of, replaced
from assay.semantics.module import Item, Measure, Program
from assay.semantics.scalar import Dim, Var, show, variables
from assay.semantics.types import TensorType


class MeasuredSizes:
    """The sizes that were measured so far; the slots get their types anew whenever that happens."""

    def __init__(self, program: Program, slots: Slots) -> None:
        self.steps, self.slots = program.steps, slots
        self.limits = program.bounds
        self.values: dict[Var, Dim] = {}
        self.users: dict[Var, list[tuple[str, TensorType]]] = {v: [] for v in measured_of(program)}
        """By symbol the slots whose types are over it, and these types."""
        for s in program.slots.values() if self.users else ():
            for v in {v for d in s.type.shape for v in variables(d) if v in self.users}:
                self.users[v].append((s.name, s.type))

    def item(self, number: int) -> Item:
        """An item of the program in numbers, as far as its sizes are known."""
        return item_with(self.steps[number], self.size) if self.users else self.steps[number]

    def size(self, dim: Dim) -> Dim:
        """A dim, with the sizes that were measured."""
        return replaced(dim, self.values)

    def take(self, step: Measure, found: Sequence[Dim]) -> None:
        """Sizes get their values. Traps where one is negative, or greater than there is room for; and where by them a
        slot has a negative dim, or takes more than the bytes that are kept for it. Invalid: one has no value here."""
        for v, n, most in zip(step.symbols, found, step.most, strict=True):
            if not isinstance(n, int):
                raise Invalid(f"the size {v.name} is to be {show(n)}, which has no value here", label="machine.C9")
            if n < 0:
                raise Trap("shape", f"the size {v.name} is {n}", label="size.T1")
            if v in self.limits and isinstance(most, int) and n > most:
                what = (
                    f"the size {v.name} is {n}, and the program has room for {most}; --bound {v.name}=0..N makes more"
                )
                raise Trap("memory", what, label="machine.T13")
            if not isinstance(most, int) or n > most:
                raise Trap("shape", f"the size {v.name} is {n}, and has to be {most} at most", label="match_cast.T1")
            self.values[v] = n
        for name, of in {name: of for v in step.symbols for name, of in self.users[v]}.items():
            self.set_type(name, TensorType(tuple(map(self.size, of.shape)), of.dtype))

    def set_type(self, name: str, of: TensorType) -> None:
        """A slot is of this type from now on."""
        slot = self.slots[name]
        if any(isinstance(d, int) and d < 0 for d in of.shape):
            raise Trap("shape", f"{name} is {of}, which has a negative dim", label="size.T1")
        if of.is_static and of.nbytes > slot.nbytes:
            what = f"slot {name} is {of}, of {of.nbytes} bytes, and {slot.nbytes} are kept for it"
            raise Trap("out of bounds", what, label="machine.T12")
        self.slots.retype(name, of)
