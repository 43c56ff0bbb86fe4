"""The machine that runs a planned program: byte-addressed memory with shadow state (rule M7; specs/interp.md, "Machine").

Every byte carries which logical slot wrote it last. Before a step every byte that it reads must be owned by the slot
that it reads; what it writes is owned by the slot that it writes; and what it read must still be owned when it has
written. So a wrong plan is caught on the run, whatever liveness, planner and prover agreed on. With
`execute="definition"` each single access of each kernel is checked in this way.

    run(module, {"x": x})          # {"y": ...}, or a Trap that names slot, byte, step and who overwrote it
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Literal, TypeAlias

import numpy as np

from assay.interp import tensor, vector
from assay.interp.binding import Array
from assay.interp.shadow import Region, ShadowMemory, Slots
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Invalid, Trap
from assay.semantics.module import Module, Program, Slot, Step
from assay.semantics.tensor import Buffer, PrimFunc

Execute: TypeAlias = Callable[..., Sequence[Array]] | Literal["definition"]
Observe: TypeAlias = Callable[[int, Step, dict[str, Array]], None]


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
            arrays = machine.step(number, step, execute)
        except Trap as trap:
            where = step.span or trap.where
            at = f"step {number} ({step.kernel})"
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
        garbage = np.random.default_rng(seed)
        self.pool = Region.garbage("pool", _size(program, "workspace"), self.slots, garbage)
        self.table = Region.garbage("constants table", _size(program, "constant"), self.slots, garbage)
        self.own: dict[str, Region] = {}
        for slot in program.slots.values():
            match slot.place:
                case "input" | "output":
                    self.own[slot.name] = Region.garbage(f"memory of {slot.name}", slot.nbytes, self.slots, garbage)
                case "constant":
                    self.check_place(slot)
                    self.fill(slot, module.constants.get(slot.name), "constant")
                case "workspace":
                    if slot.offset is None:
                        raise Invalid(f"slot {slot.name} has no offset: the program is not planned", label="machine.C2")
        self.take_inputs(inputs)
        self.table.data.flags.writeable = False

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

    def fill(self, slot: Slot, contents: Array | None, what: str) -> None:
        """Contents that are there before the first step."""
        if contents is None:
            raise Invalid(f"the module has no constant {slot.name}", label="machine.C1")
        if dtype(contents.dtype) is not slot.type.dtype or tuple(contents.shape) != slot.type.static_shape:
            got = f"Tensor({tuple(contents.shape)}, {contents.dtype})"
            raise Invalid(f"{what} {slot.name!r} is {got}, expected {slot.type}", label="input.C3")
        region = self.region(slot)
        np.copyto(region.view(slot), contents)
        region.write(slot)

    def check_place(self, slot: Slot) -> None:
        """Traps where a slot lies outside of its memory or is not aligned as it asks."""
        region = self.region(slot)
        if slot.offset is None:
            raise Invalid(f"slot {slot.name} has no offset: the program is not planned", label="machine.C2")
        first, last = slot.offset, slot.offset + slot.nbytes
        if first < 0 or last > len(region.data):
            what = f"slot {slot.name} is bytes [{first}, {last}) of the {region.name}, which has {len(region.data)}"
            raise Trap("out of bounds", what, label="machine.T4")
        if first % slot.alignment or first % slot.type.dtype.itemsize:
            what = f"slot {slot.name} at byte {first} of the {region.name} is not aligned to {slot.alignment}"
            raise Trap("misaligned", what, label="machine.T5")

    def step(self, number: int, step: Step, execute: Execute) -> dict[str, Array]:
        """Run one step; the arrays that it read and wrote, by name."""
        func = self.module.kernel(step.kernel)
        reads, writes, scratch = (
            [self.slots[n] for n in names] for names in (step.reads, step.writes, step.scratch)
        )
        _check_step(func, step)
        for slot in (*reads, *writes, *scratch):
            if slot.place != "constant" and not slot.start <= number < slot.stop:
                what = f"slot {slot.name} is used here, but lives from step {slot.start} up to {slot.stop}"
                raise Trap("use outside lifetime", what, label="machine.T3")
            if slot.place in ("workspace", "constant"):
                self.check_place(slot)
        for slot in writes + scratch:
            if slot.place in ("constant", "input"):
                what = f"slot {slot.name} is the program's {slot.place}, and written"
                raise Trap("store to constant", what, label="machine.T6")
        for slot in reads:
            self.region(slot).check(slot, "read")
        arrays = {s.name: self.region(s).view(s) for s in (*reads, *writes)}
        for slot in reads:
            arrays[slot.name].flags.writeable = False
        shaped = {b: _shaped(arrays[s.name], b, s) for b, s in zip(func.params, (*reads, *writes), strict=True)}
        if execute == "definition":
            memory = ShadowMemory(func, [(s, self.region(s)) for s in (*reads, *writes)],
                                  [(s, self.region(s)) for s in scratch])  # fmt: skip
            tensor.run(func, [shaped[b] for b in func.inputs], memory=memory)
        else:
            # the kernel may write any of these bytes at any time
            for slot in scratch + writes:
                self.region(slot).write(slot)
            self.still_owned(reads, writes + scratch)
            for slot in scratch:
                self.region(slot).spoil(slot)
            execute(
                func,
                [shaped[b] for b in func.inputs],
                outputs=[shaped[b] for b in func.outputs],
                scratch=[self.region(s).view(s) for s in scratch],
            )
        self.still_owned(reads, writes)
        return arrays

    def still_owned(self, reads: Sequence[Slot], writes: Sequence[Slot]) -> None:
        """What a step reads must not be written by the same step, and what it writes not by two of its slots."""
        for slot in reads:
            if any(slot.name == w.name for w in writes):
                what = f"slot {slot.name} is read and written by the same step"
                raise Trap("clobbered", what, label="machine.T2")
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
    """Bytes of the pool or of the constants table."""
    if place == "workspace" and program.workspace_bytes is not None:
        return program.workspace_bytes
    return max((s.offset + s.nbytes for s in program.placed(place) if s.offset is not None), default=0)


def _shaped(array: Array, buffer: Buffer, slot: Slot) -> Array:
    """A slot's bytes under the shape that the kernel gives them: a view in the graph is nothing here."""
    if prod(buffer.static_shape) != array.size or dtype(array.dtype) is not buffer.dtype:
        raise Invalid(f"slot {slot.name} is {slot.type} where the kernel takes {buffer!r}", label="machine.C4")
    return array.reshape(buffer.static_shape)


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
