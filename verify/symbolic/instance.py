"""One run of a place: what its variables are, and what holds there (specs/verify.md, "Proofs for all sizes")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import z3

from assay.semantics.dtypes import BOOL
from assay.semantics.scalar import Const, Dim, Expr, Load, Var, const
from assay.semantics.scalar.smt import Term, Terms, Unwrapped, conditions
from assay.semantics.tensor import Buffer, View
from assay.semantics.tensor.regions import matching
from assay.verify.symbolic import events
from assay.verify.symbolic.counters import Counter


@dataclass(eq=False)
class InstanceQuery:
    """What all instances of one query share: the function's symbols, and the terms that were made up."""

    symbols: Mapping[Var, Term]
    inputs: frozenset[Buffer]
    counters: Mapping[Buffer, Counter] = field(default_factory=dict)
    terms: Terms = field(default_factory=Terms)
    labels: dict[int, str] = field(default_factory=dict)
    loaded: list[tuple[Buffer, tuple[Term, ...]]] = field(default_factory=list)
    """The elements of read-only buffers that are spoken of."""
    alive: list[Buffer] = field(default_factory=list)

    def __post_init__(self) -> None:
        for s in self.symbols.values():
            self.terms.fresh(s.decl().name())

    def label(self, buffer: Buffer) -> str:
        """A name for a buffer that no other has."""
        if id(buffer) not in self.labels:
            taken = set(self.labels.values())
            name, count = buffer.name, 0
            while name in taken:
                count += 1
                name = f"{buffer.name}.{count}"
            self.labels[id(buffer)] = name
            self.alive.append(buffer)
        return self.labels[id(buffer)]

    def dim(self, dim: Dim, instance: Instance | None = None, site: events.Site | None = None) -> Term:
        """A dim of a buffer: of a parameter, or evaluated at a site."""
        if not isinstance(dim, Expr):
            return z3.IntVal(dim)
        if instance is not None and site is not None:
            return instance.value(dim, site)
        return self.terms.value(dim, Unwrapped(self.symbols), {})


@dataclass(eq=False)
class SiteScope:
    """A site in one instance."""

    instance: Instance
    site: events.Site
    loops: tuple[Term, ...]
    env: dict[Var, Term]

    def load(self, node: Load, indices: Sequence[Term]) -> Term:
        """What a load gives: a function of its indices for memory that does not change, else of the iteration."""
        query = self.instance.query
        begin = events.beginning(node.buffer, self.site.frame)
        fixed = events.constant_contents(begin)
        if node.buffer in query.inputs or fixed is not None:
            query.loaded.append((node.buffer, tuple(indices)))
            value = query.terms.function(f"element of {query.label(node.buffer)}", indices, node.dtype)
            if fixed is not None and fixed.contents.size and node.dtype.is_integer and node.dtype is not BOOL:
                least, most = int(np.min(fixed.contents)), int(np.max(fixed.contents))
                query.terms.known.append(z3.And(least <= value, value <= most))
            return value
        value = query.terms.function(f"load {self.site.number}.{self.number(node)}", self.loops, node.dtype)
        if (counter := query.counters.get(node.buffer)) is not None:
            query.terms.known.append(counter.known(value, node, self.site, self.instance.turn))
        return value

    def number(self, node: Load) -> int:
        """Which of the loads of the site it is."""
        return self.instance.numbers.setdefault((self.site.number, id(node)), len(self.instance.numbers))

    def exact(self, node: Expr) -> bool:
        """Whether an expression is shown not to wrap at this site."""
        return id(node) in self.site.exact


@dataclass(eq=False)
class Instance:
    """Variables, guards and facts of one run of a place."""

    query: InstanceQuery
    numbers: dict[tuple[int, int], int]
    env: dict[Var, Term]
    loops: dict[events.EventScope, Term] = field(default_factory=dict)
    guards: list[Term] = field(default_factory=list)
    """When this run takes place; all that the facts say holds if it is reached."""
    facts: list[Term] = field(default_factory=list)
    shapes: dict[events.EventScope, tuple[Term, ...]] = field(default_factory=dict)
    scopes: dict[events.Site, tuple[SiteScope, dict[int, Term]]] = field(default_factory=dict)

    def value(self, expr: Expr, site: events.Site) -> Term:
        """What an expression is at a site."""
        if site not in self.scopes:
            self.scopes[site] = SiteScope(self, site, tuple(self.loops.values()), dict(self.env)), {}
        return self.query.terms.value(expr, *self.scopes[site])

    def turn(self, loop: events.Loop) -> tuple[Term, Term, Term] | None:
        """The start, the extent and the variable of a loop around; None where it is not around."""
        if loop not in self.loops:
            return None
        start = z3.IntVal(0) if loop.stmt.start is None else self.value(loop.stmt.start, loop.site)
        return start, self.value(loop.stmt.extent, loop.site), self.loops[loop]

    def evaluated(self, site: events.Site) -> dict[int, Term | None]:
        """When the steps of a site's expressions are evaluated, by identity; None: always."""
        return conditions(site.roots, lambda e: self.value(e, site))

    def when(self, access: events.AccessEvent) -> Term:
        """When an access happens in this run of its site."""
        if access.write:
            return z3.BoolVal(True)
        found = self.evaluated(access.site)[id(access.node)]
        return z3.BoolVal(True) if found is None else found

    def shape(self, buffer: Buffer, frame: events.EventScope | None) -> tuple[Term, ...]:
        """The dims of a buffer as seen from a frame."""
        begin = events.beginning(buffer, frame)
        if begin is None:
            return tuple(self.query.dim(d) for d in buffer.shape)
        return self.shapes[begin]

    def indices(self, access: events.AccessEvent) -> tuple[Term, ...]:
        """The indices of an access in this instance."""
        return tuple(self.value(i, access.site) for i in access.indices)

    def place(self, buffer: Buffer, indices: Sequence[Term], frame: events.EventScope | None) -> Place:
        """The element of memory that an element of a buffer is, and what must hold for it to exist."""
        claims: list[Term] = []
        own: list[Term] = [_within(i, d) for i, d in zip(indices, self.shape(buffer, frame), strict=True)]
        flat: Term | None = None
        at = tuple(indices)
        names: list[tuple[Buffer, tuple[Term, ...] | None, Term | None, tuple[Term, ...]]] = []
        for window in events.views_below(buffer, frame):
            view, site = window.view, window.site
            shape, source = self.shapes[window], self.shape(view.source, window.parent)
            names.append((buffer, at if flat is None else None, flat, shape))
            firsts = starts_of(view)
            if window.direct and flat is None and firsts is not None:
                starts = [self.value(s, site) for s in firsts]
                first = len(starts) - len(at)
                at = (*starts[:first], *(s + i for s, i in zip(starts[first:], at, strict=True)))
            else:
                if flat is not None:  # the element `flat` of the view, found again from its number
                    at = unravelled(self.query.terms, flat, shape)
                flat = self.value(view.offset, site)
                for i, s in zip(at, view.strides, strict=True):
                    flat = flat + i * self.value(s, site)
                claims.append(_within(flat, _product(source)))
            buffer, frame = view.source, window.parent
            if flat is not None and len(source) == 1:
                at, flat = (flat,), None
        names.append((buffer, at if flat is None else None, flat, self.shape(buffer, frame)))
        return Place(*names[-1], own, claims, names[:-1])

    def element(self, access: events.AccessEvent) -> Place:
        """The element of memory that an access is about in this instance."""
        return self.place(access.buffer, self.indices(access), access.site.frame)


@dataclass(frozen=True)
class Place:
    """An element of memory: by indices, or by its number in row-major order."""

    buffer: Buffer
    indices: tuple[Term, ...] | None
    flat: Term | None
    shape: tuple[Term, ...]
    own: Sequence[Term]
    """That the indices lie within the buffer that was named, for each dimension."""
    claims: Sequence[Term]
    """That the views' elements lie within their sources."""
    above: Sequence[tuple[Buffer, tuple[Term, ...] | None, Term | None, tuple[Term, ...]]]
    """The same element as one of each view on the way."""

    @property
    def exists(self) -> Sequence[Term]:
        """That there is such an element, under each of its names."""
        return [*self.own, *self.claims]

    def names(self, terms: Terms) -> list[tuple[Buffer, tuple[Term, ...]]]:
        """The element under each of its names, by indices."""
        own = (self.buffer, self.indices, self.flat, self.shape)
        return [
            (b, at if at is not None else unravelled(terms, flat, shape)) for b, at, flat, shape in (*self.above, own)
        ]

    def number(self) -> Term:
        """The element's number in row-major order."""
        if self.indices is None:
            return self.flat
        result = z3.IntVal(0)
        for i, d in zip(self.indices, self.shape, strict=True):
            result = result * d + i
        return result

    def equals(self, other: Place) -> Term:
        """Whether two elements of one buffer are one, both in bounds."""
        if self.indices is None or other.indices is None:
            return self.number() == other.number()
        return z3.And(*(a == b for a, b in zip(self.indices, other.indices, strict=True)))


def instantiate(
    query: InstanceQuery,
    frame: events.EventScope | None,
    given: Mapping[events.EventScope, Term],
    numbers: dict[tuple[int, int], int],
) -> Instance:
    """A run of what is inside a frame: loops have the given values, else new unknown ones."""
    made = Instance(query, numbers, dict(query.symbols))
    for f in events.scope_chain(frame):
        enter(made, f, given.get(f))
    return made


def enter(made: Instance, frame: events.EventScope, given: Term | None) -> None:
    """Add to an instance what one frame further inside brings: a variable, a guard, a fact or a shape."""
    terms = made.query.terms
    match frame:
        case events.Loop(stmt=stmt, site=site):
            start = z3.IntVal(0) if stmt.start is None else made.value(stmt.start, site)
            extent = made.value(stmt.extent, site)
            v = terms.fresh(stmt.var.name) if given is None else given
            made.guards += [start <= v, v < start + extent]
            made.env[stmt.var] = made.loops[frame] = v
        case events.Again(var=var):
            v = terms.fresh(var.name) if given is None else given
            made.guards.append(v >= 0)
            made.env[var] = made.loops[frame] = v
        case events.Guard(condition=condition, positive=positive, site=site):
            holds = made.value(condition, site)
            made.guards.append(holds if positive else z3.Not(holds))
        case events.Fact(condition=condition, site=site):
            made.facts.append(made.value(condition, site))
        case events.Let(var=var, value=value, site=site):
            made.env[var] = made.value(value, site)
        case events.Life(buffer=buffer, site=site):
            made.shapes[frame] = tuple(made.query.dim(d, made, site) for d in buffer.shape)
        case events.ViewWindow(view=view, site=site):
            made.shapes[frame] = tuple(made.query.dim(d, made, site) for d in view.buffer.shape)
            made.facts += [made.value(c.low, site) <= made.value(c.high, site) for c in matching(view)]


def starts_of(view: View) -> tuple[Expr, ...] | None:
    """Where in its source a view may begin, in each dimension: what it was written as, or the very first element."""
    if view.region is not None:
        return view.region.starts
    first = isinstance(view.offset, Const) and int(view.offset.value) == 0
    return (const(0),) * len(view.source.shape) if first and len(view.strides) <= len(view.source.shape) else None


def _within(index: Term, size: Term) -> Term:
    return z3.And(0 <= index, index < size)


def _product(dims: Sequence[Term]) -> Term:
    return reduce(lambda a, b: a * b, dims, z3.IntVal(1))


def unravelled(terms: Terms, flat: Term, shape: Sequence[Term]) -> tuple[Term, ...]:
    """The indices of an element by its place in row-major order."""
    found: list[Term] = []
    for d in reversed(shape[1:]):
        flat, rest = terms.divided(flat, d)
        found.insert(0, rest)
    return (flat, *found) if shape else ()
