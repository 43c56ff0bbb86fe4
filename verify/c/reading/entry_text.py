"""What the entry of the file does, call by call (specs/verify.md, "c").

Pointers are followed as an object that the caller gives, or a table, and an offset in bytes. What has no place in an
entry is not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from assay.lower.c.source import CSource
from assay.semantics.walk import Worklist
from assay.verify.c.reading.arguments import ArgumentCheck, same_function
from assay.verify.c.reading.parse import CFile, c_type
from assay.verify.c.reading.preprocess import NotRead
from assay.verify.c.reading.sizes import PLAN, EntrySizes, compares
from assay.verify.c.reading.statements import is_name, literal_number
from assay.verify.c.reading.terms import Term
from assay.verify.c.reading.values import INTEGERS, CNode

Act: TypeAlias = tuple[str, tuple[Any, ...]]
"""What the entry does: call (name, pointers, numbers), assert (condition), if (pointer), else, end, loop, continue,
leave, copy (to, from, bytes)."""
LOOPS = "loops"
"""The bytes that say whether each loop begins anew."""
AGAIN = "again"
"""The pointer that leads to them."""


@dataclass(frozen=True)
class Pointer:
    """An address: an object, how many bytes behind its beginning, and the type of what it leads to."""

    object: str
    offset: Term
    type: str

    @property
    def place(self) -> tuple[str, Term]:
        """Where it leads to, whatever lies there."""
        return self.object, self.offset


@dataclass
class EntryText:
    """Follows the entry. `wanted` is what the check of the arguments has to be."""

    file: CFile
    source: CSource
    sizes: EntrySizes
    wanted: ArgumentCheck
    known: dict[str, Pointer] = field(default_factory=dict)
    state: dict[str, Pointer] = field(default_factory=dict)
    buffers: list[str] = field(default_factory=list)
    begun: list[CNode] = field(default_factory=list)
    """The declarations by which a structure of sizes is filled."""
    left: str = ""
    """Why the check of the arguments is not what it has to be; what comes behind it is looked at all the same."""
    asked: bool = False
    """Whether the check of the arguments was called."""
    checked: bool = False
    """Whether the entry has been left where that refused."""
    loops: int = 0
    """How many bytes say whether a loop begins anew."""
    around: list[int] = field(default_factory=list)
    """The numbers of the loops around."""

    def __post_init__(self) -> None:
        self.name, self.macro = self.source.name, self.source.macro
        self.ok = f"{self.macro}_OK"
        self.zero = self.sizes.ours.math.whole(0)
        self.run = self.file.functions.get(f"{self.name}_run")

    def acts(self) -> Iterator[Act]:
        """What the entry does, in its order. NotRead for what has no place in an entry."""
        if self.run is None:
            raise NotRead(f"there is no function {self.name}_run")
        given = [(a.name, "int64_t") for a in self.source.sizes]
        if [(n, t) for n, t, _ in self.run.params[: len(given)]] != given:
            raise NotRead("the entry takes other sizes")
        for name, of, _ in self.run.params[len(given) :]:
            self.known[name] = Pointer(name, self.zero, of)
        for name, (of, _, _) in self.file.tables.items():
            self.known[name] = Pointer(name, self.zero, f"{of}*")
        work: Worklist[Any] = Worklist(self.run.tree.body.block_items or [])
        returned = False
        for node in work:
            if isinstance(node, str):
                if node == "leave":
                    self.around.pop()
                yield (node, ())
                continue
            if returned:
                raise NotRead("the entry goes on behind its end")
            if type(node).__name__ == "Return" and is_name(node.expr, "status"):
                returned = True
                continue
            acts, more = self.statement(node)
            yield from acts
            work.add(more)
        if not returned or not self.checked:
            raise NotRead("the entry does not return its status")

    def statement(self, node: CNode) -> tuple[list[Act], list[Any]]:
        """What a statement does, and those that come next."""
        match type(node).__name__:
            case "Decl":
                self.declare(node)
            case "If" if not self.checked:
                self.before(node)
            case "If":
                return self.step(node)
            case "DoWhile" if self.checked:
                return self.loop(node)
            case "Assignment" if self.around and self.is_again(node, 1) == self.around[-1]:
                return [("continue", ())], []
            case other:
                raise NotRead(f"the entry has a statement that is not read: {other}")
        return [], []

    # --- before the first step -------------------------------------------------------------------------------------

    def declare(self, node: CNode) -> None:
        """A local: a pointer that does not change, what parts are handed, the sizes, the check of the arguments, the
        status."""
        of, init = c_type(node.type), node.init
        if node.name == "buffers" and of == "void[]*":
            self.buffers = [self.pointer(e).object for e in init.exprs]
            if literal_number(node.type.dim) != len(self.buffers):
                raise NotRead("the array of the arguments has another length")
        elif node.name == "status" and of == "int":
            self.status(node)
        elif of in (f"struct {self.name}_plan", f"struct {self.name}_plan*") and not self.state:
            self.begin(node)
        elif node.name == LOOPS and of == "unsigned char[]" and init is None and not node.storage:
            self.require_new(LOOPS)
            self.loops = literal_number(node.type.dim)
            self.known[LOOPS] = Pointer(LOOPS, self.zero, "unsigned char*")
        elif of == f"struct {self.name}_state" and type(init).__name__ == "InitList":
            members = self.file.structs.get(f"{self.name}_state", {})
            self.state = dict(zip(members, map(self.pointer, init.exprs), strict=True))
        elif of == f"struct {self.name}_state*":
            if type(init).__name__ != "UnaryOp" or init.op != "&":
                raise NotRead("what parts are handed is not read")
        elif of.endswith("*") and "const" in getattr(node.type, "quals", ()):
            found = self.pointer(init)
            before = self.known.get(node.name, found)
            if before.place != found.place or (node.name == AGAIN) != (found.object == LOOPS):
                raise NotRead(f"the pointer {node.name} hides another")
            self.known[node.name] = Pointer(*found.place, of)
        else:
            raise NotRead(f"the local {node.name} of the entry is not read")

    def require_new(self, name: str) -> None:
        """A name must not be that of an argument or a table."""
        if name in self.known:
            raise NotRead(f"the local {name} hides another")

    def begin(self, node: CNode) -> None:
        """The structure of the sizes, and the pointer to it, which every part is handed."""
        self.require_new(node.name)
        self.begun.append(node)
        if len(self.begun) == 2:
            self.known[PLAN] = Pointer(PLAN, self.zero, c_type(node.type))

    def status(self, node: CNode) -> None:
        """The status begins as OK in a part, and in the entry as what the sizes, or the check of the arguments, say."""
        if is_name(node.init, self.ok) and self.checked:
            return
        if self.checked or self.asked:
            raise NotRead("the status begins anew")
        if not self.sizes.is_planned:
            self.ask(node.init)
        elif len(self.begun) != 2 or not self.sizes.is_begun(self.begun[0], self.begun[1], node):
            raise NotRead("the status does not begin as that of the sizes")

    def ask(self, node: CNode) -> None:
        """The check of the arguments."""
        call = node.expr if type(node).__name__ == "Cast" and c_type(node.to_type) == "int" else node
        is_check = type(call).__name__ == "FuncCall" and call.name.name == f"{self.name}_check"
        handed = ["buffers", *([PLAN] if self.sizes.is_planned else [])]
        if not is_check or [getattr(a, "name", "") for a in call.args.exprs] != handed:
            raise NotRead("the status does not begin as that of the arguments")
        if self.buffers != self.wanted.buffers:
            raise NotRead(f"the arguments that are checked are {', '.join(self.buffers)}")
        for function, text in self.wanted.functions.items():
            if not same_function(self.file, function, text):
                self.left = self.left or f"{function} is not the check of the arguments that it has to be"
        self.asked = True

    def before(self, node: CNode) -> None:
        """`if (status == OK) { status = (int)check(buffers, plan); }`, then `if (status != OK) { return status; }`."""
        body = node.iftrue.block_items or []
        if node.iffalse is not None or len(body) != 1:
            raise NotRead("the entry does not end where its arguments are refused")
        (only,) = body
        kind = type(only).__name__
        if compares(node.cond, "!=", self.ok) and self.asked and kind == "Return" and is_name(only.expr, "status"):
            self.checked = True
        elif compares(node.cond, "==", self.ok) and len(self.begun) == 2 and not self.asked and is_status(only):
            self.ask(only.rvalue)
        else:
            raise NotRead("the entry does not end where its arguments are refused")

    # --- steps -----------------------------------------------------------------------------------------------------

    def step(self, node: CNode) -> tuple[list[Act], list[Any]]:
        """One `if` of the entry: a step, the copies at the end, an assertion on sizes, or a choice."""
        then = node.iftrue.block_items or []
        if compares(node.cond, "==", self.ok) and node.iffalse is None:
            if len(then) == 1 and type(then[0]).__name__ == "Assignment":
                return self.called(then[0])
            return [self.copy(s) for s in then], []
        cond = node.cond
        if type(cond).__name__ == "BinaryOp" and cond.op == "&&" and compares(cond.left, "==", self.ok):
            test = cond.right
            if len(then) == 1 and is_status(then[0]) and is_name(then[0].rvalue, f"{self.macro}_BAD_SIZE"):
                if node.iffalse is not None:
                    raise NotRead("an assertion on sizes has another arm")
                return [("assert", (self.sizes.theirs.condition(test),))], []
            reads = type(test).__name__ == "BinaryOp" and test.op == "!=" and type(test.left).__name__ == "UnaryOp"
            if reads and test.left.op == "*" and getattr(test.right, "value", "") == "0":
                where = self.pointer(test.left.expr)
                other = (node.iffalse.block_items or []) if node.iffalse is not None else []
                return [("if", (where,))], [*then, "else", *other, "end"]
        raise NotRead("an `if` of the entry is neither a step nor a choice")

    def loop(self, node: CNode) -> tuple[list[Act], list[Any]]:
        """`do { again[i] = 0u; ... } while (status == OK && again[i] != 0u);`"""
        first, *body = node.stmt.block_items or [None]
        number = self.is_again(first, 0)
        cond = node.cond
        goes_on = type(cond).__name__ == "BinaryOp" and cond.op == "&&" and compares(cond.left, "==", self.ok)
        asks = goes_on and type(cond.right).__name__ == "BinaryOp" and cond.right.op == "!="
        if number < 0 or number in self.around or not asks or self.again(cond.right.left) != number:
            raise NotRead("a loop of the entry is not read")
        if type(cond.right.right).__name__ != "Constant" or literal_number(cond.right.right) != 0:
            raise NotRead("a loop of the entry is not read")
        self.around.append(number)
        return [("loop", ())], [*body, "leave"]

    def again(self, node: CNode) -> int:
        """The number of the loop whose byte an expression is; -1: none."""
        if type(node).__name__ != "ArrayRef" or not is_name(node.name, AGAIN) or AGAIN not in self.known:
            return -1
        number = literal_number(node.subscript)
        return number if self.known[AGAIN].place == (LOOPS, self.zero) and number < self.loops else -1

    def is_again(self, node: CNode, value: int) -> int:
        """The number of the loop whose byte a statement sets to a value; -1: it does something else."""
        if type(node).__name__ != "Assignment" or node.op != "=" or type(node.rvalue).__name__ != "Constant":
            return -1
        return self.again(node.lvalue) if literal_number(node.rvalue) == value else -1

    def called(self, node: CNode) -> tuple[list[Act], list[Any]]:
        """The status becomes what a kernel, or a part of the entry, returns."""
        call = node.rvalue
        if not is_status(node) or type(call).__name__ != "FuncCall":
            raise NotRead("a step of the entry is no call")
        args = call.args.exprs if call.args else []
        name = call.name.name
        function = self.file.functions.get(name)
        if function is None:
            raise NotRead(f"the function {name} is not there")
        types = [t for _, t, _ in function.params]
        if types == [f"struct {self.name}_state*"]:
            return [], self.part(function.tree.body.block_items or [])
        if len(args) != len(types):
            raise NotRead(f"{name} is called with {len(args)} arguments")
        count = next((i for i, t in enumerate(types) if t in INTEGERS), len(types))
        numbers = self.sizes.values(args[count:], types[count:])
        return [("call", (name, tuple(map(self.pointer, args[:count])), tuple(numbers)))], []

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
        theirs = self.sizes.theirs
        return ("copy", (self.pointer(to), self.pointer(source), theirs.converted(theirs.value(size), "size_t").term))

    # --- pointers ----------------------------------------------------------------------------------------------------

    def pointer(self, node: CNode) -> Pointer:
        """The address that an expression is."""
        types: list[str] = []
        math, offset = self.sizes.ours.math, self.zero
        while True:
            match type(node).__name__:
                case "Cast":
                    types.append(c_type(node.to_type))
                    node = node.expr
                case "BinaryOp" if node.op == "+":
                    if self.pointee(node.left) != "unsigned char*":
                        raise NotRead("an offset is added to something else than bytes")
                    more = self.sizes.theirs.value(node.right)
                    if more.type not in INTEGERS:
                        raise NotRead("an offset of the entry is no number")
                    offset = math.add(offset, more.term)
                    node = node.left
                case "ID" if node.name in self.known:
                    found = self.known[node.name]
                    return Pointer(found.object, math.add(found.offset, offset), types[0] if types else found.type)
                case "StructRef" if is_name(node.name, "state") and node.field.name in self.state:
                    found = self.state[node.field.name]
                    return Pointer(found.object, math.add(found.offset, offset), types[0] if types else found.type)
                case other:
                    raise NotRead(f"a pointer of the entry is not read: {other}")

    def pointee(self, node: CNode) -> str:
        """The type of a pointer that an offset is added to."""
        return self.known[node.name].type if type(node).__name__ == "ID" and node.name in self.known else ""


def is_status(node: CNode) -> bool:
    """Whether a statement gives the status a value."""
    return type(node).__name__ == "Assignment" and node.op == "=" and is_name(node.lvalue, "status")
