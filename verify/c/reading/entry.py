"""The entry of the file beside the steps of the planned program (specs/verify.md, "c").

Pointers are followed as an object that the caller gives, or a table, and an offset in bytes. What the entry does,
call by call, has to be what the program says: the kernel of each step, its arguments at the places of the plan, every
arm of a choice, the copies at the end, and nothing else; each step if no status before it was another than OK.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from assay.lower.c.source import CSource
from assay.semantics.module import Module, Slot
from assay.semantics.steps import Branch, Step, flow
from assay.semantics.walk import Worklist
from assay.verify.c.reading.arguments import argument_check, same_function
from assay.verify.c.reading.contents import element_bytes
from assay.verify.c.reading.kernel import KernelReading
from assay.verify.c.reading.parse import CFile, c_type
from assay.verify.c.reading.preprocess import NotRead
from assay.verify.c.reading.statements import is_name
from assay.verify.c.reading.values import CNode

Act: TypeAlias = tuple[str, tuple[Any, ...]]
"""What the entry does: call (name, pointers), if (pointer), else, end, copy (to, from, bytes)."""


@dataclass(frozen=True)
class Pointer:
    """An address: an object, how many bytes behind its beginning, and the type of what it leads to."""

    object: str
    offset: int
    type: str


@dataclass
class EntryReader:
    """Reads the entry. `source` says which tensor each argument is, as the header does for who calls it; `kernel`
    reads the function of a call as the kernel of a step."""

    file: CFile
    source: CSource
    module: Module
    kernel: Callable[[str, str], KernelReading | None]
    known: dict[str, Pointer] = field(default_factory=dict)
    state: dict[str, Pointer] = field(default_factory=dict)
    checked: bool = False
    shown: int = 0
    """The calls whose arguments were shown."""

    def __post_init__(self) -> None:
        self.name, self.macro = self.source.name, self.source.macro
        self.program = self.module.program
        self.run = self.file.functions[f"{self.name}_run"] if f"{self.name}_run" in self.file.functions else None

    # --- what the text does ----------------------------------------------------------------------------------------

    def acts(self) -> Iterator[Act]:
        """What the entry does, in its order. NotRead for what has no place in an entry."""
        if self.run is None:
            raise NotRead(f"there is no function {self.name}_run")
        for name, of, _ in self.run.params:
            self.known[name] = Pointer(name, 0, of)
        for name, (of, _, _) in self.file.tables.items():
            self.known[name] = Pointer(name, 0, f"{of}*")
        body = self.run.tree.body.block_items or []
        work = Worklist(body)
        returned = False
        for node in work:
            if isinstance(node, str):
                yield (node, ())
                continue
            if returned:
                raise NotRead("the entry goes on behind its end")
            match type(node).__name__:
                case "Decl":
                    self.declare(node)
                case "If" if not self.checked:
                    self.leaves(node)
                case "If":
                    acts, more = self.step(node)
                    yield from acts
                    work.add(more)
                case "Return" if is_name(node.expr, "status"):
                    returned = True
                case other:
                    raise NotRead(f"the entry has a statement that is not read: {other}")
        if not returned:
            raise NotRead("the entry does not return its status")

    def declare(self, node: CNode) -> None:
        """A local: a pointer that does not change, what parts are handed, the check of the arguments, the status."""
        of, init = c_type(node.type), node.init
        if node.name == "buffers" and of == "void[]*":
            self.buffers = [self.pointer(e).object for e in init.exprs]
            if literal_number(node.type.dim) != len(self.buffers):
                raise NotRead("the array of the arguments has another length")
        elif node.name == "status" and of == "int":
            self.status(init)
        elif of == f"struct {self.name}_state" and type(init).__name__ == "InitList":
            members = self.file.structs.get(f"{self.name}_state", [])
            self.state = dict(zip(members, map(self.pointer, init.exprs), strict=True))
        elif of == f"struct {self.name}_state*":
            if type(init).__name__ != "UnaryOp" or init.op != "&":
                raise NotRead("what parts are handed is not read")
        elif of.endswith("*") and "const" in getattr(node.type, "quals", ()):
            found = self.pointer(init)
            before = self.known.get(node.name, found)
            if (before.object, before.offset) != (found.object, found.offset):
                raise NotRead(f"the pointer {node.name} hides another")
            self.known[node.name] = Pointer(found.object, found.offset, of)
        else:
            raise NotRead(f"the local {node.name} of the entry is not read")

    def status(self, init: CNode) -> None:
        """The status begins as OK in a part, and in the entry as what the check of the arguments says."""
        if is_name(init, f"{self.macro}_OK") and self.checked:
            return
        call = init.expr if type(init).__name__ == "Cast" else init
        name = f"{self.name}_check"
        is_check = type(call).__name__ == "FuncCall" and call.name.name == name
        if not is_check or [getattr(a, "name", "") for a in call.args.exprs] != ["buffers"]:
            raise NotRead("the status does not begin as that of the arguments")
        wanted = argument_check(self.source, self.program, self.module, self.file)
        if self.buffers != wanted.buffers:
            raise NotRead(f"the arguments that are checked are {', '.join(self.buffers)}")
        for function, text in wanted.functions.items():
            if not same_function(self.file, function, text):
                raise NotRead(f"{function} is not the check of the arguments that it has to be")

    def leaves(self, node: CNode) -> None:
        """`if (status != OK) { return status; }` behind the check."""
        body = node.iftrue.block_items
        returns = len(body) == 1 and type(body[0]).__name__ == "Return" and is_name(body[0].expr, "status")
        if not self.compares(node.cond, "!=") or node.iffalse is not None or not returns:
            raise NotRead("the entry does not end where its arguments are refused")
        self.checked = True

    def compares(self, node: CNode, op: str) -> bool:
        """Whether a condition compares the status with OK."""
        return (
            type(node).__name__ == "BinaryOp"
            and node.op == op
            and is_name(node.left, "status")
            and is_name(node.right, f"{self.macro}_OK")
        )

    def step(self, node: CNode) -> tuple[list[Act], list[Any]]:
        """One `if` of the entry: a step, the copies at the end, or a choice."""
        then = node.iftrue.block_items or []
        if self.compares(node.cond, "==") and node.iffalse is None:
            if len(then) == 1 and type(then[0]).__name__ == "Assignment":
                return self.called(then[0])
            return [self.copy(s) for s in then], []
        cond = node.cond
        if type(cond).__name__ == "BinaryOp" and cond.op == "&&" and self.compares(cond.left, "=="):
            test = cond.right
            reads = type(test).__name__ == "BinaryOp" and test.op == "!=" and type(test.left).__name__ == "UnaryOp"
            if reads and test.left.op == "*" and getattr(test.right, "value", "") == "0":
                where = self.pointer(test.left.expr)
                other = (node.iffalse.block_items or []) if node.iffalse is not None else []
                return [("if", (where,))], [*then, "else", *other, "end"]
        raise NotRead("an `if` of the entry is neither a step nor a choice")

    def called(self, node: CNode) -> tuple[list[Act], list[Any]]:
        """The status becomes what a kernel, or a part of the entry, returns."""
        call = node.rvalue
        if node.op != "=" or not is_name(node.lvalue, "status") or type(call).__name__ != "FuncCall":
            raise NotRead("a step of the entry is no call")
        args = call.args.exprs if call.args else []
        name = call.name.name
        part = self.file.functions.get(name)
        if part is not None and [t for _, t, _ in part.params] == [f"struct {self.name}_state*"]:
            return [], self.part(part.tree.body.block_items or [])
        return [("call", (name, tuple(map(self.pointer, args))))], []

    def part(self, body: Sequence[CNode]) -> list[CNode]:
        """What a part of the entry does, without its return."""
        if not body or type(body[-1]).__name__ != "Return" or not is_name(body[-1].expr, "status"):
            raise NotRead("a part of the entry does not return its status")
        if not any(type(n).__name__ == "Decl" and n.name == "status" for n in body):
            raise NotRead("a part of the entry has no status")
        return [n for n in body if n is not body[-1] and not self.is_unused(n)]

    @staticmethod
    def is_unused(node: CNode) -> bool:
        """Whether a statement says that something is not used."""
        return type(node).__name__ == "Cast" and c_type(node.to_type) == "void" and type(node.expr).__name__ == "ID"

    def copy(self, node: CNode) -> Act:
        """A copy at the end."""
        if type(node).__name__ != "FuncCall" or node.name.name != "memcpy":
            raise NotRead("the end of the entry is no copy")
        to, source, size = node.args.exprs
        return ("copy", (self.pointer(to), self.pointer(source), literal_number(size)))

    def pointer(self, node: CNode) -> Pointer:
        """The address that an expression is."""
        types: list[str] = []
        offset = 0
        while True:
            match type(node).__name__:
                case "Cast":
                    types.append(c_type(node.to_type))
                    node = node.expr
                case "BinaryOp" if node.op == "+":
                    if self.pointee(node.left) != "unsigned char*":
                        raise NotRead("an offset is added to something else than bytes")
                    offset += literal_number(node.right)
                    node = node.left
                case "ID" if node.name in self.known:
                    found = self.known[node.name]
                    return Pointer(found.object, found.offset + offset, types[0] if types else found.type)
                case "StructRef" if is_name(node.name, "state") and node.field.name in self.state:
                    found = self.state[node.field.name]
                    return Pointer(found.object, found.offset + offset, types[0] if types else found.type)
                case other:
                    raise NotRead(f"a pointer of the entry is not read: {other}")

    def pointee(self, node: CNode) -> str:
        """The type of a pointer that an offset is added to."""
        return self.known[node.name].type if type(node).__name__ == "ID" and node.name in self.known else ""

    # --- what the program does -------------------------------------------------------------------------------------

    def compare(self) -> None:
        """Hold what the text does against the steps. NotRead where they differ."""
        slots = self.program.slots
        acts = self.acts()
        for what, i in flow(self.program.steps):
            step = self.program.steps[i]
            act = next(acts, ("nothing", ()))
            match what, step:
                case "step", Step():
                    if act[0] != "call":
                        raise NotRead(f"the text has {act[0]} where step {i} calls {step.kernel}")
                    self.call(i, step, *act[1])
                case "if", Branch():
                    if act[0] != "if":
                        raise NotRead(f"the text has {act[0]} where step {i} is a choice")
                    self.require_at(act[1][0], slots[step.condition], f"the condition of step {i}")
                    if act[1][0].type != "uint8_t*":
                        raise NotRead(f"the condition of step {i} is {act[1][0].type}")
                case "else" | "end", Branch():
                    if act[0] != what:
                        raise NotRead(f"the text has {act[0]} where an arm of step {i} ends")
                case _:
                    raise NotRead(f"step {i} is of a kind that is not read: {type(step).__name__}")
        self.compare_end(list(acts))

    def compare_end(self, acts: Sequence[Act]) -> None:
        """Every output is where its slot is, or is copied from there at the end."""
        copies = {}
        for what, args in acts:
            if what != "copy":
                raise NotRead(f"the text has a {what} behind the last step")
            to, source, size = args
            if to.object in copies or to.offset:
                raise NotRead(f"{to.object} is written twice at the end")
            copies[to.object] = (source, size)
        first: set[str] = set()
        for name, argument in zip(self.program.outputs, self.source.outputs, strict=True):
            slot = self.program.slots[name]
            if argument.slot != name or argument.type != slot.type or argument.workspace:
                raise NotRead(f"the output {name} is another argument")
            if slot.place == "output" and not slot.is_pooled and name not in first:
                first.add(name)
            elif argument.name in copies:
                source, size = copies.pop(argument.name)
                if size != slot.nbytes:
                    raise NotRead(f"{size} bytes of {name} are copied")
                self.require_at(source, slot, f"the output {name}")
            elif slot.nbytes:
                raise NotRead(f"the output {name} is not copied")
        if copies:
            raise NotRead(f"{', '.join(copies)} is written at the end")

    def call(self, i: int, step: Step, name: str, args: Sequence[Pointer]) -> None:
        """A call of the kernel of a step, with the slots of the step as its arguments."""
        reading = self.kernel(name, step.kernel)
        if reading is None:
            return
        places = {"input": step.reads, "output": step.writes, "scratch": step.scratch}
        slots = [self.program.slots[places[role][k]] for role, k in reading.buffers]
        if len(args) != len(slots):
            raise NotRead(f"step {i} hands {len(args)} arguments to {name}")
        for k, (pointer, slot) in enumerate(zip(args, slots, strict=True)):
            if pointer.type != reading.types[k]:
                raise NotRead(f"argument {k} of step {i} is {pointer.type}, and {name} takes {reading.types[k]}")
            self.require_at(pointer, slot, f"argument {k} of step {i}")
        for k, slot in enumerate(slots):
            for j, other in enumerate(slots):
                written = reading.stores[k] or reading.stores[j]
                if j != k and written and reading.restrict[k] and self.meet(slot, other):
                    raise NotRead(f"argument {k} of step {i} is restrict, and {slot.name} and {other.name} share bytes")
        self.shown += 1

    def meet(self, a: Slot, b: Slot) -> bool:
        """Whether two slots share a byte."""
        if a.name == b.name:
            return a.nbytes > 0
        if not a.is_pooled or not b.is_pooled or self.program.pool_of(a) is not self.program.pool_of(b):
            return False
        return self.offset(a) < self.offset(b) + b.nbytes and self.offset(b) < self.offset(a) + a.nbytes

    @staticmethod
    def offset(slot: Slot) -> int:
        """Where a slot lies in its pool."""
        if slot.offset is None:
            raise NotRead(f"where {slot.name} lies is decided by sizes")
        return slot.offset

    def require_at(self, pointer: Pointer, slot: Slot, what: str) -> None:
        """A pointer has to lead to a slot."""
        if slot.place == "constant":
            if not self.holds(pointer, slot):
                raise NotRead(f"{what} is no pointer to the constant {slot.name}")
            return
        if slot.is_pooled:
            pool = self.program.pool_of(slot).name
            space = next((w for w in self.source.workspaces if w.pool == pool), None)
            wanted = (space.name if space else "", self.offset(slot))
            size = slot.type.dtype.itemsize
            if space is None or self.offset(slot) % size or space.alignment % size:
                raise NotRead(f"{slot.name} is not aligned")
        else:
            side = self.source.inputs if slot.place == "input" else self.source.outputs
            wanted = (next((a.name for a in side if a.slot == slot.name), ""), 0)
        if (pointer.object, pointer.offset) != wanted:
            raise NotRead(
                f"{what} is {pointer.object} + {pointer.offset}, and {slot.name} is {wanted[0]} + {wanted[1]}"
            )

    def holds(self, pointer: Pointer, slot: Slot) -> bool:
        """Whether the bytes at a pointer are those of a constant of the module."""
        wanted = self.module.constants[slot.name]
        if pointer.object in self.file.tables:
            of, count, text = self.file.tables[pointer.object]
            data = element_bytes(of, count, text)
            return data[pointer.offset :][: wanted.nbytes] == wanted.tobytes() and wanted.nbytes <= len(data)
        if pointer.object != "weights" or self.source.weights is None:
            return False
        size = slot.type.dtype.itemsize
        aligned = pointer.offset % size == 0 and self.source.weights.alignment % size == 0
        found = dict(self.source.weights.pieces).get(pointer.offset)
        same = found is wanted or (found is not None and found.tobytes() == wanted.tobytes())
        return same and aligned


def literal_number(node: CNode) -> int:
    """A whole literal."""
    if type(node).__name__ != "Constant":
        raise NotRead("an offset of the entry is no number")
    return int(node.value.rstrip("uUlL"), 0)
