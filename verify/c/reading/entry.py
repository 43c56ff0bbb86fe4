"""The entry of the file beside the steps of the planned program (specs/verify.md, "c").

What the entry does, call by call, has to be what the program says: the kernel of each step, its arguments at the places
of the plan, every arm of a choice, every loop, the copies at the end, and nothing else; each step if no status before
it was another than OK.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from assay.lower.c.source import CSource
from assay.semantics.instance import sizes_of_step
from assay.semantics.module import Module, Slot
from assay.semantics.steps import Assertion, Branch, Event, Step, flow
from assay.verify.c.reading.arguments import argument_check
from assay.verify.c.reading.contents import element_bytes
from assay.verify.c.reading.entry_text import Act, EntryText, Pointer
from assay.verify.c.reading.kernel_reading import KernelReading
from assay.verify.c.reading.parse import CFile
from assay.verify.c.reading.preprocess import Differs, NotRead
from assay.verify.c.reading.sizes import EntrySizes
from assay.verify.c.reading.terms import Term
from assay.verify.c.reading.weights import require_weights


@dataclass
class EntryReader:
    """Reads the entry. `source` says which tensor each argument is, as the header does for who calls it; `kernel`
    reads the function of a call as the kernel of a step."""

    file: CFile
    source: CSource
    module: Module
    kernel: Callable[[str, str], KernelReading | None]
    sizes: EntrySizes
    depth: int = 0
    """How many choices and loops are around."""
    shown: int = 0
    """The calls whose arguments were shown."""
    apart: dict[tuple[str, str], bool] = field(default_factory=dict)
    """Of pairs of slots whether they are shown to share no byte."""

    def __post_init__(self) -> None:
        self.program = self.module.program

    def compare(self) -> None:
        """Hold what the text does against the steps. NotRead where they differ."""
        self.sizes.read()
        wanted = argument_check(self.source, self.program, self.module, self.file, self.sizes)
        require_weights(self.source, self.file)
        require_last(flow(self.program.steps))
        text = EntryText(self.file, self.source, self.sizes, wanted)
        acts = text.acts()
        for what, i in flow(self.program.steps):
            step = self.program.steps[i]
            act = next(acts, ("nothing", ()))
            match what, step:
                case "step", Step():
                    if act[0] != "call":
                        raise NotRead(f"the text has {act[0]} where step {i} calls {step.kernel}")
                    self.call(i, step, *act[1])
                case "step", Assertion():
                    if act[0] != "assert":
                        raise NotRead(f"the text has {act[0]} where step {i} asserts something of sizes")
                    self.asserted(i, step, *act[1])
                case "if", Branch():
                    if act[0] != "if":
                        raise NotRead(f"the text has {act[0]} where step {i} is a choice")
                    self.require_at(act[1][0], self.program.slots[step.condition], f"the condition of step {i}")
                    if act[1][0].type != "uint8_t*":
                        raise NotRead(f"the condition of step {i} is {act[1][0].type}")
                case "else" | "end", Branch():
                    if act[0] != what:
                        raise NotRead(f"the text has {act[0]} where an arm of step {i} ends")
                case "loop" | "leave" | "continue", _:
                    if act[0] != what:
                        raise NotRead(f"the text has {act[0]} where step {i} has the {what} of a loop")
                case _:
                    raise NotRead(f"step {i} is of a kind that is not read: {type(step).__name__}")
            self.depth += {"if": 1, "loop": 1, "end": -1, "leave": -1}.get(what, 0)
        self.compare_end(list(acts))
        if text.left:
            raise NotRead(text.left)

    def asserted(self, i: int, step: Assertion, found: Term) -> None:
        """An assertion on sizes, which holds from here on where nothing is around."""
        math = self.sizes.ours.math
        wanted = math.truth(False)
        for a, b in step.sizes:
            other = math.compare("ne", self.sizes.number(a), self.sizes.number(b))
            wanted = math.either(wanted, other)
        if not self.sizes.same(wanted, found):
            raise NotRead(f"step {i} ends the run where {wanted!r}, and the text where {found!r}")
        if not self.depth:
            math.assume(math.negation(wanted))

    def compare_end(self, acts: Sequence[Act]) -> None:
        """Every output is where its slot is, or is copied from there at the end."""
        copies = {}
        zero = self.sizes.ours.math.whole(0)
        for what, args in acts:
            if what != "copy":
                raise NotRead(f"the text has a {what} behind the last step")
            to, source, size = args
            if to.object in copies or to.offset is not zero:
                raise NotRead(f"{to.object} is written twice at the end")
            copies[to.object] = (source, size)
        first: set[str] = set()
        for name, argument in zip(self.program.outputs, self.source.outputs, strict=True):
            slot = self.program.slots[name]
            if argument.slot != name or argument.type != slot.type or argument.workspace:
                raise NotRead(f"the output {name} is another argument")
            if slot.place == "output" and slot.name not in self.sizes.pooled and name not in first:
                first.add(name)
            elif argument.name in copies:
                source, size = copies.pop(argument.name)
                wanted = self.sizes.nbytes(slot)
                if not self.sizes.same(size, wanted):
                    why = f"{size!r} bytes of {name} are copied, and it has {wanted!r}"
                    raise Differs(why) if size.is_constant and wanted.is_constant else NotRead(why)
                self.require_at(source, slot, f"the output {name}")
            elif self.sizes.nbytes(slot) is not zero:
                raise NotRead(f"the output {name} is not copied")
        if copies:
            raise NotRead(f"{', '.join(copies)} is written at the end")

    def call(self, i: int, step: Step, name: str, args: Sequence[Pointer], numbers: Sequence[Term]) -> None:
        """A call of the kernel of a step, with the slots of the step as its arguments, and its sizes behind them."""
        reading = self.kernel(name, step.kernel)
        if reading is None:
            return
        places = {"input": step.reads, "output": step.writes, "scratch": step.scratch}
        slots = [self.program.slots[places[role][k]] for role, k in reading.buffers]
        if len(args) != len(slots) or len(numbers) != len(reading.sizes):
            raise NotRead(f"step {i} hands {len(args) + len(numbers)} arguments to {name}")
        for k, (pointer, slot) in enumerate(zip(args, slots, strict=True)):
            if pointer.type != reading.types[k]:
                raise NotRead(f"argument {k} of step {i} is {pointer.type}, and {name} takes {reading.types[k]}")
            self.require_at(pointer, slot, f"argument {k} of step {i}", [s for s in slots if s is not slot])
        sizes = sizes_of_step(step, self.module.kernel(step.kernel)) if numbers else {}
        for v, found in zip(reading.sizes, numbers, strict=True):
            wanted = self.sizes.number(sizes[v])
            if not self.sizes.same(wanted, found):
                raise NotRead(f"the size {v.name} of step {i} is {wanted!r}, and in the text {found!r}")
        for k, slot in enumerate(slots):
            for j, other in enumerate(slots):
                written = reading.stores[k] or reading.stores[j]
                if j != k and written and reading.restrict[k] and not self.are_apart(slot, other):
                    raise NotRead(f"argument {k} of step {i} is restrict, and {slot.name} and {other.name} share bytes")
        self.shown += 1

    def are_apart(self, a: Slot, b: Slot) -> bool:
        """Whether two slots are shown to share no byte."""
        key = (min(a.name, b.name), max(a.name, b.name))
        if key not in self.apart:
            self.apart[key] = self._are_apart(a, b)
        return self.apart[key]

    def _are_apart(self, a: Slot, b: Slot) -> bool:
        sizes, math = self.sizes, self.sizes.ours.math
        if a.name == b.name:
            return sizes.nbytes(a) is math.whole(0)
        if not {a.name, b.name} <= sizes.pooled or self.program.pool_of(a) is not self.program.pool_of(b):
            return True
        one, two = sizes.offset(a), sizes.offset(b)
        before = math.compare("le", math.add(one, sizes.nbytes(a)), two)
        behind = math.compare("le", math.add(two, sizes.nbytes(b)), one)
        return sizes.facts.proves(math.either(before, behind))

    def require_at(self, pointer: Pointer, slot: Slot, what: str, others: Sequence[Slot] = ()) -> None:
        """A pointer has to lead to a slot. Where it leads to one of the `others` instead, it may come to the same:
        a sum has two operands."""
        if slot.place == "constant":
            if not self.holds(pointer, slot):
                self.refute_constant(pointer, slot, what, others)
                raise NotRead(f"{what} is no pointer to the constant {slot.name}")
            return
        name, offset = self.place(slot)
        if pointer.object == name and self.sizes.same(pointer.offset, offset):
            return
        why = f"{what} is {pointer.object} + {pointer.offset!r}, and {slot.name} is {name} + {offset!r}"
        apart = pointer.object != name or (pointer.offset.is_constant and offset.is_constant)
        exchanged = any(self.is_at(pointer, o) for o in others)
        raise Differs(why) if apart and not exchanged else NotRead(why)

    def is_at(self, pointer: Pointer, slot: Slot) -> bool:
        """Whether a pointer leads to a slot, or to the bytes of a constant."""
        return self.holds(pointer, slot) if slot.place == "constant" else self.place(slot) == pointer.place

    def place(self, slot: Slot) -> tuple[str, Term]:
        """The object in which a slot lies that is no constant, and how many bytes behind its beginning."""
        if slot.name not in self.sizes.pooled:
            side = self.source.inputs if slot.place == "input" else self.source.outputs
            return next((a.name for a in side if a.slot == slot.name), ""), self.sizes.ours.math.whole(0)
        pool = self.program.pool_of(slot).name
        space = next((w for w in self.source.workspaces if w.pool == pool), None)
        offset, size = self.sizes.offset(slot), slot.type.dtype.itemsize
        if space is None or not self.sizes.is_multiple(offset, size) or space.alignment % size:
            raise NotRead(f"{slot.name} is not aligned")
        return space.name, offset

    def refute_constant(self, pointer: Pointer, slot: Slot, what: str, others: Sequence[Slot]) -> None:
        """Differs where a pointer leads to the beginning of a table whose numbers are not those of a constant, nor of
        another operand."""
        if pointer.object not in self.file.tables or pointer.offset is not self.sizes.ours.math.whole(0):
            return
        of, count, text = self.file.tables[pointer.object]
        wanted = self.module.constants[slot.name]
        data = element_bytes(of, count, text)
        if len(data) != wanted.nbytes or any(self.is_at(pointer, o) for o in others):
            return
        pairs = zip(np.frombuffer(data, wanted.dtype), wanted.reshape(-1), strict=True)
        for i, (a, b) in enumerate(pairs):
            if a.tobytes() != b.tobytes() and (a == a or b == b):  # which NaN a NaN is, no rule says
                raise Differs(f"{what} is {pointer.object}, whose element {i} is {a}, and that of {slot.name} is {b}")

    def holds(self, pointer: Pointer, slot: Slot) -> bool:
        """Whether the bytes at a pointer are those of a constant of the module."""
        wanted = self.module.constants[slot.name]
        if not pointer.offset.is_constant or pointer.offset.value < 0:
            return False
        offset = pointer.offset.value
        if pointer.object in self.file.tables:
            of, count, text = self.file.tables[pointer.object]
            data = element_bytes(of, count, text)
            return data[offset:][: wanted.nbytes] == wanted.tobytes() and wanted.nbytes <= len(data)
        if pointer.object != "weights" or self.source.weights is None:
            return False
        size = slot.type.dtype.itemsize
        aligned = offset % size == 0 and self.source.weights.alignment % size == 0
        found = dict(self.source.weights.pieces).get(offset)
        same = found is wanted or (found is not None and found.tobytes() == wanted.tobytes())
        return same and aligned


def require_last(events: Iterable[Event]) -> None:
    """Where a loop begins anew nothing else of the iteration is left: the text goes on to the end of it."""
    ended = [False]
    before: list[bool] = []
    for what, i in events:
        if ended[-1] and what in ("step", "if", "loop", "continue"):
            raise NotRead(f"step {i} stands behind the one at which its loop begins anew")
        match what:
            case "continue":
                ended[-1] = True
            case "if":
                before.append(False)
                ended.append(False)
            case "else":
                before[-1], ended[-1] = ended[-1], False
            case "end":
                found = ended.pop()
                ended[-1] = ended[-1] or before.pop() or found
            case "loop":
                ended.append(False)
            case "leave":
                ended.pop()
