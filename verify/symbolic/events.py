"""What a tensor function does, in the order of its text (specs/verify.md, "Proofs for all sizes").

Every statement that evaluates something is a `Site`; the loops, conditions, lets and lives of buffers around it are a
chain of `EventScope`s, innermost first. Two sites share the frames that they are both inside.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from assay.semantics import tensor
from assay.semantics.scalar import Apply, Expr, Interner, Load, Number, Var, apply
from assay.semantics.tensor.calls import activation
from assay.semantics.tensor.regions import concerned, is_checked
from assay.semantics.walk import Worklist, post_order

MOST_SITES = 600
DEEPEST = 250
LARGEST = 3000
"""Beyond so many sites, frames around a site, or nodes in a site's expressions nothing is proved."""


@dataclass(eq=False)
class Site:
    """A place where expressions are evaluated. `number` is its place in the order of the text."""

    number: int
    frame: EventScope | None
    stmt: tensor.Stmt
    roots: tuple[Expr, ...]
    exact: set[int] = field(default_factory=set)
    """The steps, by identity, that were shown not to leave their dtype here."""
    large: bool = False


@dataclass(eq=False)
class EventScope:
    """A place inside another one, its parent. Each kind says what it adds; `site` is where that is evaluated."""

    parent: EventScope | None
    site: Site
    depth: int = field(init=False)

    def __post_init__(self) -> None:
        self.depth = 0 if self.parent is None else self.parent.depth + 1


@dataclass(eq=False)
class Loop(EventScope):
    """A `For`, once for each iteration."""

    stmt: tensor.For

    @property
    def var(self) -> Var:
        """The loop's variable."""
        return self.stmt.var


@dataclass(eq=False)
class Again(EventScope):
    """A `While`; `var` counts how often its body has run before."""

    var: Var


@dataclass(eq=False)
class Guard(EventScope):
    """What is inside runs only where `condition` is `positive`."""

    condition: Expr
    positive: bool


@dataclass(eq=False)
class Fact(EventScope):
    """What is inside is reached only after `condition` held: the run would have ended otherwise."""

    condition: Expr


@dataclass(eq=False)
class Let(EventScope):
    """A variable with its value, from a let around a place."""

    var: Var
    value: Expr


@dataclass(eq=False)
class Life(EventScope):
    """`buffer` begins to exist."""

    buffer: tensor.Buffer
    read_only: tensor.AllocateConst | None


@dataclass(eq=False)
class ViewWindow(EventScope):
    """A view begins; `direct` once it is shown to lie inside its region in each dimension."""

    view: tensor.View
    direct: bool = False

    @property
    def buffer(self) -> tensor.Buffer:
        """The view as a buffer."""
        return self.view.buffer


@dataclass(eq=False)
class Mark(EventScope):
    """What a block declares of its accesses is in force inside."""

    block: tensor.Block


@dataclass(eq=False)
class AccessEvent:
    """A load or a store. `order` says which of two of one iteration comes first."""

    node: Load | tensor.Store
    site: Site
    buffer: tensor.Buffer
    indices: tuple[Expr, ...]
    write: bool

    @property
    def order(self) -> int:
        """Its place within an iteration: loads of a statement come before its store."""
        return 2 * self.site.number + self.write


@dataclass(eq=False)
class IteratorDomain:
    """A block's iterator must get a value of its domain."""

    block: tensor.Block
    index: int
    site: Site


@dataclass(eq=False)
class FunctionEvents:
    """All of a function. `strange` are statements that are not known here, and what was too large."""

    func: tensor.PrimFunc
    sites: list[Site] = field(default_factory=list)
    accesses: list[AccessEvent] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)
    lives: list[Life] = field(default_factory=list)
    windows: list[ViewWindow] = field(default_factory=list)
    domains: list[IteratorDomain] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    checks: list[Site] = field(default_factory=list)
    """The asserts."""
    strange: list[tuple[tensor.Stmt, str]] = field(default_factory=list)


def scope_chain(frame: EventScope | None) -> list[EventScope]:
    """The frames around, outermost first."""
    found = []
    while frame is not None:
        found.append(frame)
        frame = frame.parent
    return found[::-1]


def beginning(buffer: tensor.Buffer, frame: EventScope | None) -> Life | ViewWindow | None:
    """The frame around in which a buffer begins to exist; None for a parameter."""
    while frame is not None and not (isinstance(frame, (Life, ViewWindow)) and frame.buffer is buffer):
        frame = frame.parent
    return frame


def views_below(buffer: tensor.Buffer, frame: EventScope | None) -> Iterator[ViewWindow]:
    """The views that lead from a buffer to its memory, that of the buffer first."""
    begin = beginning(buffer, frame)
    while isinstance(begin, ViewWindow):
        yield begin
        begin = beginning(begin.view.source, begin.parent)


def root_of(buffer: tensor.Buffer, frame: EventScope | None) -> tuple[tensor.Buffer, Life | ViewWindow | None]:
    """The buffer whose memory a buffer is, through views, and where it begins."""
    for window in views_below(buffer, frame):
        buffer, frame = window.view.source, window.parent
    return buffer, beginning(buffer, frame)


def constant_contents(begin: EventScope | None) -> tensor.AllocateConst | None:
    """The statement that gives a constant its contents, for a buffer that begins there."""
    return begin.read_only if isinstance(begin, Life) else None


def distinct(accesses: Iterable[AccessEvent], apart: Callable[[AccessEvent], Hashable]) -> list[AccessEvent]:
    """The first of those accesses that are one: of one element, and of one kind, where `apart` gives the same."""
    number = Interner()
    found: dict[Hashable, AccessEvent] = {}
    for a in accesses:
        found.setdefault((a.buffer, a.write, tuple(map(number, a.indices)), apart(a)), a)
    return list(found.values())


Parts: TypeAlias = "list[tuple[tensor.Stmt, EventScope | None]]"


def events_of(func: tensor.PrimFunc, functions: Mapping[str, tensor.PrimFunc]) -> FunctionEvents:
    """Walk a function once, and what it calls of `functions` as often as it is called."""
    return _Walk(FunctionEvents(func), functions).run()


class _Walk:
    def __init__(self, found: FunctionEvents, functions: Mapping[str, tensor.PrimFunc]) -> None:
        self.found = found
        self.functions = functions
        self.waiting: dict[tuple[int, int], Site] = {}
        """The sites of asserts whose facts stand in a frame already."""

    def run(self) -> FunctionEvents:
        work = Worklist[tuple[tensor.Stmt, EventScope | None]]([(self.found.func.body, None)])
        for stmt, frame in work:
            if len(self.found.sites) > MOST_SITES:
                self.found.strange.append((stmt, f"the function has more than {MOST_SITES} statements"))
                break
            if frame is not None and frame.depth > DEEPEST:
                self.found.strange.append((stmt, f"more than {DEEPEST} loops, conditions and the like are nested here"))
                continue
            work.add(self.statement(stmt, frame))
        return self.found

    def statement(self, stmt: tensor.Stmt, frame: EventScope | None) -> Parts:
        """Enter what a statement does itself; its parts with the frames around them."""
        match stmt:
            case tensor.Seq():
                return self.sequence(stmt, frame)
            case tensor.Pragma():
                return [(stmt.body, frame)]
            case tensor.For():
                site = self.site(stmt, frame, tuple(stmt.expressions))
                inside = Loop(frame, site, stmt)
                self.found.loops.append(inside)
                return [] if site.large else [(stmt.body, inside)]
            case tensor.While():
                count = Again(frame, self.site(stmt, frame, ()), Var("turn"))
                site = self.site(stmt, count, (stmt.condition,))
                return [] if site.large else [(stmt.body, Guard(count, site, stmt.condition, True))]
            case tensor.If():
                site = self.site(stmt, frame, (stmt.condition,))
                parts: Parts = [(stmt.then, Guard(frame, site, stmt.condition, True))]
                if stmt.otherwise is not None:
                    parts.append((stmt.otherwise, Guard(frame, site, stmt.condition, False)))
                return [] if site.large else parts
            case tensor.LetStmt():
                site = self.site(stmt, frame, (stmt.value,))
                return [] if site.large else [(stmt.body, Let(frame, site, stmt.var, stmt.value))]
            case tensor.Allocate() | tensor.AllocateConst():
                return [(stmt.body, self.allocate(stmt.buffer, stmt, frame))]
            case tensor.Alias():
                return [(stmt.body, self.window(stmt.view, stmt, frame))]
            case tensor.Block():
                return self.block(stmt, frame)
            case tensor.Store():
                site = self.site(stmt, frame, (*stmt.indices, stmt.value))
                if not site.large:
                    self.found.accesses.append(AccessEvent(stmt, site, stmt.buffer, stmt.indices, True))
            case tensor.Assert():
                self.found.checks.append(self.site(stmt, frame, (stmt.condition,)))
            case tensor.Evaluate():
                self.site(stmt, frame, (stmt.value,))
            case tensor.Call(extern=False) if stmt.function in self.functions:
                return [(activation(stmt, self.functions[stmt.function]), frame)]
            case tensor.Call():
                self.found.strange.append((stmt, f"{stmt.function} is not known here"))
            case _:
                self.found.strange.append((stmt, f"{type(stmt).__name__} is not understood here"))
        return []

    def sequence(self, stmt: tensor.Seq, frame: EventScope | None) -> Parts:
        """Parts in their order; what an assert says holds for those after it."""
        parts: Parts = []
        for part in stmt.body:
            parts.append((part, frame))
            if isinstance(part, tensor.Assert):
                site = Site(-1, frame, part, (part.condition,))
                self.waiting[id(part), id(frame)] = site
                frame = Fact(frame, site, part.condition)
        return parts

    def allocate(self, buffer: tensor.Buffer, stmt: tensor.Stmt, frame: EventScope | None) -> EventScope:
        dims = tuple(d for d in buffer.shape if isinstance(d, Expr))
        fixed = stmt if isinstance(stmt, tensor.AllocateConst) else None
        inside = Life(frame, self.site(stmt, frame, dims), buffer, fixed)
        self.found.lives.append(inside)
        return inside

    def window(self, view: tensor.View, stmt: tensor.Stmt, frame: EventScope | None) -> EventScope:
        dims = tuple(d for d in view.buffer.shape if isinstance(d, Expr))
        inside = ViewWindow(frame, self.site(stmt, frame, (*view.expressions, *dims)), view)
        self.found.windows.append(inside)
        return inside

    def block(self, block: tensor.Block, frame: EventScope | None) -> Parts:
        if block.predicate is not None:
            frame = Guard(frame, self.site(block, frame, (block.predicate,)), block.predicate, True)
        site = self.site(block, frame, tuple(e for i in block.iterators for e in i.expressions))
        if site.large:
            return []
        for k, i in enumerate(block.iterators):
            self.found.domains.append(IteratorDomain(block, k, site))
            frame = Let(frame, site, i.var, i.value)
        for i in block.iterators:
            start: Number = 0 if i.start is None else i.start
            after = i.value - start
            if isinstance(after, Apply):
                site.exact.add(id(after))  # the domain is one of unbounded integers
            frame = Fact(Fact(frame, site, i.value >= start), site, after < i.extent)
        if is_checked(block, outermost=not any(isinstance(c, Mark) for c in scope_chain(frame))):
            said = [parts for r in (*(block.reads or ()), *(block.writes or ())) for parts in concerned(r)]
            bounds = tuple(e for parts in said for e in parts or ())
            frame = mark = Mark(frame, self.site(block, frame, bounds), block)
            self.found.marks.append(mark)
        for b in block.allocated:
            frame = self.allocate(b, block, frame)
        for v in block.views:
            frame = self.window(v, block, frame)
        parts: Parts = []
        if block.init is not None:
            first, inner = frame, self.site(block, frame, ())
            for i in block.iterators:
                if i.kind == "reduce":
                    at = apply("eq", i.var, 0 if i.start is None else i.start)
                    first = Guard(first, inner, at, True)
            parts.append((block.init, first))
        return [*parts, (block.body, frame)]

    def site(self, stmt: tensor.Stmt, frame: EventScope | None, roots: tuple[Expr, ...]) -> Site:
        """A new site, and the loads in its expressions."""
        site = self.waiting.get((id(stmt), id(frame))) or Site(-1, frame, stmt, roots)
        site.number = len(self.found.sites)
        self.found.sites.append(site)
        nodes = {id(n): n for root in roots for n in post_order(root)}
        if len(nodes) > LARGEST:
            self.found.strange.append((stmt, f"an expression of more than {LARGEST} steps"))
            site.roots, site.large = (), True
            return site
        self.found.accesses += [
            AccessEvent(n, site, n.buffer, n.indices, False) for n in nodes.values() if isinstance(n, Load)
        ]
        return site


def is_within(frame: EventScope | None, outer: EventScope) -> bool:
    """Whether a frame is another one or inside it."""
    while frame is not None and frame.depth > outer.depth:
        frame = frame.parent
    return frame is outer
