"""A tensor function as a C function (specs/lower.md, "c").

The order of operations on each element is that of the kernel: the order of additions is part of its meaning (M10). So
are the loops, but where sizes are symbols (`assay.lower.c.rows`, `assay.lower.c.inward`). A kernel that can trap
returns a status, any other returns nothing. Parameters that the body never names are left out. A buffer of one element
that the kernel allocates becomes a local variable; other allocations are parameters, for the plan says where they lie.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

from assay.lower.c import math as c_math
from assay.lower.c.expr import BufferPlace, ExprWriter
from assay.lower.c.helpers import Library
from assay.lower.c.inward import Inward
from assay.lower.c.names import comment, text_literal
from assay.lower.c.ops import ATOM, CODED, Code, Ops, integer_constant, scalar_type
from assay.lower.c.pointers import Pointers, pointed_buffers, viewed_buffers
from assay.lower.c.range import Known, Ranges
from assay.lower.c.rows import Flat, Rows
from assay.lower.c.signature import READ_ONLY, TRAPS, CKernel, KernelParameter, KernelSize, KernelStyle, Role
from assay.lower.c.tables import STORAGE, element_names, needs_math, static_table
from assay.semantics import tensor
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Crash, Invalid, Unsupported, placed
from assay.semantics.integers.ranges import Interval
from assay.semantics.scalar import Const, Expr, Load, Var, apply
from assay.semantics.tensor.blocks import without_blocks
from assay.semantics.walk import Worklist, scoped

PLAIN = KernelStyle()

MOST_CONSTANT_BYTES = 1 << 20
"""What the constants inside one kernel may take; larger ones belong into the module's table."""


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
    shared: Collection[tensor.Buffer]
    """Its parameters that lie in the bytes of another at some step, element by element."""
    lines: list[str] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    depth: int = 1
    traps: bool = False
    work: Worklist[tensor.Stmt] = field(default_factory=lambda: Worklist([]))
    held: dict[str, BufferPlace] = field(default_factory=dict)  # the constants that are handed over, by name

    def __post_init__(self) -> None:
        # the plan numbers what the function allocates itself; cells that stand for its choices have one element
        number = {b: i for i, b in reversed(list(enumerate(self.kernel.allocations)))}
        given = self.kernel.params
        self.kernel = without_blocks(self.kernel, pointers=True)
        shared = {b for b, old in zip(self.kernel.params, given, strict=True) if old in self.shared}
        self.pointed = pointed_buffers(self.kernel)
        allocations = [s for s in tensor.program_order(self.kernel.body) if isinstance(s, tensor.Allocate)]
        self.scratch = {id(s): number[s.buffer] for s in allocations if s.buffer in number}
        self.names = self.library.locals()
        self.last = self.names.fresh("handle" if self.style.handle else "message")
        self.ranges = Ranges()
        ops = Ops(self.library, partial(c_math.function, self.library))
        self.exprs = ExprWriter(ops, self.names, self.ranges, self.line, self.trap)
        self.rows = Rows(self.exprs)
        self.inward = Inward(self.exprs, self.rows, {*shared, *self.pointed, *viewed_buffers(self.kernel)})
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
            KernelParameter(role, i, place.text, STORAGE[b.dtype.name])
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
        carried = self.inward.carried(stmt) if self.symbols else None
        if carried is not None:
            self.enter(carried)
            return
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
        flat = self.rows.flat(stmt) if self.symbols and known.high > 1 else None
        if flat is not None:
            self.flat_loop(flat)
            return
        last, type_ = Known(0, known.high - 1), extent.type
        if known.low == known.high == 1:
            leave = self.exprs.enter(stmt.var, integer_constant(0, stmt.var.dtype, type_), last)
            self.scope(stmt.body, leave)
            return
        if extent.depth:
            extent = self.exprs.local(extent, "extent")
        close_rows = self.open_rows(self.rows.of_loop(stmt)) if self.symbols else lambda: None
        name = self.names.fresh(stmt.var.name)
        self.open(f"for ({type_} {name} = 0; {name} < {extent.operand}; ++{name}) {{")
        leave = self.exprs.enter(stmt.var, Code(name, type_), last)
        facts = len(self.ranges.facts)
        if known.low < known.high:
            self.ranges.assume(apply("lt", stmt.var, root), True)
        self.enter(stmt.body, partial(self.forget, facts), leave, self.close, close_rows)

    def flat_loop(self, flat: Flat) -> None:
        """Loops over whole trailing dims as one."""
        count, inner = len(flat.loops), flat.loops[-1]
        extent = self.exprs.local(self.exprs.elements(flat.whole, count), "extent")
        close_rows = self.open_rows(flat.rows, count)
        name = self.names.fresh(inner.var.name)
        self.open(f"for (int64_t {name} = 0; {name} < {extent.text}; ++{name}) {{")
        place = Code(name, "int64_t")
        leaving, facts = [scoped(self.exprs.flat, inner.var, (count, place))], len(self.ranges.facts)
        for loop in flat.loops:
            root = self.exprs.fold(loop.extent)
            known = self.exprs.bounds(root)
            assert known is not None, "a dim is a whole number"
            # no text names the variable; what is known of it shows that the indices are inside
            leaving.append(self.exprs.enter(loop.var, place, Known(0, max(known.high - 1, 0))))
            self.ranges.assume(apply("lt", loop.var, root), True)
        self.enter(inner.body, partial(self.forget, facts), *reversed(leaving), self.close, close_rows)

    def open_rows(self, rows: Sequence[Load], count: int = 1) -> Callable[[], None]:
        """Where rows begin as locals, before a loop; the result ends their scope."""
        leaving: list[Callable[[], None]] = []
        for access in rows:
            code = self.exprs.begin_row(access, count)
            if code.depth or not code.text.isdigit():
                code = self.exprs.local(code, "row")
                leaving.append(partial(self.mention, code.text, self.gap()))
            leaving.append(scoped(self.exprs.rows, self.exprs.row_key(access, count), code))

        def close() -> None:
            for leave in leaving:
                leave()

        return close

    def mention(self, name: str, insert: Callable[..., None]) -> None:
        """Say that a local is not used, if it is not: compilers warn of it."""
        if name not in self.exprs.used:
            insert(f"(void){name};")

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

        self.scope(stmt.body, leave, partial(self.mention, code.text, insert))

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
        if not place.scalar and buffer.dtype.name in CODED:
            text = f"{self.library.use(f'store_{CODED[buffer.dtype.name]}')}({value.text})"
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
    style: KernelStyle = PLAIN,
    symbols: Mapping[Var, Interval] = MappingProxyType({}),
    shared: Collection[tensor.Buffer] = (),
) -> CKernel:
    """The C of `kernel` as a function called `name`, which returns a status; statuses start with `macro`. `symbols`
    says where its symbols and scalars lie, `shared` which parameters lie in the bytes of another one."""
    for s in kernel.scalars:
        if not s.dtype.is_integer:
            raise Unsupported(
                f"{kernel.name} has the scalar parameter {s.name}, which is {s.dtype}; C is generated for whole"
                " numbers",
                label="c.C15",
            )
    with placed(kernel.name):
        return _Writer(kernel, name, macro, library, style, symbols, shared).run()
