"""The machine that runs a planned program: byte-addressed memory with shadow state (rule M7; specs/interp.md,
"Machine").

Every byte carries which logical slot wrote it last. Before a step every byte that it reads must be owned by the slot
that it reads; what it writes is owned by the slot that it writes; and what it reads must still be owned while it
writes, but for phases at which it is done with it. So a wrong plan is caught on the run, whatever liveness, planner and
prover agreed on. With `execute="definition"` each single access of each kernel is checked in this way.

    run(module, {"x": x})          # {"y": ...}, or a Trap that names slot, byte, step and who overwrote it
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from math import prod
from typing import Literal, TypeAlias

import numpy as np

from assay.interp import tensor, vector
from assay.interp.binding import Array, check_names, hidden_symbols
from assay.interp.device_access import Across, check_host
from assay.interp.measured_sizes import MeasuredSizes
from assay.interp.shadow import ShadowMemory, ShadowRegion, Slots
from assay.interp.values import render
from assay.interp.windows import check_alignment
from assay.semantics.devices import VirtualDevice
from assay.semantics.dtypes import BOOL, INT64, dtype
from assay.semantics.errors import Invalid, Trap
from assay.semantics.instance import at, input_types, is_symbolic, shape_in, sizes_of
from assay.semantics.live_positions import Intervals
from assay.semantics.memory import Pool, overlap
from assay.semantics.module import Module, Program, Slot
from assay.semantics.scalar import Dim
from assay.semantics.steps import Assertion, Branch, Loop, Measure, PrintValues, Require, Step, title, walk
from assay.semantics.tensor import Buffer, PrimFunc
from assay.semantics.tensor.phases import phases

Execute: TypeAlias = Callable[..., Sequence[Array]] | Literal["definition"]
Observe: TypeAlias = Callable[[int, Step | PrintValues, dict[str, Array]], None]
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

    `execute(func, inputs, outputs=..., scratch=...)`, with `scalars=...` where it has any, runs a kernel on views of
    the machine's memory; "definition" runs it one element at a time, every access checked. Memory holds garbage from
    `seed` before it is written. After each step `observe` is told its number, the step, and the arrays that it read and
    wrote by slot name; they are views, good until it returns. Of all else only prints are observed, with what they
    show. A program with symbols runs at the sizes that the inputs have. Invalid: inputs or slots that do not fit, sizes
    outside of the program's limits, or no offsets. Trap: "unwritten read", "clobbered", "use outside lifetime",
    "misaligned", "out of bounds", "wrong device", and what kernels and the program's own assertions trap on.
    """
    program = module.program
    check_names({name: program.slots[name].type for name in program.inputs}, inputs)
    if is_symbolic(program):
        program = at(program, sizes_of(input_types(program), {name: np.shape(inputs[name]) for name in program.inputs}))
    machine = _Machine(module, program, inputs, seed)
    machine.run(execute, observe)
    return machine.outputs()


class _Machine:
    """Memory during a run of a program."""

    def __init__(self, module: Module, program: Program, inputs: Mapping[str, Array], seed: int) -> None:
        self.module = module.resolved()
        self.program = program
        self.slots = Slots.of(program)
        self.positions = program.positions
        self.open: dict[PrimFunc, PrimFunc] = {}
        self.sizes = MeasuredSizes(program, self.slots)
        garbage = np.random.default_rng(seed).integers(0, 256, GARBAGE, dtype=np.uint8)
        self.pools = {p.name: self.pool(p, garbage) for p in program.pools}
        self.across = Across(program)
        self.tables = self.make_tables()
        self.own = {
            s.name: ShadowRegion.make(
                f"memory of {s.name}", s.nbytes, self.slots, garbage if s.place == "output" else None
            )
            for s in program.slots.values()
            if s.place in ("input", "output") and not s.is_pooled
        }
        self.take_constants()
        self.take_inputs(inputs)

    def pool(self, pool: Pool, garbage: Array) -> ShadowRegion:
        """The memory of a pool; traps where it is larger than it may be."""
        program = self.program
        inside = [s for s in program.pooled if program.pool_of(s) is pool]
        size = program.sizes.get(pool.name, 0) if program.sizes else _end(inside)
        name = "pool" if len(program.pools) == 1 else f"pool {pool.name}"
        if pool.limit is not None and size > pool.limit:
            raise Trap("out of bounds", f"the {name} has {size} bytes, its limit is {pool.limit}", label="machine.T9")
        if pool.kind == "constant":
            return ShadowRegion.of_constants(name, size, self.slots, pool.alignment)
        return ShadowRegion.make(name, size, self.slots, garbage, pool.alignment)

    def make_tables(self) -> dict[VirtualDevice, ShadowRegion]:
        """The constant table, in each memory in which there are constants."""
        inside: dict[VirtualDevice, list[Slot]] = {}
        for s in self.program.placed("constant"):
            if not s.is_pooled:
                inside.setdefault(s.device, []).append(s)
        return {
            device: ShadowRegion.of_constants(
                "constant table" + (f" on {device}" if len(inside) > 1 else ""), _end(some), self.slots
            )
            for device, some in inside.items()
        }

    def run(self, execute: Execute, observe: Observe | None) -> None:
        """Run the steps on the path that the conditions choose."""
        for number in walk(self.program.steps, self.choose):
            step = self.sizes.item(number)
            with self.located(number):
                match step:
                    case Step():
                        arrays = self.step(number, step, execute)
                    case Assertion():
                        _assert(step)
                    case Measure():
                        self.measure(number, step)
                    case Require():
                        self.require(number, step)
                    case PrintValues():
                        arrays = self.shown(number, step)
                    case Loop():
                        self.forget(number, step)
            if observe is not None and isinstance(step, Step | PrintValues):
                observe(number, step, arrays)

    @contextmanager
    def located(self, number: int) -> Iterator[None]:
        """A trap inside says at which step it is."""
        try:
            yield
        except Trap as trap:
            where = self.program.steps[number].span or trap.where
            raise trap.but(what=f"{self.at(number)}: {trap.what}", where=where) from None

    def measure(self, number: int, step: Measure) -> None:
        """Sizes get their values: what a slot holds, or dims."""
        if not step.slot:
            return self.sizes.take(step, step.values)
        slot = self.slots[step.slot]
        if slot.type.dtype is not INT64 or prod(slot.type.static_shape) != len(step.symbols):
            what = f"slot {slot.name} is {slot.type}, and {len(step.symbols)} sizes are measured by it"
            raise Invalid(what, label="machine.C9")
        self.sizes.take(step, self.looked_at(slot, number, "sizes").reshape(-1).tolist())

    def require(self, number: int, step: Require) -> None:
        """Traps where a condition does not hold, with what is shown."""
        if not self.condition(number, step.condition):
            shown = self.shown(number, step)
            message = render(step.format, [shown[n] for n in step.shown]) or "the condition does not hold"
            raise Trap("assertion", message, label="assert_op.T1")

    def shown(self, number: int, step: Require | PrintValues) -> dict[str, Array]:
        """What is shown, as it is now, by slot."""
        return {n: self.looked_at(self.slots[n], number, "a value that is shown").copy() for n in step.shown}

    def condition(self, number: int, name: str) -> bool:
        """What a slot of one boolean holds."""
        slot = self.slots[name]
        if slot.type.dtype is not BOOL or slot.type.static_shape:
            raise Invalid(f"slot {slot.name} is {slot.type}, a condition is one boolean", label="machine.C6")
        return bool(self.looked_at(slot, number, "a condition"))

    def looked_at(self, slot: Slot, number: int, what: str) -> Array:
        """What a slot holds, for the program itself to go by."""
        check_host(self.program.host, slot)
        self.check_use(slot, number, ((0, 1),))
        self.region(slot).check(slot, f"read as {what}")
        return self.region(slot).view(slot)

    def forget(self, number: int, loop: Loop) -> None:
        """An iteration begins: what the one before has left is only there where the slot is live here."""
        steps = self.program.steps[number + 1 : loop.end]
        for name in {name for s in steps for name in (*s.writes, *s.scratch)}:
            slot = self.slots[name]
            if slot.place == "workspace" and not slot.is_live(self.positions[number]):
                self.region(slot).forget(slot)

    def at(self, number: int) -> str:
        """A step for messages; its position too where that is another number."""
        step = self.program.steps[number]
        first = self.positions[number]
        return f"step {number} ({title(step)})" + (f", position {first}" if first != number or step.phases > 1 else "")

    def take_constants(self) -> None:
        """Lay out the tables. Traps where two constants share a byte (rule M7.4)."""
        placed = self.program.placed("constant")
        for slot in placed:
            self.check_place(slot)
            contents = self.module.constants.get(slot.name)
            if contents is None:
                raise Invalid(f"the module has no constant {slot.name}", label="machine.C1")
            self.fill(slot, contents, "constant")
        by_place = sorted((s for s in placed if s.nbytes), key=lambda s: (id(self.region(s)), s.offset or 0))
        for a, b in pairwise(by_place):
            if self.region(a) is self.region(b) and (a.offset or 0) + a.nbytes > (b.offset or 0):
                what = f"constants {a.name} and {b.name} share byte {b.offset} of the {self.region(a).name}"
                raise Trap("clobbered", what, label="machine.T8")

    def take_inputs(self, inputs: Mapping[str, Array]) -> None:
        for name in self.program.inputs:
            slot = self.slots[name]
            if slot.is_pooled:
                self.check_place(slot)
            self.fill(slot, np.asarray(inputs[name]), "input")
            if not slot.is_pooled:
                self.own[name].data.flags.writeable = False

    def region(self, slot: Slot) -> ShadowRegion:
        """The memory in which a slot lies."""
        if slot.is_pooled:
            return self.pools[self.program.pool_of(slot).name]
        return self.tables[slot.device] if slot.place == "constant" else self.own[slot.name]

    def fill(self, slot: Slot, contents: Array, what: str) -> None:
        """Contents that are there before the first step."""
        if dtype(contents.dtype) is not slot.type.dtype or tuple(contents.shape) != slot.type.static_shape:
            got = f"Tensor({tuple(contents.shape)}, {contents.dtype})"
            raise Invalid(f"{what} {slot.name!r} is {got}, expected {slot.type}", label="input.C3")
        region = self.region(slot)
        if region.held is not None:
            region.hold(slot, contents)
            return
        np.copyto(region.view(slot), contents)
        if region.owner is not None:
            region.write(slot)

    def check_place(self, slot: Slot) -> None:
        """Traps where a slot lies outside of its memory or is not aligned as it asks (rule M7.3)."""
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
        if region.alignment % slot.alignment:
            raise Trap(
                "misaligned",
                f"slot {slot.name} asks for {slot.alignment} bytes, the {region.name} is aligned to {region.alignment}"
                " only",
                label="machine.T5",
            )

    def choose(self, number: int, branch: Branch) -> bool:
        """Which arm of a branch runs: its condition, read."""
        with self.located(number):
            return self.condition(number, branch.condition)

    def step(self, number: int, step: Step, execute: Execute) -> dict[str, Array]:
        """Run one step; the arrays that it read, as they were, and wrote, as it wrote them, by name."""
        func = self.module.kernel(step.kernel)
        _check_step(func, step)
        reads, writes, scratch = ([self.slots[n] for n in names] for names in (step.reads, step.writes, step.scratch))
        for slot in (*writes, *scratch):
            self.check_writable(slot)
        for slot in reads:
            if slot.name in (*step.writes, *step.scratch):
                raise Trap("clobbered", f"slot {slot.name} is read and written by the same step", label="machine.T7")
        pairs = list(zip((*func.params, *func.allocations), (*reads, *writes, *scratch), strict=True))
        across = self.across.of_step(step, func, pairs)
        if execute != "definition":
            across.check()
        uses = _uses(func, step)
        for buffer, slot in pairs:
            self.check_use(slot, number, uses(buffer).live)
        for slot in reads:
            self.region(slot).check(slot, "read")
        arrays = [self.array(slot, buffer, shape_in(step, func, buffer)) for buffer, slot in pairs]
        over = self.in_place(step)
        # where operands share bytes, a kernel that runs as a whole gets memory of its own
        apart = (step.phases > 1 or bool(over)) and self.share([slot for _, slot in pairs])
        taken, made, own = arrays[: len(reads)], arrays[len(reads) : len(func.params)], arrays[len(func.params) :]
        if apart:
            taken = [a.copy() for a in taken]
        for array in taken:
            array.flags.writeable = False
        func, scalars = self.opened(func, step)
        if execute == "definition":
            homes = {b: (s, self.region(s)) for b, s in pairs}
            kept = {b for b, s in pairs if s.is_live(self.positions[number + 1] - 1)}
            tensor.run(func, arrays[: len(reads)], scalars=scalars, memory=ShadowMemory(func, homes, kept, across))
            across.check()
        else:
            order = (*pairs[: len(reads)], *pairs[len(func.params) :], *pairs[len(reads) : len(func.params)])
            self.claim(number, [(slot, uses(buffer)) for buffer, slot in order], len(reads), over)
            for slot in scratch:
                self.region(slot).spoil(slot)
            call = partial(execute, scalars=scalars) if scalars else execute
            if apart:
                made = [a.copy() for a in made]
                call(func, taken, outputs=made, scratch=[a.copy() for a in own])
                for slot, result in zip(writes, made, strict=True):
                    self.region(slot).fill(slot, result)
            else:
                call(func, taken, outputs=made, scratch=own)
        if step.phases == 1:
            self.still_owned([s for s in reads if s.name not in over], writes)
        return {s.name: a.reshape(s.type.static_shape) for s, a in zip((*reads, *writes), (*taken, *made), strict=True)}

    def opened(self, func: PrimFunc, step: Step) -> tuple[PrimFunc, Sequence[Dim]]:
        """The tensor function and its scalars; sizes that only its outputs have are among them."""
        hidden = hidden_symbols(func) if step.dims else ()
        if not hidden:
            return func, step.scalars
        sizes = dict(step.dims)
        found = self.open.setdefault(func, replace(func, scalars=(*func.scalars, *hidden)))
        return found, (*step.scalars, *(sizes[s] for s in hidden))

    def in_place(self, step: Step) -> dict[str, str]:
        """The slots that a step reads whose bytes one that it writes takes, by permission; and which one that is.

        The kernel has read what it needs of an element when it writes there: `assay.verify` proves it, and so does the
        run of the definition.
        """
        found = {}
        for k, j in step.in_place:
            made, read = self.slots[step.writes[k]], self.slots[step.reads[j]]
            if self.region(made) is self.region(read) and self.region(made).span(made) == self.region(read).span(read):
                found[read.name] = made.name
        return found

    def claim(self, number: int, uses: Sequence[tuple[Slot, StepUse]], reads: int, over: Mapping[str, str]) -> None:
        """What is written takes its bytes; no two slots that share one, of which one is written, are in use at one
        phase.

        The kernel may write any byte of what it writes at any time in a phase. The first `reads` slots are read only;
        its own memory comes next, for what it writes is there when that is gone. Those in `over` lose their bytes, by
        permission, where the slot that takes them begins.
        """
        begins = {slot.name: use.live[0][0] for slot, use in uses[reads:] if use.live}
        lives = [
            (
                [(i, min(j, begins[over[s.name]])) for i, j in use.live if i < begins[over[s.name]]]
                if s.name in over
                else use.live
            )
            for s, use in uses
        ]
        written = range(reads, len(uses))
        for k in written:
            for j in range(k):
                one, other = uses[j][0], uses[k][0]
                both = [max(a[0], b[0]) for a in lives[j] for b in lives[k] if max(a[0], b[0]) < min(a[1], b[1])]
                if both and self.share([one, other]):
                    self.clash(number, min(both), one, other, j < reads)
        for k in written:
            self.region(uses[k][0]).write(uses[k][0])
        results = [k for k in written if uses[k][0].name in self.program.steps[number].writes]
        for k in written:  # what is not live any more when this one has been written is not whole behind the step
            if any(j != k and overlap(tuple(uses[k][1].live), uses[j][1].after) for j in results):
                self.region(uses[k][0]).write(uses[k][0])

    def clash(self, number: int, phase: int, one: Slot, other: Slot, read: bool) -> None:
        """The trap for two slots that share a byte at one phase."""
        count = self.program.steps[number].phases
        try:
            if not read:
                self.region(one).write(one)
            self.region(other).write(other)
            self.region(one).check(one, "read while the step writes" if read else "written")
        except Trap as trap:
            at = f"phase {phase} of {count}, position {self.positions[number] + phase}: " if count > 1 else ""
            raise trap.but(what=at + trap.what, where=None) from None

    def share(self, slots: Sequence[Slot]) -> bool:
        """Whether two of the slots share a byte."""
        places = sorted((id(self.region(s)), self.region(s).span(s).start, s.nbytes) for s in slots if s.nbytes)
        return any(a[0] == b[0] and a[1] + a[2] > b[1] for a, b in pairwise(places))

    def check_writable(self, slot: Slot) -> None:
        """Traps where a step writes what is not its own (rule M7.4)."""
        what = f"the program's {slot.place}" if slot.place in ("constant", "input") else ""
        if slot.is_pooled and (self.program.pool_of(slot).read_only or self.region(slot).held is not None):
            what = what or f"in the read-only {self.region(slot).name}"
        if what:
            raise Trap("store to constant", f"slot {slot.name} is written, but it is {what}", label="machine.T6")

    def check_use(self, slot: Slot, number: int, uses: Intervals) -> None:
        """Traps where a step uses a slot outside of its life, or where it must not lie (rule M7.3)."""
        first = self.positions[number]
        for start, stop in uses if slot.place != "constant" else ():
            outside = next((p for p in range(first + start, first + stop) if not slot.is_live(p)), None)
            if outside is not None:
                life = ", ".join(f"[{a}, {b})" for a, b in slot.live) or "never"
                what = f"slot {slot.name} is used here, at position {outside}, but is live only at {life}"
                raise Trap("use outside lifetime", what, label="machine.T3")
        if slot.is_pooled:
            self.check_place(slot)

    def array(self, slot: Slot, buffer: Buffer, dims: Sequence[Dim]) -> Array:
        """The slot as the kernel sees it: its bytes under the shape of the parameter, which is `dims` in this step. A
        view in the graph is no code."""
        if slot.is_pooled or slot.place == "constant":
            check_alignment(buffer, self.region(slot).span(slot).start)
        flat = self.region(slot).view(slot).reshape(-1)
        shape = tuple(d for d in dims if isinstance(d, int))
        if len(shape) != len(dims):
            shape = slot.type.static_shape
        if buffer.dtype is not slot.type.dtype or prod(shape) != flat.size:
            raise Invalid(f"slot {slot.name} is {slot.type}, which does not fit {buffer!r}", label="machine.C5")
        return flat.reshape(shape)

    def still_owned(self, reads: Sequence[Slot], writes: Sequence[Slot]) -> None:
        """What a step reads it must not write, and what it writes not by two of its slots (rule M7.2)."""
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
                raise trap.but(kind=kind, what=f"at the end: {trap.what}", where=None) from None
            found[name] = self.region(slot).view(slot).copy()
        return found


def _assert(step: Assertion) -> None:
    """Trap where a size that is asserted is another."""
    for found, wanted in step.sizes:
        if found != wanted:
            raise Trap("shape", f"a size is {found}, and has to be {wanted}", label="match_cast.T1")


def _end(slots: Sequence[Slot]) -> int:
    """Bytes up to the end of the last of them."""
    return max((s.offset + s.nbytes for s in slots if s.offset is not None), default=0)


@dataclass(frozen=True)
class StepUse:
    """The phases of a step at which a slot must own its bytes, and those at which something may be in it."""

    live: Intervals
    after: Intervals


def _uses(func: PrimFunc, step: Step) -> Callable[[Buffer], StepUse]:
    """How the step uses each buffer of its kernel. An input has to be whole wherever it may be read yet."""
    if step.phases == 1:
        return lambda buffer: StepUse(((0, 1),), ((0, 1),))
    found = phases(func)
    if found.count != step.phases:
        raise Invalid(f"the step has {step.phases} phases, {func.name} has {found.count}", label="machine.C8")
    inputs = set(func.inputs)

    def use(buffer: Buffer) -> StepUse:
        inside = found.uses.get(buffer, ())
        live = found.before.get(buffer, inside) if buffer in inputs else inside
        return StepUse(live, found.after.get(buffer, inside))

    return use


def _check_step(func: PrimFunc, step: Step) -> None:
    """Invalid unless the step has a slot for each parameter and each allocation of its kernel."""
    counts = (
        ("inputs", len(func.inputs), len(step.reads)),
        ("outputs", func.num_outputs, len(step.writes)),
        ("allocations", len(func.allocations), len(step.scratch)),
        ("scalars", len(func.scalars), len(step.scalars)),
    )
    for what, expected, given in counts:
        if expected != given:
            raise Invalid(f"{step.kernel} has {expected} {what}, the step {given} slots for them", label="machine.C3")
