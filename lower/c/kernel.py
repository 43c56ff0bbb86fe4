"""A tensor function as a C function (specs/lower.md, "c").

The loops and the order of operations are those of the kernel: the order of additions is part of its meaning (M10). A
kernel that can trap returns a status, any other returns nothing. Parameters that the body never names are left out. A
buffer of one element that the kernel allocates becomes a local variable; other allocations are parameters, for the
plan says where they lie.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Literal

from assay.lower.c import math as c_math
from assay.lower.c.expr import BufferPlace, ExprWriter
from assay.lower.c.helpers import Library
from assay.lower.c.names import comment, text_literal
from assay.lower.c.ops import ATOM, SHORT, Code, Ops, integer_constant, scalar_type
from assay.lower.c.pointers import Pointers, pointed_buffers
from assay.lower.c.range import Known, Ranges
from assay.lower.c.tables import element_names, needs_math, static_table, storage
from assay.semantics import tensor
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Crash, Invalid, Unsupported, placed
from assay.semantics.integers.ranges import Interval
from assay.semantics.scalar import Const, Expr, Load, Var, apply
from assay.semantics.tensor.blocks import without_blocks
from assay.semantics.walk import Worklist, scoped

TRAPS = {
    "assertion": ("ASSERT", "an assertion of a kernel does not hold"),
    "division by zero": ("DIVISION_BY_ZERO", "a kernel divides an integer by zero"),
    "shift": ("SHIFT", "a kernel shifts by less than 0, or by the width of the integer or more"),
    "cast": ("CAST", "a kernel casts a number to an integer that cannot hold it"),
    "out of bounds": ("OUT_OF_BOUNDS", "an index of a kernel is outside of its buffer"),
    "shape": ("SHAPE", "a buffer in a kernel has another size than is asked for"),
    "store to constant": ("STORE_TO_CONSTANT", "a kernel stores to what is read-only"),
    "undeclared access": ("UNDECLARED_ACCESS", "a kernel touches what it does not declare"),
    "misaligned": ("MISALIGNED_VIEW", "a buffer in a kernel does not begin where it must"),
    "wrong scope": ("WRONG_SCOPE", "a kernel uses memory of another scope"),
}
"""Kinds of trap that generated code reports: the end of the name of the status, and what it means."""

MOST_CONSTANT_BYTES = 1 << 20
"""What the constants inside one kernel may take; larger ones belong into the module's table."""

Role = Literal["input", "output", "scratch", "constant"]


READ_ONLY: tuple[Role, ...] = ("input", "constant")


@dataclass(frozen=True)
class KernelParameter:
    """A parameter of the C function: which buffer of the kernel it is, by role and number; a constant by its number
    among those that the kernel holds."""

    role: Role
    index: int
    name: str
    type: str


@dataclass(frozen=True)
class KernelSize:
    """A symbol of a kernel, which is a parameter of the C function: its name there, and its type."""

    symbol: Var
    name: str
    type: str


@dataclass(frozen=True)
class CKernel:
    """The C of one kernel; `parameters` are those that the body names, and so are `sizes`, which come next."""

    name: str
    source: str
    parameters: tuple[KernelParameter, ...]
    tables: tuple[str, ...]
    body: tuple[str, ...]
    held: tuple[str, ...] = ()
    """The constants of the module's table that it holds and is handed, for they are not in the source."""
    last: str = ""
    """One more parameter, behind the sizes: a resource handle, or where the message of a trap goes."""
    sizes: tuple[KernelSize, ...] = ()
    symbols: Mapping[Var, tuple[int, int]] = field(default_factory=dict)
    """All symbols and scalars of the kernel, and where they may lie."""

    def signature(self, restrict: Container[KernelParameter] = ()) -> str:
        """Name and parameters; `restrict` has the pointers that share no byte that is written."""
        words = []
        for p in self.parameters:
            const = "const " if p.role in READ_ONLY else ""
            words.append(f"{const}{p.type} *{'restrict ' if p in restrict else ''}{p.name}")
        words += [f"{s.type} {s.name}" for s in self.sizes]
        words += [self.last] if self.last else []
        return f"{self.name}({', '.join(words) or 'void'})"

    def text(self, restrict: Container[KernelParameter], before: str = "") -> Iterator[str]:
        """The definition; `before` stands before its type."""
        yield from self.tables
        yield f"\n/* {comment(self.source)} */\nstatic {before}int {self.signature(restrict)}\n{{\n"
        yield from self.body
        yield "}\n"


@dataclass(frozen=True)
class KernelStyle:
    """What a kernel takes besides its buffers."""

    handle: bool = False
    """A resource handle, for which generated code has no use."""
    messages: bool = False
    """Where to say what has trapped, if it can."""


@dataclass(eq=False)
class _Writer:
    """Prints one kernel's body."""

    kernel: tensor.PrimFunc
    name: str
    macro: str
    library: Library
    style: KernelStyle
    symbols: Mapping[Var, Interval]
    """Where the symbols of its shapes, and its scalars, lie at all steps that call it."""
    lines: list[str] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    depth: int = 1
    traps: bool = False
    work: Worklist[tensor.Stmt] = field(default_factory=lambda: Worklist([]))
    held: dict[str, BufferPlace] = field(default_factory=dict)  # the constants that are handed over, by name

    def __post_init__(self) -> None:
        # the plan numbers what the function allocates itself; cells that stand for its choices have one element
        number = {b: i for i, b in reversed(list(enumerate(self.kernel.allocations)))}
        self.kernel = without_blocks(self.kernel, pointers=True)
        self.pointed = pointed_buffers(self.kernel)
        allocations = [s for s in tensor.program_order(self.kernel.body) if isinstance(s, tensor.Allocate)]
        self.scratch = {id(s): number[s.buffer] for s in allocations if s.buffer in number}
        self.names = self.library.locals()
        self.last = self.names.fresh("handle" if self.style.handle else "message")
        self.ranges = Ranges()
        ops = Ops(self.library, partial(c_math.function, self.library))
        self.exprs = ExprWriter(ops, self.names, self.ranges, self.line, self.trap)
        self.pointers = Pointers(self.kernel.name, self.library, self.exprs)
        self.places: list[tuple[Role, int, tensor.Buffer, BufferPlace]] = []

    def line(self, text: str) -> None:
        self.lines.append(f"{'    ' * self.depth}{text}\n")

    def gap(self) -> Callable[..., None]:
        """A place here for lines of which only what follows says whether they are needed: the call puts them there."""
        at, indent = len(self.lines), "    " * self.depth
        self.lines.append("")

        def insert(*texts: str) -> None:
            self.lines[at] = "".join(f"{indent}{text}\n" for text in texts)

        return insert

    def trap(self, kind: str, message: str = "") -> str:
        self.traps = True
        leave = f"return {self.macro}_TRAP_{TRAPS[kind][0]};"
        if not self.style.messages:
            return leave
        said = f"{self.kernel.name}: {kind}{': ' if message else ''}{message}"
        return f"*{self.last} = {text_literal(said)}; {leave}"

    def run(self) -> CKernel:
        kernel = self.kernel
        sizes = list(self.enter_symbols())
        for i, b in enumerate(kernel.inputs):
            self.exprs.buffers[b] = self.parameter("input", i, b)
        for i, b in enumerate(kernel.outputs):
            self.exprs.buffers[b] = self.parameter("output", i, b)
        locals_: dict[str, str] = {}
        for b in (*kernel.params, *kernel.allocations):
            self.enter_sizes(b, locals_)
        insert = self.gap()
        self.enter(kernel.body)
        for stmt in self.work:
            self.statement(stmt)
        last = ""
        if self.style.handle:
            last = f"void *{self.last}"
            self.line(f"(void){self.last};")
        elif self.style.messages and self.traps:
            last = f"const char **{self.last}"
        self.line(f"return {self.macro}_OK;")
        used = tuple(
            KernelParameter(role, i, place.text, storage(b.dtype, f"buffer {b.name} of {kernel.name}"))
            for role, i, b, place in self.places
            if place.used
        )
        insert(*(f"(void){name};" for name in locals_.values() if name not in self.exprs.used))
        return CKernel(
            self.name,
            kernel.name,
            used,
            tuple(self.tables),
            tuple(self.lines),
            tuple(self.held),
            last,
            tuple(s for s in sizes if s.name in self.exprs.used),
            self.symbols,
        )

    def enter_symbols(self) -> Iterator[KernelSize]:
        """The symbols as parameters, open for the whole body."""
        for v, within in self.symbols.items():
            known = Known(*within)
            made = KernelSize(v, self.names.fresh(v.name), scalar_type(v.dtype, known))
            self.exprs.enter(v, Code(made.name, made.type), known)
            yield made

    def enter_sizes(self, buffer: tensor.Buffer, locals_: dict[str, str]) -> None:
        """A local for each dim of a buffer that is neither a number nor a symbol; equal ones have one."""
        for d in buffer.shape:
            if isinstance(d, Expr) and not isinstance(d, Var):
                code, _ = self.exprs.value(self.exprs.fold(d))
                if code.text not in locals_:
                    locals_[code.text] = self.exprs.local(code, "size").text
                self.exprs.sizes[d] = Code(locals_[code.text], code.type)

    def parameter(self, role: Role, index: int, buffer: tensor.Buffer) -> BufferPlace:
        storage(buffer.dtype, f"buffer {buffer.name} of {self.kernel.name}")
        place = BufferPlace(self.names.fresh(buffer.name), constant=role in READ_ONLY)
        self.places.append((role, index, buffer, place))
        return place

    # --- statements ----------------------------------------------------------------------------------------------

    def enter(self, stmt: tensor.Stmt, *after: Callable[[], None]) -> None:
        """Print `stmt` next, then do `after`."""
        for call in reversed(after):
            self.work.on_leave(call)
        self.work.add([stmt])

    def close(self) -> None:
        self.depth -= 1
        self.line("}")

    def open(self, head: str) -> None:
        self.line(head)
        self.depth += 1

    def statement(self, stmt: tensor.Stmt) -> None:
        match stmt:
            case tensor.Seq():
                facts = len(self.ranges.facts)
                self.work.on_leave(self.forget, facts)
                self.work.add(stmt.body)
            case tensor.For():
                self.loop(stmt)
            case tensor.While():
                self.while_loop(stmt)
            case tensor.If():
                self.branch(stmt)
            case tensor.LetStmt():
                self.let(stmt)
            case tensor.Allocate():
                self.allocate(stmt)
            case tensor.AllocateConst():
                self.allocate_const(stmt)
            case tensor.Alias():
                self.alias(stmt)
            case tensor.Call():
                self.call(stmt)
            case tensor.Store():
                self.store(stmt)
            case tensor.Assert():
                root = self.exprs.fold(stmt.condition)
                condition, known = self.exprs.value(root)
                if known is None or known.low == 0:
                    self.open(f"if (!{condition.at(ATOM)}) {{ /* {comment(stmt.message)} */")
                    self.line(self.trap(stmt.kind, stmt.message))
                    self.close()
                self.ranges.assume(root, True)
            case tensor.Evaluate():
                self.exprs.checks(self.exprs.fold(stmt.value))
            case _:
                raise Crash(f"no such statement: {type(stmt).__name__}")

    def forget(self, facts: int) -> None:
        """Back to the conditions that held before."""
        del self.ranges.facts[facts:]

    def scope(self, body: tensor.Stmt, *after: Callable[[], None]) -> None:
        """`body` as the inside of braces that are open already."""
        facts = len(self.ranges.facts)
        self.enter(body, partial(self.forget, facts), *after)

    def loop(self, stmt: tensor.For) -> None:
        root = self.exprs.fold(stmt.extent)
        known = self.exprs.bounds(root)
        if known is None:
            raise Invalid(f"the extent of loop {stmt.var.name} is {stmt.extent.dtype}", label="c.C14")
        if known.high <= 0:
            self.exprs.checks(root)
            return
        extent, _ = self.exprs.value(root)
        if stmt.var.dtype is not stmt.extent.dtype:
            raise Unsupported(
                f"loop {stmt.var.name} is {stmt.var.dtype}, its extent {stmt.extent.dtype}: one dtype is needed here",
                where=stmt.span,
                label="c.C5",
            )
        last, type_ = Known(0, known.high - 1), extent.type
        if known.low == known.high == 1:
            leave = self.exprs.enter(stmt.var, integer_constant(0, stmt.var.dtype, type_), last)
            self.scope(stmt.body, leave)
            return
        if extent.depth:
            extent = self.exprs.local(extent, "extent")
        name = self.names.fresh(stmt.var.name)
        self.open(f"for ({type_} {name} = 0; {name} < {extent.operand}; ++{name}) {{")
        leave = self.exprs.enter(stmt.var, Code(name, type_), last)
        facts = len(self.ranges.facts)
        if known.low < known.high:
            self.ranges.assume(apply("lt", stmt.var, root), True)
        self.enter(stmt.body, partial(self.forget, facts), leave, self.close)

    def while_loop(self, stmt: tensor.While) -> None:
        at = len(self.lines)
        self.open("for (;;) {")
        root = self.exprs.fold(stmt.condition)
        condition, known = self.exprs.value(root)
        if len(self.lines) == at + 1 and condition.depth:
            self.lines[at] = f"{'    ' * (self.depth - 1)}while ({condition.text}) {{\n"
        elif known is None or known.low == 0:
            self.open(f"if (!{condition.at(ATOM)}) {{")
            self.line("break;")
            self.close()
        facts = len(self.ranges.facts)
        self.ranges.assume(root, True)
        self.enter(stmt.body, partial(self.forget, facts), self.close)

    def branch(self, stmt: tensor.If) -> None:
        root = self.exprs.fold(stmt.condition)
        condition, known = self.exprs.value(root)
        if known is not None and known.is_single:
            chosen = stmt.then if known.low else stmt.otherwise
            if chosen is not None:
                self.scope(chosen)
            return
        facts = len(self.ranges.facts)

        def otherwise() -> None:
            self.forget(facts)
            if stmt.otherwise is None:
                self.close()
                return
            self.depth -= 1
            self.open("} else {")
            self.ranges.assume(root, False)
            self.enter(stmt.otherwise, partial(self.forget, facts), self.close)

        self.open(f"if ({condition.text}) {{")
        self.ranges.assume(root, True)
        self.enter(stmt.then, otherwise)

    def let(self, stmt: tensor.LetStmt) -> None:
        root = self.exprs.fold(stmt.value)
        if isinstance(root, Const):
            self.scope(stmt.body, scoped(self.exprs.literals, stmt.var, root))
            return
        code, known = self.exprs.value(root)
        code = self.exprs.local(code, stmt.var.name)
        insert = self.gap()
        leave = self.exprs.enter(stmt.var, code, known)

        def close() -> None:
            leave()
            if code.text not in self.exprs.used:
                insert(f"(void){code.text};")

        self.scope(stmt.body, close)

    def allocate(self, stmt: tensor.Allocate) -> None:
        buffer = stmt.buffer
        if any(d != 1 for d in buffer.shape) or buffer in self.pointed:
            memory = self.parameter("scratch", self.scratch[id(stmt)], buffer)
            self.scope(stmt.body, scoped(self.exprs.buffers, buffer, memory))
            return
        place = BufferPlace(self.names.fresh(buffer.name), scalar=True)
        leave = scoped(self.exprs.buffers, buffer, place)
        type_ = scalar_type(buffer.dtype, None)
        zero = {"float": "0.0f", "double": "0.0"}.get(type_, "0")
        insert = self.gap()

        def declare() -> None:
            leave()
            if place.used:
                insert(f"{type_} {place.text} = {zero};", *([] if place.read else [f"(void){place.text};"]))

        self.scope(stmt.body, declare)

    def allocate_const(self, stmt: tensor.AllocateConst) -> None:
        buffer, of = stmt.buffer, dtype(stmt.contents.dtype)
        if stmt.index in self.library.outside:
            if stmt.index not in self.held:
                self.held[stmt.index] = self.parameter("constant", len(self.held), buffer)
            self.scope(stmt.body, scoped(self.exprs.buffers, buffer, self.held[stmt.index]))
            return
        shared = self.library.constants.get(stmt.index)
        if shared is None and stmt.contents.nbytes > MOST_CONSTANT_BYTES:
            raise Unsupported(
                f"{self.kernel.name} holds {stmt.contents.nbytes} bytes of constants in {buffer.name}; more than"
                f" {MOST_CONSTANT_BYTES} belong into the module's table of constants",
                where=stmt.span,
                label="c.C3",
            )
        own = self.library.top("t", f"{self.kernel.name}_{buffer.name}") if shared is None else ""
        place = BufferPlace(shared or element_names(own, stmt.contents, of), constant=True)
        leave = scoped(self.exprs.buffers, buffer, place)

        def print_table() -> None:
            leave()
            if place.used and shared is not None:
                self.library.used_constants.add(stmt.index)
            elif place.used:
                self.library.uses_math |= needs_math(stmt.contents, of)
                self.tables[index] = "\n" + "".join(static_table(own, stmt.contents, of))

        index = len(self.tables)
        self.tables.append("")
        self.scope(stmt.body, print_table)

    def alias(self, stmt: tensor.Alias) -> None:
        self.enter_sizes(stmt.view.buffer, {})
        source = self.exprs.place(stmt.view.source)
        place, declaration = self.pointers.view(stmt.view)
        leave, insert = scoped(self.exprs.buffers, stmt.view.buffer, place), self.gap()

        def declare() -> None:
            leave()
            if place.used:
                source.used = source.read = True
                insert(declaration)

        self.scope(stmt.body, declare)

    def call(self, stmt: tensor.Call) -> None:
        """A function that the user writes."""
        failed = ""
        if self.style.messages:
            self.traps = True
            failed = f"*{self.last} = {text_literal(f'{self.kernel.name}: the extern {stmt.function} has failed')};"
        for line in list(self.pointers.call(stmt, f"{self.macro}_OK", failed)):
            self.line(line)

    def store(self, stmt: tensor.Store) -> None:
        buffer = stmt.buffer
        place = self.exprs.place(buffer)
        if place.constant:
            raise Invalid(
                f"{self.kernel.name} stores to {buffer.name}, which it may only read", where=stmt.span, label="c.C4"
            )
        target = self.exprs.target(Load(buffer.dtype, buffer, tuple(map(self.exprs.fold, stmt.indices))))
        value, _ = self.exprs.value(self.exprs.fold(stmt.value))
        where = target()
        if not place.scalar and buffer.dtype.name in SHORT:
            text = f"{self.library.use(f'store_{SHORT[buffer.dtype.name]}')}({value.text})"
        elif not place.scalar and value.type == "int":
            text = f"(uint8_t){value.operand}"
        else:
            text = value.text
        if where is None:
            self.line(f"(void)({text});")
        elif where == text and place.scalar:
            self.line(f"(void){text};")  # its own value
        else:
            self.line(f"{where} = {text};")


def write_kernel(
    kernel: tensor.PrimFunc,
    name: str,
    macro: str,
    library: Library,
    style: KernelStyle = KernelStyle(),
    symbols: Mapping[Var, Interval] = MappingProxyType({}),
) -> CKernel:
    """The C of `kernel` as a function called `name`, which returns a status; statuses start with `macro`. `symbols`
    says where its symbols and scalars lie."""
    for s in kernel.scalars:
        if not s.dtype.is_integer:
            raise Unsupported(
                f"{kernel.name} has the scalar parameter {s.name}, which is {s.dtype}; C is generated for whole"
                " numbers",
                label="c.C15",
            )
    with placed(kernel.name):
        return _Writer(kernel, name, macro, library, style, symbols).run()
