"""Sizes that the entry takes as arguments, and what follows from them (specs/lower.md, "c").

A size is an argument where it is a symbol of an input's shape. Everything that depends on one, such as where a buffer
lies or what a kernel is handed, is a field of one structure, which a function of the source fills at entry. It takes no
sizes at which a number leaves 64 bits, so no text of the source has to look for that again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from assay.lower.c.expr import ExprWriter
from assay.lower.c.helpers import Library
from assay.lower.c.math import function as math_function
from assay.lower.c.names import ScopeNames, identifier, quote
from assay.lower.c.ops import Code, Ops, scalar_type
from assay.lower.c.range import Known, Ranges
from assay.lower.liveness.problem import bytes_kept, bytes_of
from assay.semantics.advice import about_sizes
from assay.semantics.dtypes import INT64
from assay.semantics.errors import Unsupported
from assay.semantics.instance import measured_of, run_bounds, sizes_of_step, symbols_of
from assay.semantics.integers.polynomials import Polynomials
from assay.semantics.integers.ranges import Interval, closed, fits_dtype
from assay.semantics.memory import Bounds, range_of
from assay.semantics.module import Assertion, Measure, Program, flow
from assay.semantics.scalar import Dim, Expr, Interner, Var, variables
from assay.semantics.tensor import Buffer, PrimFunc
from assay.semantics.text.scalars.printer import ScalarPrinter
from assay.semantics.walk import post_order

MOST = 31
"""Bits of the greatest size that C takes where the program has no bound of it."""


@dataclass(frozen=True)
class SizeArgument:
    """A size as an argument: what it is called in the program, in C and in macros; the least and the greatest that the
    entry takes."""

    size: str
    name: str
    macro: str
    low: int
    high: int
    symbol: Var = field(compare=False)
    """The symbol in the types of the arguments."""


def c_size(value: int) -> str:
    """A number of bytes or elements as an unsigned constant."""
    return f"{value}u" if value < 2**32 else f"{value}ull"


def bounds_taken(program: Program) -> dict[Var, Interval]:
    """The least and the greatest value of each symbol that the C takes: those that are declared; where none is, the
    greatest below a power of two up to which no number that the program computes leaves its dtype, for all symbols at
    once.

    Unsupported (c.C23): a symbol is no dim of an input by itself; (c.C25): numbers leave their dtype within the bounds.
    """
    symbols, measured = symbols_of(program), measured_of(program)
    told = {d for n in program.inputs for d in program.slots[n].type.shape if isinstance(d, Var)}
    left = [v for v in symbols if v not in told]
    if left:
        inputs = [program.slots[n].type for n in program.inputs]
        raise Unsupported(
            f"C takes sizes from the shapes of inputs, and no input has a dim that is {left[0].name}: "
            + about_sizes(left, inputs),
            label="c.C23",
        )
    dims, within = list(_dims(program)), run_bounds(program)
    for bits in range(MOST, -1, -1):
        found = {}
        for v in symbols:
            low, high = range_of(within, v)
            found[v] = low, max(low, (1 << bits) - 1) if high is None else high
        for v, most in measured.items():
            found[v] = 0, max(0, DimRanges(found).of(most)[1])
        if fits(dims, found):
            return found
    raise Unsupported(
        "the sizes or offsets of the plan leave 64 bits within the bounds of "
        + ", ".join(v.name for v in symbols)
        + "; give smaller bounds",
        label="c.C25",
    )


def _dims(program: Program) -> Iterator[Expr]:
    """Every number of a program that is an expression, with the bytes of slots and where they end."""
    places = program.plan.places if program.plan is not None else {}
    some: list[Dim] = [*(program.plan.sizes.values() if program.plan is not None else ())]
    for s in program.slots.values():
        some += [*s.type.shape, bytes_of(s.type), bytes_kept(s)]
        if s.name in places:
            some.append(places[s.name].offset + bytes_kept(s))
    for step in program.calls:
        some += [*step.scalars, *(d for _, d in step.dims)]
    some += [d for s in program.steps if isinstance(s, Assertion) for pair in s.sizes for d in pair]
    some += [d for s in program.steps if isinstance(s, Measure) for d in s.values]
    some += measured_of(program).values()
    yield from (d for d in some if isinstance(d, Expr))


def fits(dims: Iterable[Expr], bounds: Mapping[Var, Interval]) -> bool:
    """Whether every step of some expressions stays in its dtype within bounds."""
    polynomials = Polynomials(dict(bounds))
    seen: set[int] = set()
    for dim in dims:
        for node in post_order(dim, lambda n: () if id(n) in seen else n.children):
            if id(node) not in seen:
                seen.add(id(node))
                if node.dtype.is_integer and not fits_dtype(polynomials.range(polynomials.of(node)), node.dtype):
                    return False
    return True


@dataclass(frozen=True)
class ReturnedSize:
    """A size that the run measures and the entry returns: what it is called in the program and in C, its greatest
    value, and the symbol in the types of the outputs."""

    size: str
    name: str
    high: int
    symbol: Var = field(compare=False)


@dataclass(eq=False)
class EntrySizes:
    """The sizes of one entry: its arguments, what it measures, and the fields that its text has asked for so far."""

    program: Program
    prefix: str
    macro: str
    library: Library
    names: ScopeNames
    fields: dict[str, Dim] = field(default_factory=dict)
    _known: dict[int, str] = field(default_factory=dict)
    _number: Interner = field(default_factory=Interner)

    @cached_property
    def bounds(self) -> dict[Var, Interval]:
        """Where the symbols lie."""
        return bounds_taken(self.program)

    @cached_property
    def arguments(self) -> tuple[SizeArgument, ...]:
        """The sizes in the order of the arguments."""
        macros = ScopeNames()
        return tuple(
            SizeArgument(v.name, self.names.fresh(v.name), macros.fresh(v.name, upper=True), *self.bounds[v], v)
            for v in symbols_of(self.program)
        )

    @cached_property
    def measured(self) -> set[Var]:
        """What is measured."""
        return {*measured_of(self.program)}

    @cached_property
    def measures(self) -> dict[int, tuple[Measure, set[Var]]]:
        """The steps that measure sizes, by number, and what has been measured on every way to behind them."""
        found: dict[int, tuple[Measure, set[Var]]] = {}
        here: set[Var] = set()
        arms: list[tuple[set[Var], set[Var]]] = []
        """Of each choice around, what is known before it and where its first arm ends."""
        for what, i in flow(self.program.steps):
            step = self.program.steps[i]
            if isinstance(step, Measure):
                here = here | {*step.symbols}
                found[i] = step, here
            elif what == "continue":
                here = self.measured  # no way leads on from here
            elif what == "if":
                arms.append((here, here))
            elif what == "else":
                here, arms[-1] = arms[-1][0], (arms[-1][0], here)
            elif what == "end":
                here = here & arms.pop()[1]
        return found

    @cached_property
    def returned(self) -> tuple[ReturnedSize, ...]:
        """What is measured and stands in the types of outputs."""
        dims = (d for n in self.program.outputs for d in self.program.slots[n].type.shape)
        found = {v: None for d in dims for v in variables(d) if v in self.measured}
        return tuple(ReturnedSize(v.name, self.names.fresh(v.name), self.bounds[v][1], v) for v in found)

    @property
    def is_planned(self) -> bool:
        """Whether something depends on sizes that are no numbers."""
        return bool(self.arguments or self.measured)

    @cached_property
    def ranges(self) -> DimRanges:
        """Where dims lie within the bounds."""
        return DimRanges(self.bounds)

    def range(self, dim: Dim) -> Interval:
        """Where a dim lies."""
        return self.ranges.of(dim)

    def most(self, dim: Dim) -> int | None:
        """The greatest value of a dim within the bounds of the program, where all symbols have one."""
        within = run_bounds(self.program)
        return self.range(dim)[1] if all(range_of(within, v)[1] is not None for v in self.bounds) else None

    def type(self, dim: Dim) -> str:
        """The C type of a field."""
        return scalar_type(INT64, Known(*self.range(dim)))

    def symbols(self, kernel: PrimFunc) -> dict[Var, Interval]:
        """Where the symbols and scalars of a kernel lie at the steps that call it."""
        found: dict[Var, Interval] = {}
        for step in self.program.calls:
            if step.kernel == kernel.name:
                for v, d in sizes_of_step(step, kernel).items():
                    low, high = self.range(d)
                    before = found.get(v, (low, high))
                    found[v] = min(low, before[0]), max(high, before[1])
        return found

    def text(self, dim: Dim, name: str = "size") -> str:
        """C text for a dim inside the entry: a number, or a field of the plan, called `name` if it is new."""
        if not isinstance(dim, Expr):
            return str(dim)
        key = self._number(dim)
        if key not in self._known:
            base = identifier(name)
            free, k = base, 0
            while free in self.fields:
                k += 1
                free = f"{base}_{k}"
            self._known[key] = free
            self.fields[free] = dim
        return f"plan->{self._known[key]}"

    def count(self, dim: Dim) -> str:
        """C text for a number of bytes, as a size_t."""
        return c_size(dim) if isinstance(dim, int) else f"(size_t){self.text(dim)}"

    # --- text ------------------------------------------------------------------------------------------------------

    def parameters(self) -> list[str]:
        """The declarations of the sizes as parameters."""
        return [f"int64_t {a.name}" for a in self.arguments]

    def definition(self) -> Iterator[str]:
        """The structure, the function that checks sizes and fills it, and those that do so where sizes are measured."""
        for dim in self.negative():
            self.text(dim)  # a tensor with a dim below 0 is none
        for i in self.measures:
            self.require(i)
        measures = [text for i in self.measures for text in self.measure(i)]
        yield f"\n/* What depends on sizes. */\nstruct {self.prefix}_plan {{\n"
        for name, dim in self.fields.items():
            yield f"    {self.type(dim)} {name};\n"
        yield "" if self.fields else "    char nothing;\n"
        yield "};\n"
        parameters = ", ".join([*self.parameters(), f"struct {self.prefix}_plan *plan"])
        yield f"\nstatic int {self.prefix}_find_plan({parameters})\n{{\n"
        for a in self.arguments:
            yield outside(a.name, f"{self.macro}_{a.macro}_MIN", f"{self.macro}_{a.macro}_MAX", self.macro)
        given = [(v, a.name) for a, v in zip(self.arguments, symbols_of(self.program), strict=True)]
        yield from self.filled(None, given)
        yield from (f"    plan->{name} = 0;\n" for name, dim in self.fields.items() if not self.is_known(dim))
        yield "" if self.fields else "    plan->nothing = 0;\n"
        yield f"    return {self.macro}_OK;\n}}\n"
        yield from measures

    def require(self, index: int) -> None:
        """Ask for the fields that are read where sizes are measured."""
        step, _ = self.measures[index]
        for v, d in zip(step.symbols, step.most, strict=True):
            self.text(d, f"most_{v.name}")
        late = [d for d in self.fields.values() if self.is_told(d, index)]
        for v in {v: None for d in (*late, *step.values) for v in variables(d)}:
            if v not in step.symbols or v in {v for d in step.values for v in variables(d)}:
                self.text(v, v.name)

    def measure(self, index: int) -> Iterator[str]:
        """The function that takes the sizes that a step measures, and fills what depends on them."""
        step, _ = self.measures[index]
        own = {v: f"found[{k}]" for k, v in enumerate(step.symbols)}
        most = [self.text(d) for d in step.most]
        late = [d for d in self.fields.values() if self.is_told(d, index)]
        used = {v: None for d in late for v in variables(d)}
        values = {v: own.get(v) or self.text(v) for v in used}
        given = "const int64_t *found, " if step.slot else ""
        yield f"\nstatic int {self.prefix}_measure_{index}({given}struct {self.prefix}_plan *plan)\n{{\n"
        if not step.slot:
            before = [(v, self.text(v)) for v in {v: None for d in step.values for v in variables(d)}]
            yield f"    int64_t found[{len(own)}];\n"
            targets = [(text, d, "int64_t") for text, d in zip(own.values(), step.values, strict=True)]
            lines = DimWriter(self.library, self.ranges, before, self.bad, ("plan", "found")).assignments(targets)
            yield "    {\n"
            yield from (f"    {line}" for line in lines)
            yield "    }\n"
        for text, greatest in zip(own.values(), most, strict=True):
            yield f"    if ({text} < 0 || {text} > {greatest}) {{\n        {self.bad}\n    }}\n"
        yield from self.filled(index, list(values.items()))
        yield f"    (void)plan;\n    return {self.macro}_OK;\n}}\n"

    @property
    def bad(self) -> str:
        """The statement for sizes that are not taken."""
        return f"return {self.macro}_BAD_SIZE;"

    def is_known(self, dim: Dim) -> bool:
        """Whether a dim is known at entry."""
        return not any(v in self.measured for v in variables(dim))

    def is_told(self, dim: Dim, index: int) -> bool:
        """Whether a step that measures sizes tells a dim: it depends on one of them, and the others are known."""
        step, here = self.measures[index]
        own = [v for v in variables(dim) if v in self.measured]
        return any(v in step.symbols for v in own) and all(v in here for v in own)

    def filled(self, stage: int | None, given: Sequence[tuple[Var, str]]) -> Iterator[str]:
        """The lines that fill the fields that a step tells, or the entry, and refuse dims below 0."""

        def is_due(dim: Dim) -> bool:
            return self.is_known(dim) if stage is None else self.is_told(dim, stage)

        targets = [(f"plan->{n}", d, self.type(d)) for n, d in self.fields.items() if is_due(d)]
        yield from DimWriter(self.library, self.ranges, given, self.bad, ("plan", "found")).assignments(targets)
        for dim in self.negative():
            if is_due(dim):
                yield f"    if ({self.text(dim)} < 0) {{\n        {self.bad}\n    }}\n"

    def negative(self) -> Iterator[Dim]:
        """The dims of slots that may be below 0 at some sizes."""
        dims = {self._number(d): d for s in self.program.slots.values() for d in s.type.shape if self.range(d)[0] < 0}
        yield from dims.values()

    def named(self, dim: Dim) -> str:
        """A dim over the names in C, for comments."""
        names: dict[Var | Buffer, str] = {v: v.name for v in self.measured}
        names.update((a.symbol, a.name) for a in self.arguments)
        names.update((r.symbol, r.name) for r in self.returned)
        return str(dim) if isinstance(dim, int) else ScalarPrinter(names, INT64).text(dim)

    def listing(self) -> Iterator[str]:
        """The lines of the header that name the sizes."""
        if self.arguments:
            yield " * Sizes:\n"
        for a in self.arguments:
            yield f" *   {a.name}: {a.low} to {a.high}, called {quote(a.size)}\n"
        if self.returned:
            yield " * Returned sizes:\n"
        for r in self.returned:
            yield f" *   {r.name}: 0 to {r.high}, called {quote(r.size)}\n"


def outside(name: str, low: str, high: str, macro: str) -> str:
    """The lines that leave with BAD_SIZE where a size is not within two numbers."""
    return f"    if ({name} < {low} || {name} > {high}) {{\n        return {macro}_BAD_SIZE;\n    }}\n"


class DimRanges:
    """Where dims lie if their symbols lie within bounds."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.polynomials = Polynomials(dict(bounds))

    def of(self, dim: Dim) -> Interval:
        """The least and the greatest value of a dim, as far as they are known."""
        return closed(self.polynomials.range(self.polynomials.of(dim))) or (-(2**63), 2**63 - 1)


@dataclass(eq=False)
class DimWriter:
    """C that computes dims from sizes, of which equal parts that are not small are computed once. `given` are the
    symbols and their names in C, of the type int64_t; `trap` the statement for sizes at which a dim has no value;
    `taken` other names that the function has."""

    library: Library
    ranges: DimRanges
    given: Sequence[tuple[Var, str]]
    trap: str
    taken: Sequence[str] = ()
    number: Interner = field(default_factory=Interner)
    lines: list[str] = field(default_factory=list)
    locals: dict[str, str] = field(default_factory=dict)
    """The lines that declare the symbols, by what they are called here: those that nothing reads are left out."""
    made: dict[int, Var] = field(default_factory=dict)
    uses: Counter[int] = field(default_factory=Counter)
    opened: set[int] = field(default_factory=set)

    @cached_property
    def writer(self) -> ExprWriter:
        """What writes expressions, in which the symbols are locals."""
        names = self.library.locals()
        for name in (*self.taken, *(name for _, name in self.given)):
            names.fresh(name)
        writer = ExprWriter(
            Ops(self.library, lambda op, of: math_function(self.library, op, of)),
            names,
            Ranges(),
            lambda text: self.lines.append(f"    {text}\n"),
            lambda kind: self.trap,
        )
        for v, name in self.given:
            known = Known(*self.ranges.of(v))
            type_ = scalar_type(INT64, known)
            local = names.fresh(name)
            cast = "" if type_ == "int64_t" else f"({type_})"
            self.locals[local] = f"    const {type_} {local} = {cast}{name};\n"
            writer.enter(v, Code(local, type_), known)
        return writer

    def assignments(self, targets: Sequence[tuple[str, Dim, str]]) -> list[str]:
        """The lines that set each target, of the type that is given, to its dim."""
        self.count(dim for _, dim, _ in targets)
        for target, dim, type_ in targets:
            text = self.text(dim, type_)
            self.lines.append(f"    {target} = {text};\n")
        read = {word for line in self.lines for word in re.findall(r"\w+", line)}
        return [*(line for local, line in self.locals.items() if local in read), *self.lines]

    def count(self, dims: Iterable[Dim]) -> None:
        """How often each part of some dims is used, by parts and as a whole."""
        for dim in dims:
            if not isinstance(dim, Expr):
                continue
            self.uses[self.number(dim)] += 1
            for node in post_order(dim, lambda n: () if self.number(n) in self.opened else n.children):
                if self.number(node) not in self.opened:
                    self.opened.add(self.number(node))
                    self.uses.update(map(self.number, node.children))

    def text(self, dim: Dim, type_: str) -> str:
        """C text for a dim, of a type."""
        if not isinstance(dim, Expr):
            return str(dim)
        memo: dict[int, Expr] = {}
        for node in post_order(dim):
            memo[id(node)] = self.node(node, memo)
        code, _ = self.writer.value(memo[id(dim)])
        return code.text if code.type == type_ else f"({type_}){code.operand}"

    def node(self, node: Expr, memo: Mapping[int, Expr]) -> Expr:
        """A node over variables for what has one."""
        key = self.number(node)
        if key not in self.made:
            whole = node.with_children(tuple(memo[id(c)] for c in node.children))
            if not node.children or self.uses[key] < 2:
                return whole
            known = Known(*self.ranges.of(node))
            code, _ = self.writer.value(whole)
            self.made[key] = Var("n", node.dtype)
            self.writer.enter(self.made[key], self.writer.local(code, "n"), known)
        return self.made[key]
