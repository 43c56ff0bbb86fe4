"""A kernel of the file beside the tensor function that it has to be (specs/verify.md, "c").

Both are followed in step: loop by loop, choice by choice, store by store, in their order. Whatever happens between
two of these has no effect, so both sides see the same memory there; `state` stands for it in terms. A loop has equal
extents, a choice equal conditions, a store the same element and an equal value, and what traps traps under an equal
condition with the status of its kind. Nothing is reordered: what is written in another order is not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from assay.semantics import tensor
from assay.semantics.scalar import Var
from assay.semantics.tensor.blocks import without_blocks
from assay.semantics.walk import Worklist
from assay.verify.c.reading.arith import Arithmetic
from assay.verify.c.reading.carried import carried_in
from assay.verify.c.reading.contents import content_key
from assay.verify.c.reading.expressions import ScalarTerms, storage_of
from assay.verify.c.reading.facts import Facts
from assay.verify.c.reading.functions import Functions
from assay.verify.c.reading.kernel_reading import BlockFrame, Event, KernelReading
from assay.verify.c.reading.parse import CFunction, c_type, points_to_const
from assay.verify.c.reading.preprocess import NotRead
from assay.verify.c.reading.statements import (
    counted_loop,
    is_cell,
    is_fixed,
    mentioned_buffers,
    require_bound,
    returned,
    told_event,
    trap_status,
    variable_holds,
)
from assay.verify.c.reading.terms import Interval, Term
from assay.verify.c.reading.values import FLOATS, INTEGERS, CNode, CValue, Evaluator, Memory, c_limits


@dataclass
class KernelReader:
    """Follows one function of the file and one tensor function."""

    functions: Functions
    function: CFunction
    kernel: tensor.PrimFunc
    macro: str
    symbols: Mapping[Var, Interval] = field(default_factory=dict)
    """Where its symbols and scalars lie at all calls."""
    tir: Worklist[Any] = field(default_factory=lambda: Worklist([]))
    c: Worklist[Any] = field(default_factory=lambda: Worklist([]))
    frames: list[BlockFrame] = field(default_factory=list)
    memories: dict[tensor.Buffer, Memory] = field(default_factory=dict)
    stored: set[str] = field(default_factory=set)
    conditions: list[Term] = field(default_factory=list)
    used: list[tensor.Buffer] = field(default_factory=list)
    sizes: list[Var] = field(default_factory=list)
    parts: list[tensor.For] = field(default_factory=list)
    """Loops that were tried in another order."""
    moved: list[tensor.Buffer] = field(default_factory=list)
    """What is stored to in loops that the text has in another order."""
    depths: dict[str, int] = field(default_factory=dict)
    """In how many blocks a variable of the text, or a cell, begins."""

    def __post_init__(self) -> None:
        table, lemmas = self.functions.table, self.functions.recognised.lemmas
        self.plain = without_blocks(self.kernel, pointers=True)
        self.ours = ScalarTerms(Arithmetic(table, Facts(), lemmas), self.place)
        math = Arithmetic(table, Facts(), lemmas)
        constants = self.functions.file.constants
        self.theirs: Evaluator = Evaluator(math, constants, lambda n, a: self.functions.caller(self.theirs.math, n, a))
        self.theirs.inside = self.ours.inside

    def run(self) -> KernelReading:
        """Follow both to their ends. NotRead: where they differ, or something is not read."""
        used = self.enter_parameters()
        self.enter_tables()
        self.advance()
        self.tir.add([self.plain.body])
        self.c.add([self.function.tree.body])
        while True:
            event = self.next_of_ours()
            other = self.next_of_theirs()
            if self.ours.obligations:
                kind, condition = self.ours.obligations[0]
                raise NotRead(f"the trap {kind!r} is not in the text, where {condition!r}")
            if event[0] != other[0]:
                raise NotRead(
                    f"the text has {told_event(other[0])} where the tensor function has {told_event(event[0])}"
                )
            getattr(self, f"match_{event[0]}")(event[1], other[1])
            if event[0] == "end":
                break
            self.advance()
        asked = self.ours.math.facts.asked + self.theirs.math.facts.asked
        return KernelReading(
            tuple(used),
            tuple(r for _, t, r in self.function.params if t.endswith("*")),
            tuple(self.memories[b].key in self.stored for b in self.used),
            asked,
            tuple(self.sizes),
            tuple(t for _, t, _ in self.function.params),
        )

    def advance(self) -> None:
        """Memory may have changed."""
        self.ours.state = self.theirs.state = self.functions.table.fresh("state", "int")
        self.ours.inside.clear()

    # --- parameters ----------------------------------------------------------------------------------------------

    def place(self, buffer: tensor.Buffer) -> Memory:
        """The array that a buffer is."""
        if buffer not in self.memories:
            raise NotRead(f"the buffer {buffer.name} is not known here")
        return self.memories[buffer]

    def enter_parameters(self) -> list[tuple[str, int]]:
        """The pointers of the function are the buffers that the tensor function uses, in the order of its parameters
        and then of what it allocates. Whoever calls it is held to that."""
        plain = self.plain
        used = mentioned_buffers(plain)
        roles: list[tuple[str, int, tensor.Buffer]] = []
        roles += [("input", i, b) for i, b in enumerate(plain.inputs)]
        roles += [("output", i, b) for i, b in enumerate(plain.outputs)]
        number = {b: i for i, b in reversed(list(enumerate(self.kernel.allocations)))}
        roles += [("scratch", number[b], b) for b in plain.allocations if b in number and not is_cell(b)]
        roles = [r for r in roles if r[2] in used]
        params = self.enter_sizes()
        if len(params) != len(roles):
            raise NotRead(f"it has {len(params)} parameters, and the tensor function uses {len(roles)} buffers")
        nodes = self.function.tree.decl.type.args.params[: len(params)] if params else ()
        for (name, of, restrict), (role, _, b), node in zip(params, roles, nodes, strict=True):
            element = storage_of(b.dtype)
            if of != f"{element}*":
                raise NotRead(f"the parameter {name} is {of}, and {b.name} holds {b.dtype}")
            if role == "input" and not points_to_const(node):
                raise NotRead(f"the parameter {name} is not const, and {b.name} is only read")
            # nothing that is written shares a byte with what a restrict pointer to const leads to
            self.enter_memory(b, name, Memory(name, element, self.count_of(b), role != "input" or not restrict))
        self.used = [b for _, _, b in roles]
        return [(role, i) for role, i, _ in roles]

    def enter_sizes(self) -> Sequence[tuple[str, str, bool]]:
        """The numbers behind the pointers are symbols of the tensor function, by name; the pointers are left."""
        params = self.function.params
        pointers = [p for p in params if p[1].endswith("*")]
        for v, within in self.symbols.items():
            self.ours.env[v] = self.functions.table.fresh(v.name, "int", within)
        named = {v.name: v for v in self.symbols}
        for name, of, _ in params[len(pointers) :]:
            own = named.get(name)
            if own is None or of not in INTEGERS or len(named) < len(self.symbols):
                raise NotRead(f"the parameter {name} is no symbol of the tensor function")
            low, high = self.symbols[own]
            if low < c_limits(of)[0] or high > c_limits(of)[1]:
                raise NotRead(f"the parameter {name} is {of}, and it may be {high}")
            self.theirs.scope.values[name] = CValue(of, self.ours.env[own])
            self.sizes.append(own)
        return pointers

    def count_of(self, buffer: tensor.Buffer) -> Term:
        """How many elements a buffer has."""
        total = self.ours.math.whole(1)
        for d in buffer.shape:
            total = self.ours.math.mul(total, self.ours.dim(d))
        return total

    def enter_memory(self, buffer: tensor.Buffer, name: str, memory: Memory) -> None:
        """A buffer is an array of that name in C."""
        self.memories[buffer] = memory
        self.theirs.scope.arrays[name] = memory

    def enter_tables(self) -> None:
        """The tables of the file are arrays that nobody writes to, known by their contents."""
        for name, key in self.functions.contents.items():
            self.require_new(name)
            of, count, _ = self.functions.file.tables[name]
            self.theirs.scope.arrays[name] = Memory(key, of, self.ours.math.whole(count), False)

    # --- the tensor function -------------------------------------------------------------------------------------

    def next_of_ours(self) -> Event:
        """What the tensor function does next."""
        ours = self.ours
        for stmt in self.tir:
            match stmt:
                case str():
                    return (stmt, None)
                case tensor.Seq():
                    self.tir.add(stmt.body)
                case tensor.LetStmt():
                    ours.env[stmt.var] = ours.value(stmt.value)
                    self.tir.add([stmt.body])
                case tensor.Allocate():
                    if is_cell(stmt.buffer):
                        self.enter_cell(stmt.buffer)
                    self.tir.add([stmt.body])
                case tensor.AllocateConst():
                    of, one = storage_of(stmt.buffer.dtype), self.ours.math.whole(1)
                    self.memories[stmt.buffer] = Memory(content_key(of, stmt.contents.tobytes()), of, one, False)
                    self.tir.add([stmt.body])
                case tensor.For():
                    event = self.loop(stmt)
                    if event is not None:
                        return event
                case tensor.If():
                    condition = ours.value(stmt.condition)
                    if condition.op != "truth":
                        return ("if", (condition, stmt))
                    chosen = stmt.then if condition.args[0] else stmt.otherwise
                    self.tir.add([chosen] if chosen is not None else [])
                case tensor.While():
                    return ("while", stmt)
                case tensor.Store():
                    indices = [ours.value(i) for i in stmt.indices]
                    value = ours.value(stmt.value)
                    memory, index = ours.element(stmt.buffer, indices)
                    if stmt.buffer in self.moved and ours.obligations:
                        raise NotRead(f"loops around {stmt.buffer.name} are in another order, and it may trap")
                    if value.sort == "bool":
                        value = ours.math.number(value)
                    return ("store", (stmt.buffer, memory, index, value))
                case tensor.Assert():
                    ours.trap(stmt.kind, [ours.math.negation(ours.value(stmt.condition))])
                case tensor.Evaluate():
                    ours.value(stmt.value)
                case _:
                    raise NotRead(f"a statement of the tensor function is not read: {type(stmt).__name__}")
        return ("end", None)

    def loop(self, stmt: tensor.For) -> Event | None:
        """A loop that has more than one iteration; one that has one is its body, one without is nothing."""
        ours = self.ours
        if stmt.start is not None:
            raise NotRead(f"the loop {stmt.var.name} has a start")
        extent = ours.value(stmt.extent)
        low, high = ours.math.facts.interval(extent)
        if high <= 0:
            return None
        if low == high == 1:
            ours.env[stmt.var] = ours.math.whole(0)
            self.tir.add([stmt.body])
            return None
        return ("for", (extent, stmt))

    def enter_cell(self, buffer: tensor.Buffer) -> None:
        """A buffer of one element, which is a variable in C; which one, its first store says."""
        of = storage_of(buffer.dtype)
        key = f"cell {buffer.name} {len(self.memories)}"
        self.depths[key] = len(self.frames)
        self.memories[buffer] = Memory(key, of, self.ours.math.whole(1), True, declared=of)

    # --- C -------------------------------------------------------------------------------------------------------

    def next_of_theirs(self) -> Event:
        """What the text does next. What has no effect is followed on the way."""
        for node in self.c:
            if isinstance(node, str):
                return (node, None)
            match type(node).__name__:
                case "Compound":
                    self.c.add(node.block_items or [])
                case "Decl":
                    self.declare(node)
                case "Cast" if c_type(node.to_type) == "void":
                    if type(node.expr).__name__ != "ID" or node.expr.name in self.theirs.scope.values:
                        self.theirs.value(node.expr)
                case "If" if (status := returned(node)) is not None:
                    self.check(node.cond, status)
                case "If":
                    return ("if", node)
                case "For":
                    return ("for", node)
                case "While":
                    return ("while", node)
                case "Assignment":
                    return ("store", node)
                case "Return":
                    return ("end", node)
                case other:
                    raise NotRead(f"a statement is not read: {other}")
        raise NotRead("the function does not return")

    def declare(self, node: CNode) -> None:
        """A constant local has its value now; another one is a cell, which its first store gives a buffer."""
        of = c_type(node.type)
        if of not in INTEGERS and of not in FLOATS or node.init is None or node.storage:
            raise NotRead(f"the variable {node.name} is not read")
        value = self.theirs.converted(self.theirs.value(node.init), of)
        scope = self.theirs.scope
        self.require_new(node.name)
        if "const" in node.quals:
            scope.values[node.name] = value
        else:
            scope.arrays[node.name] = Memory("", of, self.theirs.math.whole(1), True, declared=of)
            self.depths[node.name] = len(self.frames)

    def require_new(self, name: str) -> None:
        """A name must not hide another one."""
        if name in self.theirs.scope.values or name in self.theirs.scope.arrays:
            raise NotRead(f"the variable {name} hides another")

    def check(self, condition: CNode, status: CNode) -> None:
        """The text returns a status under a condition: the next trap of the tensor function, or one that never is."""
        math = self.theirs.math
        found = self.theirs.condition(condition)
        if math.facts.proves(math.negation(found)):
            return
        if not self.ours.obligations:
            raise NotRead(f"the text returns where the tensor function does not trap: {found!r}")
        kind, wanted = self.ours.obligations.pop(0)
        value = self.theirs.value(status).term
        if not value.is_constant or value.value != trap_status(self.functions.file, self.macro, kind):
            raise NotRead(f"the trap {kind!r} has another status in the text")
        if found is not wanted and not math.facts.same(found, wanted):
            raise NotRead(f"the trap {kind!r} is where {wanted!r}, and in the text where {found!r}")
        math.assume(math.negation(found))

    # --- both ----------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """A block begins."""
        scope = self.theirs.scope
        self.frames.append(
            BlockFrame(self.ours.math.facts, self.theirs.math.facts, dict(scope.values), dict(scope.arrays))
        )
        self.ours.math.facts = self.ours.math.facts.copy()
        self.theirs.math.facts = self.theirs.math.facts.copy()

    def close(self) -> None:
        """A block ends."""
        frame = self.frames.pop()
        scope = self.theirs.scope
        bound = {k: m for k, m in scope.arrays.items() if m.key and k in frame.arrays}
        scope.values, scope.arrays = frame.values, {**frame.arrays, **bound}
        self.ours.math.facts, self.theirs.math.facts = frame.ours, frame.theirs

    def match_end(self, ours: None, theirs: CNode | None) -> None:
        """Both end; the status is OK."""
        if theirs is None or next(iter(self.c), None) is not None:
            raise NotRead("the text goes on behind its end")
        value = self.theirs.value(theirs.expr).term
        if not value.is_constant or value.value != self.functions.file.constants.get(f"{self.macro}_OK"):
            raise NotRead("the text does not return OK at its end")
        if self.frames:
            raise NotRead("the text returns inside a block")

    def match_close(self, ours: None, theirs: None) -> None:
        """A block ends."""
        self.close()

    def match_else(self, ours: None, theirs: None) -> None:
        """The other arm of a choice begins."""
        condition = self.conditions.pop()
        self.close()
        self.open()
        for math in (self.ours.math, self.theirs.math):
            math.assume(math.negation(condition))

    def match_for(self, ours: tuple[Term, tensor.For], node: CNode) -> None:
        """Loops: `for (T i = 0; i < extent; ++i)`."""
        extent, stmt = ours
        name, of, bound = counted_loop(node)
        if not is_fixed(bound, self.theirs):
            raise NotRead(f"the bound of the loop {name} may change in it")
        value = self.theirs.value(bound)
        try:
            nest = self.nest(stmt, extent, value.term)
        except NotRead:
            if self.carry(stmt):
                self.c.add([node])  # it is held against the other order
                return
            raise
        require_bound(name, of, value, self.theirs)
        self.open()
        place = self.ours.math.whole(0)
        for loop, count in nest:
            most = self.ours.math.facts.interval(count)[1]
            atom = self.functions.table.fresh(loop.var.name, "int", (0, most - 1))
            self.ours.env[loop.var] = atom = self.ours.math.whole(0) if most == 1 else atom
            place = self.ours.math.add(self.ours.math.mul(place, count), atom)
            for math in (self.ours.math, self.theirs.math):
                math.assume(math.compare("lt", atom, count))
        self.theirs.math.assume(self.theirs.math.compare("lt", place, value.term))
        self.require_new(name)
        self.theirs.scope.values[name] = CValue(of, place)
        self.tir.add([nest[-1][0].body, "close"])
        self.c.add([node.stmt, "close"])

    def nest(self, outer: tensor.For, extent: Term, wanted: Term) -> list[tuple[tensor.For, Term]]:
        """The loops directly inside one another that a loop of the text stands for, with their extents: the first one,
        or so many that the product of the extents is its bound. Its variable counts their iterations in order."""
        loops = [(outer, extent)]
        total = extent
        while total is not wanted and isinstance(loops[-1][0].body, tensor.For):
            inner = loops[-1][0].body
            if inner.start is not None:
                break
            count = self.ours.value(inner.extent)
            if self.ours.obligations or self.ours.math.facts.interval(count)[1] < 1:
                break
            total = self.ours.math.mul(total, count)
            loops.append((inner, count))
        if total is wanted:
            return loops
        self.require_equal(extent, wanted, f"the extent of the loop {outer.var.name}")
        return loops[:1]

    def carry(self, stmt: tensor.For) -> bool:
        """Go on with the loops in another order, if that is the same: nobody else has the memory that is stored to."""
        found = None if stmt in self.parts else carried_in(stmt)
        if found is None or not self.is_alone(found[1].buffer):
            return False
        self.parts.append(stmt)
        self.moved.append(found[1].buffer)
        self.tir.add([found[0]])
        return True

    def is_alone(self, buffer: tensor.Buffer) -> bool:
        """Whether a buffer is memory to which a restrict pointer leads."""
        pointers = [r for _, t, r in self.function.params if t.endswith("*")]
        return buffer in self.used and pointers[self.used.index(buffer)]

    def match_if(self, ours: tuple[Term, tensor.If], node: CNode) -> None:
        """Choices."""
        condition, stmt = ours
        found = self.theirs.condition(node.cond)
        self.require_equal(condition, found, "the condition of a choice")
        if (stmt.otherwise is None) != (node.iffalse is None):
            raise NotRead("one of two choices has no other arm")
        self.open()
        for math in (self.ours.math, self.theirs.math):
            math.assume(condition)
        if stmt.otherwise is None:
            self.tir.add([stmt.then, "close"])
            self.c.add([node.iftrue, "close"])
            return
        self.conditions.append(condition)
        self.tir.add([stmt.then, "else", stmt.otherwise, "close"])
        self.c.add([node.iftrue, "else", node.iffalse, "close"])

    def match_while(self, stmt: tensor.While, node: CNode) -> None:
        """Loops by a condition, which is asked anew before each iteration."""
        self.advance()
        self.open()
        condition = self.ours.value(stmt.condition)
        if self.ours.obligations:
            raise NotRead("the condition of a while loop may trap")
        self.require_equal(condition, self.theirs.condition(node.cond), "the condition of a loop")
        for math in (self.ours.math, self.theirs.math):
            math.assume(condition)
        self.tir.add([stmt.body, "close"])
        self.c.add([node.stmt, "close"])

    def match_store(self, ours: tuple[tensor.Buffer, Memory, tuple[Term, ...], Term], node: CNode) -> None:
        """Stores: the same element gets an equal value."""
        buffer, memory, index, value = ours
        if node.op != "=":
            raise NotRead(f"the assignment {node.op} is not read")
        found, where = self.target(node.lvalue, buffer, memory)
        given = self.theirs.converted(self.theirs.value(node.rvalue), found.declared or found.element)
        if found.key != memory.key:
            raise NotRead(f"the text stores to {found.key}, and the tensor function to {buffer.name}")
        for a, b in zip(index, where, strict=True):
            self.require_equal(a, b, f"the element of {buffer.name} that is stored to")
        self.require_equal(value, given.term, f"what is stored to {buffer.name}")
        self.stored.add(memory.key)

    def target(self, node: CNode, buffer: tensor.Buffer, memory: Memory) -> tuple[Memory, tuple[Term, ...]]:
        """What an assignment of the text writes to."""
        scope = self.theirs.scope
        if type(node).__name__ == "ArrayRef":
            found, where = self.theirs.place(node, {id(node.subscript): self.theirs.value(node.subscript)})
            if not found.written:
                raise NotRead("the text stores to what is only read")
            return found, (where,)
        if type(node).__name__ != "ID" or node.name not in scope.arrays or not scope.arrays[node.name].declared:
            raise NotRead("an assignment to something else than an element or a variable")
        cell = scope.arrays[node.name]
        if cell.key:
            return cell, ()
        taken = {m.key for m in scope.arrays.values()}
        if not memory.declared or memory.key in taken:
            raise NotRead(f"the text stores to {node.name}, and the tensor function to {buffer.name}")
        if not variable_holds(cell.declared, memory.element):
            raise NotRead(f"the variable {node.name} is {cell.declared}, and {buffer.name} holds {buffer.dtype}")
        if self.depths[node.name] > self.depths[memory.key]:
            raise NotRead(f"the variable {node.name} ends before {buffer.name} does")
        scope.arrays[node.name] = Memory(memory.key, memory.element, memory.count, True, cell.declared)
        return scope.arrays[node.name], ()

    def require_equal(self, a: Term, b: Term, what: str) -> None:
        """Two terms have to be shown to be equal."""
        if a is not b and not self.theirs.math.facts.same(a, b):
            raise NotRead(f"{what} is {a!r}, and in the text {b!r}")
