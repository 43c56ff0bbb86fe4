"""Every element read was written before, and every element of an output at all (specs/verify.md, "Proofs for all
sizes").

For a read in any iteration, some write in an earlier iteration, or earlier in the same one, has the same element. Which
iteration of the write that is, a witness says; z3 shows that it is one, that its guards hold, and that it came before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import z3

from assay.semantics.dtypes import INT64
from assay.semantics.scalar import Apply, Expr, Load, cast, same
from assay.semantics.scalar.smt import Term, Unwrapped
from assay.semantics.tensor import Assert, Buffer, loads
from assay.semantics.walk import post_order
from assay.verify.symbolic import events
from assay.verify.symbolic.events import root_of
from assay.verify.symbolic.function import Function, access_names, element_text, statement_line
from assay.verify.symbolic.goals import Goal, Kind, decide
from assay.verify.symbolic.instance import Instance, Place, starts_of
from assay.verify.symbolic.witness import Solver

MOST_WRITES = 40
MOST_READS = 300
MOST_ALONE = 12
"""How many writes are tried one by one before z3 is asked about all of them together."""


@dataclass(frozen=True, eq=False)
class ElementRead:
    """An element that must have been written by some time: a load, or (without one) an output at the end."""

    access: events.AccessEvent | None
    frame: events.EventScope | None
    place: Place
    instance: Instance

    @property
    def order(self) -> float:
        """Its place within an iteration; an output is read after everything."""
        return float("inf") if self.access is None else self.access.order


def written_before(f: Function) -> Iterator[Goal]:
    """Every load of a buffer that is not an input or a constant."""
    reads = 0
    for a in f.accesses:
        root, begin = root_of(a.buffer, a.site.frame)
        if a.write or root in f.func.inputs or events.constant_contents(begin) is not None:
            continue
        reads += 1
        claim = f"{element_text(a)} was written before: {statement_line(a.site)}"
        if reads > MOST_READS:
            yield Goal("written before", claim, "unknown", a.site.stmt.span, "too many reads; checked on the run")
            continue

        def reading(a: events.AccessEvent = a) -> tuple[ElementRead, list[Term]]:
            at = f.visit(a.site)
            place = at.instance.element(a)
            return ElementRead(a, a.site.frame, place, at.instance), [*at.here, at.instance.when(a), *place.exists]

        yield _covered(f, "written before", claim, a.site, root, begin, reading)


def outputs_written(f: Function) -> Iterator[Goal]:
    """Every element of every output."""
    for out in f.func.outputs:

        def reading(out: Buffer = out) -> tuple[ElementRead, list[Term]]:
            instance = f.run(f.query(), None)
            shape = instance.shape(out, None)
            at = tuple(instance.query.terms.fresh(f"e{k}") for k in range(len(shape)))
            place = instance.place(out, at, None)
            return ElementRead(None, None, place, instance), list(place.own)

        claim = f"every element of output {out.name} is written"
        yield _covered(f, "output written", claim, None, out, None, reading)


Reading: TypeAlias = Callable[[], tuple[ElementRead, list[Term]]]
"""Makes the read of a goal, and what holds there, in a new query."""


def _covered(
    f: Function,
    kind: Kind,
    claim: str,
    site: events.Site | None,
    root: Buffer,
    begin: events.EventScope | None,
    reading: Reading,
) -> Goal:
    """Whether some write gave the element its value: each way alone, then all of them together."""
    writes = [w for w in f.events.accesses if w.write and root_of(w.buffer, w.site.frame) == (root, begin)]
    writes = events.distinct(writes, lambda w: (w.site.frame, w.site if any(map(loads, w.indices)) else None))
    if len(writes) > MOST_WRITES:
        where = None if site is None else site.stmt.span
        return Goal(kind, claim, "unknown", where, f"{len(writes)} writes of {root.name}; checked on the run")
    probe, _ = reading()
    ways = [(w, level, how) for w in reversed(writes) for level, how in _ways(w, probe, begin)]
    ways.sort(key=lambda way: way[1] < len(_common(way[0].site.frame, probe.frame)))  # in the same iteration first
    tried: list[Term] = []
    for w, level, how in ways[:MOST_ALONE]:
        read, here = reading()
        covers = _covers(f, read, w, level, how)
        if covers is None or any(covers.eq(t) for t in tried):
            continue
        tried.append(covers)
        constraints = [*f.base, *here, *told(f, read), z3.Not(covers)]
        constraints += read.instance.query.terms.known
        answer = decide(constraints, f"{f.func.name}: {kind}: {claim}\nunsat means that it holds for all sizes")
        if answer.holds == "never" and not f.doubt:
            return Goal(kind, claim, "proved", None if site is None else site.stmt.span, query=answer.text)
    about = [root.name] if probe.access is None else access_names(probe.access)
    read, here = reading()
    found = [_covers(f, read, w, level, how) for w, level, how in ways[:MOST_WRITES]]
    either = z3.Or(*(c for c in found if c is not None))
    against = [*here, *told(f, read), z3.Not(either)]
    return f.goal(kind, claim, site, read.instance.query, against, [read.instance], about)


def _ways(w: events.AccessEvent, read: ElementRead, begin: events.EventScope | None) -> Iterator[tuple[int, str]]:
    """In how many of the loops around both the write may be in the same iteration, and how the rest is guessed."""
    common = _common(w.site.frame, read.frame)
    inside = [f for f in events.scope_chain(w.site.frame) if isinstance(f, events.Again) and f not in common]
    if inside:
        return  # nobody knows whether that loop ran
    fixed = 0 if begin is None else sum(1 for f in common if f.depth < begin.depth)
    if w.order < read.order:
        yield len(common), "first"
        yield len(common), "last"
    for level in reversed(range(fixed, len(common))):
        yield level, "first"
        yield level, "previous"
        yield level, "last"


def _common(a: events.EventScope | None, b: events.EventScope | None) -> list[events.EventScope]:
    """The loops around both."""
    around = set(events.scope_chain(b))
    return [f for f in events.scope_chain(a) if f in around and isinstance(f, (events.Loop, events.Again))]


def _covers(f: Function, read: ElementRead, w: events.AccessEvent, level: int, how: str) -> Term | None:
    """That the write, in the iteration that its witness gives, is of the element and came before the read."""
    common = _common(w.site.frame, read.frame)
    given = {c: read.instance.loops[c] for c in common[:level]}
    strict = common[level] if level < len(common) else None
    unknown = [
        c for c in events.scope_chain(w.site.frame) if isinstance(c, (events.Loop, events.Again)) and c not in given
    ]
    if any(isinstance(c, events.Again) and c is not strict for c in unknown):
        return None
    solver = Solver(read.instance, w.site, unknown)
    solver.solve(_equations(read, w, solver, how))
    solver.solve(_guards(w, solver))
    given |= solver.values(how, strict, None if strict is None else read.instance.loops[strict])
    made = f.run(read.instance.query, w.site.frame, given)
    before = [] if strict is None else [made.loops[strict] < read.instance.loops[strict]]
    return z3.And(*before, *made.guards, made.element(w).equals(read.place))


def _equations(read: ElementRead, w: events.AccessEvent, solver: Solver, how: str) -> list[tuple[Expr, Term]]:
    """What the write's indices must be: each alone, or their place in row-major order through a view."""
    at = read.place.indices
    if isinstance(events.beginning(w.buffer, w.site.frame), events.ViewWindow):
        return _through(read, w)
    if at is None or len(at) != len(w.indices):
        return []
    a = read.access
    found = []
    for k, (index, value) in enumerate(zip(w.indices, at, strict=True)):
        if a is not None and a.buffer is w.buffer and how != "first":
            value_of = _modulo(solver.inline(index), Solver(read.instance, a.site, ()).inline(a.indices[k]), read)
            found.append(value_of or (index, value))
        else:
            found.append((index, value))
    return found


def _modulo(mine: Expr, theirs: Expr, read: ElementRead) -> tuple[Expr, Term] | None:
    """Remainders by one number are equal where what they are of is: the element of a rolling buffer."""
    match mine, theirs:
        case Apply(op="floormod", args=(x, m)), Apply(op="floormod", args=(y, n)) if same(m, n):
            if not any(isinstance(node, Load) for node in post_order(y)):
                return x, read.instance.query.terms.value(y, Unwrapped(read.instance.env), {})
    return None


def _through(read: ElementRead, w: events.AccessEvent) -> list[tuple[Expr, Term]]:
    """The same where the write is to a view: its indices in the memory, or its place there in row-major order."""
    indices = tuple(cast(i, INT64) for i in w.indices)
    for window in events.views_below(w.buffer, w.site.frame):
        view, firsts = window.view, starts_of(window.view)
        if window.direct and firsts is not None:
            starts = [cast(s, INT64) for s in firsts]
            first = len(starts) - len(indices)
            indices = (*starts[:first], *(s + i for s, i in zip(starts[first:], indices, strict=True)))
        else:
            flat = cast(view.offset, INT64)
            for i, step in zip(indices, view.strides, strict=True):
                flat = flat + i * cast(step, INT64)
            if len(view.source.shape) != 1:
                return [(flat, read.place.number())] if view.source is read.place.buffer else []
            indices = (flat,)
    at = read.place.indices
    return list(zip(indices, at, strict=True)) if at is not None else []


def _guards(w: events.AccessEvent, solver: Solver) -> list[tuple[Expr, Term]]:
    """Equations among the conditions around the write."""
    found: list[tuple[Expr, Term]] = []
    for frame in events.scope_chain(w.site.frame):
        if not isinstance(frame, events.Guard) or not frame.positive:
            continue
        for node in post_order(frame.condition, lambda n: n.children if isinstance(n, Apply) and n.op == "and" else ()):
            match node:
                case Apply(op="eq", args=(a, b)) if a.dtype.is_integer:
                    for left, right in ((a, b), (b, a)):
                        value = solver.factor(solver.inline(right))
                        if value is not None:
                            found.append((left, z3.IntVal(value) if isinstance(value, int) else value))
                case _:
                    pass
    return found


# --- asserts ---------------------------------------------------------------------------------------------------------


def told(f: Function, read: ElementRead) -> list[Term]:
    """What asserts that ran before say of the elements of inputs that a query speaks of."""
    query = read.instance.query
    facts: list[Term] = []
    for check in f.events.checks:
        if 2 * check.number >= read.order or not isinstance(check.stmt, Assert):
            continue
        loads = [n for n in post_order(check.stmt.condition) if isinstance(n, Load) and n.buffer in query.inputs]
        for buffer, indices in list(query.loaded):
            for load in loads:
                if load.buffer is buffer:
                    facts += _told(f, read, check, check.stmt.condition, list(zip(load.indices, indices, strict=True)))
    return facts


def _told(
    f: Function, read: ElementRead, check: events.Site, condition: Expr, equations: Sequence[tuple[Expr, Term]]
) -> list[Term]:
    """What an assert says in the iteration in which the element that it loads is the one spoken of."""
    given = {c: read.instance.loops[c] for c in _common(check.frame, read.frame)}
    unknown = [
        c for c in events.scope_chain(check.frame) if isinstance(c, (events.Loop, events.Again)) and c not in given
    ]
    if any(isinstance(c, events.Again) for c in unknown):
        return []
    solver = Solver(read.instance, check, unknown)
    solver.solve(equations)
    given |= solver.values("first", None, None)
    made = f.run(read.instance.query, check.frame, given)
    return [z3.Implies(z3.And(*made.guards), made.value(condition, check))]
