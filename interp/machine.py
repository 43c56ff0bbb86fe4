"""The machine that runs a planned program: byte-addressed memory with shadow state (rule M7; specs/interp.md, "Machine").

Every byte carries which logical slot wrote it last. Before a step every byte that it reads must be owned by the slot
that it reads; what it writes is owned by the slot that it writes; and what it read must still be owned when it has
written. So a wrong plan is caught on the run, whatever liveness, planner and prover agreed on. With
`execute="definition"` each single access of each kernel is checked in this way.

    run(module, {"x": x})          # {"y": ...}, or a Trap that names slot, byte, step and who overwrote it
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import Literal, TypeAlias

import numpy as np

from assay.interp import tensor, vector
from assay.interp.binding import Array
from assay.interp.shadow import Region, ShadowMemory, Slots
from assay.interp.windows import check_alignment
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Invalid, Trap, Unsupported
from assay.semantics.module import Branch, Module, Program, Slot, Step
from assay.semantics.tensor import Buffer, PrimFunc

Execute: TypeAlias = Callable[..., Sequence[Array]] | Literal["definition"]
Observe: TypeAlias = Callable[[int, Step, dict[str, Array]], None]
GARBAGE = 1 << 16
"""Bytes of garbage, repeated through all memory that is not written yet."""


def run(
    module: Module,
    inputs: Mapping[str, Array],
    *,
    execute: Execute = vector.run,
    seed: int = 0,
    observe: Observe | None = None,
) -> dict[str, Array]:
    """The outputs of the module's planned program by name, on inputs by name.

    `execute(func, inputs, outputs=..., scratch=...)` runs a kernel on views of the machine's memory; "definition" runs
    it one element at a time, every access checked. Memory holds garbage from `seed` before it is written. After each
    step `observe` is told its number, the step, and the arrays that it read and wrote by slot name; they are views,
    good until it returns. Invalid: inputs or slots that do not fit, or no offsets. Trap: "unwritten read", "clobbered",
    "use outside lifetime", "misaligned", "out of bounds", and what kernels trap on.
    """
    program = module.program
    machine = _Machine(module, program, inputs, seed)
    for number, step in enumerate(program.steps):
        try:
            if isinstance(step, Branch):
                raise Unsupported("the machine runs no branches yet", where=step.span, label="machine.C6")
            arrays = machine.step(number, step, execute)
        except Trap as trap:
            where = step.span or trap.where
            at = f"step {number} ({step.kernel})" if isinstance(step, Step) else f"step {number}"
            raise Trap(trap.kind, f"{at}: {trap.message}", where=where, label=trap.label) from None
        if observe is not None:
            observe(number, step, arrays)
    return machine.outputs()


class _Machine:
    """Memory during a run of a program."""

    def __init__(self, module: Module, program: Program, inputs: Mapping[str, Array], seed: int) -> None:
        self.module = module
        self.program = program
        self.slots = Slots(program)
        garbage = np.random.default_rng(seed).integers(0, 256, GARBAGE, dtype=np.uint8)
        self.pool = Region.make("pool", _size(program, "workspace"), self.slots, garbage)
        self.table = Region.make("constant table", _size(program, "constant"), self.slots, None)
        self.own = {
            s.name: Region.make(f"memory of {s.name}", s.nbytes, self.slots, garbage if s.place == "output" else None)
            for s in program.slots.values()
            if s.place in ("input", "output")
        }
        self.take_constants()
        self.take_inputs(inputs)

    def take_constants(self) -> None:
        """Lay out the table. Traps where two constants share a byte."""
        placed = self.program.placed("constant")
        for slot in placed:
            self.check_place(slot)
            contents = self.module.constants.get(slot.name)
            if contents is None:
                raise Invalid(f"the module has no constant {slot.name}", label="machine.C1")
            self.fill(slot, contents, "constant")
        self.table.data.flags.writeable = False
        by_place = sorted((s for s in placed if s.nbytes), key=lambda s: s.offset or 0)
        for a, b in pairwise(by_place):
            if (a.offset or 0) + a.nbytes > (b.offset or 0):
                raise Trap(
                    "clobbered", f"constants {a.name} and {b.name} share byte {b.offset} of the table", label="machine.T8"
                )

    def take_inputs(self, inputs: Mapping[str, Array]) -> None:
        names = self.program.inputs
        for name in inputs:
            if name not in names:
                raise Invalid(f"unknown input {name!r}; the inputs are {', '.join(names) or 'none'}", label="input.C1")
        for name in names:
            if name not in inputs:
                raise Invalid(f"missing input {name!r}: {self.slots[name].type}", label="input.C2")
            self.fill(self.slots[name], np.asarray(inputs[name]), "input")
            self.own[name].data.flags.writeable = False

    def region(self, slot: Slot) -> Region:
        """The memory in which a slot lies."""
        match slot.place:
            case "constant":
                return self.table
            case "workspace":
                return self.pool
            case "input" | "output":
                return self.own[slot.name]

    def fill(self, slot: Slot, contents: Array, what: str) -> None:
        """Contents that are there before the first step."""
        if dtype(contents.dtype) is not slot.type.dtype or tuple(contents.shape) != slot.type.static_shape:
            got = f"Tensor({tuple(contents.shape)}, {contents.dtype})"
            raise Invalid(f"{what} {slot.name!r} is {got}, expected {slot.type}", label="input.C3")
        np.copyto(self.region(slot).view(slot), contents)

    def check_place(self, slot: Slot) -> None:
        """Traps where a slot lies outside of its memory or is not aligned as it asks."""
        region = self.region(slot)
        if slot.offset is None:
            raise Invalid(f"slot {slot.name} has no offset: the program is not planned", label="machine.C2")
        first, last = slot.offset, slot.offset + slot.nbytes
        if first < 0 or last > len(region.data):
            raise Trap(
                "out of bounds",
                f"slot {slot.name} is bytes [{first}, {last}) of the {region.name}, which has {len(region.data)}",
                label="machine.T4",
            )
        if first % slot.alignment or first % slot.type.dtype.itemsize:
            raise Trap(
                "misaligned",
                f"slot {slot.name} at byte {first} of the {region.name} is not aligned to {slot.alignment} bytes",
                label="machine.T5",
            )

    def step(self, number: int, step: Step, execute: Execute) -> dict[str, Array]:
        """Run one step; the arrays that it read and wrote, by name."""
        func = self.module.kernel(step.kernel)
        _check_step(func, step)
        reads, writes, scratch = ([self.slots[n] for n in names] for names in (step.reads, step.writes, step.scratch))
        for slot in (*reads, *writes, *scratch):
            self.check_use(slot, number)
        for slot in (*writes, *scratch):
            if slot.place in ("constant", "input"):
                raise Trap(
                    "store to constant",
                    f"slot {slot.name} is written, but it is the program's {slot.place}",
                    label="machine.T6",
                )
        for slot in reads:
            if slot.name in (*step.writes, *step.scratch):
                raise Trap("clobbered", f"slot {slot.name} is read and written by the same step", label="machine.T7")
            self.region(slot).check(slot, "read")
        pairs = list(zip((*func.params, *func.allocations), (*reads, *writes, *scratch), strict=True))
        arrays = [self.array(slot, buffer) for buffer, slot in pairs]
        taken, made, own = arrays[: len(reads)], arrays[len(reads) : len(func.params)], arrays[len(func.params) :]
        for array in taken:
            array.flags.writeable = False
        if execute == "definition":
            tensor.run(func, taken, memory=ShadowMemory(func, {b: (s, self.region(s)) for b, s in pairs}))
        else:
            # the kernel may write any of these bytes at any time
            for slot in (*scratch, *writes):
                self.region(slot).write(slot)
            self.still_owned(reads, (*writes, *scratch))
            for slot in scratch:
                self.region(slot).spoil(slot)
            execute(func, taken, outputs=made, scratch=own)
        self.still_owned(reads, writes)
        return {s.name: self.region(s).view(s) for s in (*reads, *writes)}

    def check_use(self, slot: Slot, number: int) -> None:
        """Traps where a slot is used in a step outside of its life, or lies where it must not."""
        if slot.place != "constant" and not slot.start <= number < slot.stop:
            raise Trap(
                "use outside lifetime",
                f"slot {slot.name} is used here, but lives from step {slot.start} until before step {slot.stop}",
                label="machine.T3",
            )
        if slot.place == "workspace":
            self.check_place(slot)

    def array(self, slot: Slot, buffer: Buffer) -> Array:
        """The slot as the kernel sees it: its bytes under the shape of the parameter. A view in the graph is no code."""
        if slot.place in ("workspace", "constant"):
            check_alignment(buffer, self.region(slot).span(slot).start)
        flat = self.region(slot).view(slot).reshape(-1)
        shape = tuple(d for d in buffer.shape if isinstance(d, int))
        if len(shape) != len(buffer.shape):
            shape = slot.type.static_shape
        if buffer.dtype is not slot.type.dtype or prod(shape) != flat.size:
            raise Invalid(f"slot {slot.name} is {slot.type}, which does not fit {buffer!r}", label="machine.C5")
        return flat.reshape(shape)

    def still_owned(self, reads: Sequence[Slot], writes: Sequence[Slot]) -> None:
        """What a step reads must not be written by the same step, and what it writes not by two of its slots."""
        for slot in reads:
            self.region(slot).check(slot, "read while the step writes")
        for slot in writes:
            self.region(slot).check(slot, "written")

    def outputs(self) -> dict[str, Array]:
        """The program's outputs; traps where a byte of one was never written or was overwritten."""
        found = {}
        for name in self.program.outputs:
            slot = self.slots[name]
            try:
                self.region(slot).check(slot, "returned")
            except Trap as trap:
                kind = "unwritten output" if trap.kind == "unwritten read" else trap.kind
                raise Trap(kind, f"at the end: {trap.message}", label=trap.label) from None
            found[name] = self.region(slot).view(slot).copy()
        return found


def _size(program: Program, place: str) -> int:
    """Bytes of the pool or of the constant table."""
    if place == "workspace" and program.sizes:
        return program.workspace_bytes
    return max((s.offset + s.nbytes for s in program.placed(place) if s.offset is not None), default=0)


def _check_step(func: PrimFunc, step: Step) -> None:
    """Invalid unless the step has a slot for each parameter and each allocation of its kernel."""
    counts = (
        ("inputs", len(func.inputs), len(step.reads)),
        ("outputs", func.num_outputs, len(step.writes)),
        ("allocations", len(func.allocations), len(step.scratch)),
    )
    for what, expected, given in counts:
        if expected != given:
            raise Invalid(f"{step.kernel} has {expected} {what}, the step {given} slots for them", label="machine.C3")
