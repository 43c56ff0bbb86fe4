"""Goals about single places: overflow, division by zero, domains, bounds (specs/verify.md, "Proofs for all sizes")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import z3

from assay.semantics.dtypes import BOOL
from assay.semantics.scalar import Apply, Cast, Expr, Interner, Load, Var, may_trap, operation, show
from assay.semantics.scalar.smt import Term, inside, may_overflow
from assay.semantics.tensor import Allocate, Block, For, LetStmt
from assay.semantics.tensor.places import is_private
from assay.semantics.tensor.regions import matching
from assay.semantics.walk import depending, post_order
from assay.verify.symbolic import events
from assay.verify.symbolic.function import Function, Visit, access_names, box_text, element_text, statement_line
from assay.verify.symbolic.goals import Goal, Kind, decide
from assay.verify.symbolic.initialisation import ElementRead, told
from assay.verify.symbolic.instance import starts_of
from assay.verify.symbolic.plain import PlainRanges, loop_ranges, plainly_within
from assay.verify.symbolic.replay import ReplayedGoal, leaves_dtype


def overflow_goals(f: Function) -> Iterator[Goal]:
    """That indices, extents and conditions stay within their dtypes; sites remember which steps were shown to.

    What depends on elements is not a goal: there wrapping is the meaning. It is translated with its wrapping.
    """
    tainted: set[Var] = set()

    def data(root: Expr) -> set[int]:
        return depending(root, lambda n: isinstance(n, Load) or n in tainted)

    for site in f.events.sites:
        nodes = {id(n): n for root in f.steps[site] for n in post_order(root)}
        known = {part for root in f.steps[site] for part in data(root)}
        binders = (site.stmt,) if isinstance(site.stmt, LetStmt) else getattr(site.stmt, "iterators", ())
        tainted.update([b.var for b in binders if data(b.value)])
        leaving = [n for key, n in nodes.items() if key not in known and may_overflow(n)]
        if leaving:
            yield from _overflow(f, site, leaving)
        if isinstance(site.stmt, For) and (
            site.stmt.start is not None or site.stmt.extent.dtype is not site.stmt.var.dtype
        ):
            yield _counter(f, site, site.stmt)


def _counter(f: Function, site: events.Site, loop: For) -> Goal:
    """That a loop's variable gets to its end."""
    at = f.visit(site)
    start = z3.IntVal(0) if loop.start is None else at.value(loop.start)
    extent = at.value(loop.extent)
    wrong = z3.And(
        extent > 0, z3.Or(z3.Not(inside(start, loop.var.dtype)), start + extent - 1 > int(loop.var.dtype.max))
    )
    claim = f"{loop.var.name} stays in {loop.var.dtype}: {statement_line(site)}"
    facts = [*f.sizes(at.query, at.instance), wrong]
    goal = at.goal("no overflow", claim, facts, confirm=lambda _: ReplayedGoal(False, "it is not run"))
    if goal.verdict != "proved":
        f.doubt = f"the variable of the loop over {loop.var.name} may wrap around; checked on the run"
    return goal


def _overflow(f: Function, site: events.Site, leaving: Sequence[Expr]) -> Iterator[Goal]:
    """One goal for all steps of a site: the first to leave its dtype has operands that did not. Else one for each."""

    def leaves_dtype_at(at: Visit, nodes: Sequence[Expr]) -> list[Term]:
        when = at.instance.evaluated(site)
        wrong = []
        for n in nodes:
            parts = [at.value(c) for c in n.children]
            condition = when.get(id(n))
            out = [z3.Not(inside(at.query.terms.exactly(n, parts), n.dtype))]
            if isinstance(n, Apply) and operation(n.op).has("divides"):
                out.append(parts[1] != 0)
            wrong.append(z3.And(*out, *([] if condition is None else [condition])))
        return [*f.sizes(at.query, at.instance), z3.Or(*wrong)]

    claim = f"indices and extents stay in their dtypes: {statement_line(site)}"
    site.exact.update(map(id, leaving))
    if f.brief and PlainRanges(loop_ranges(site.frame)).stays(leaving):
        yield f.shown("no overflow", claim, site.stmt)
        return
    at = f.visit(site)
    wrong = leaves_dtype_at(at, leaving)
    whole = decide([*f.base, *at.query.terms.known, *at.here, *wrong], f"{f.func.name}: no overflow: {claim}")
    if whole.holds == "never":
        yield Goal("no overflow", claim, "unknown" if f.doubt else "proved", site.stmt.span, f.doubt, query=whole.text)
        return
    site.exact.difference_update(map(id, leaving))
    failed = False
    for n in leaving:
        at = f.visit(site)
        claim = f"{show(n)} stays in {n.dtype}: {statement_line(site)}"
        found = at.goal("no overflow", claim, leaves_dtype_at(at, [n]), confirm=partial(leaves_dtype, site, n))
        if found.verdict == "proved":
            site.exact.add(id(n))
        if found.verdict == "proved" or not failed:
            yield found
        failed = failed or found.verdict != "proved"


def arithmetic(f: Function) -> Iterator[Goal]:
    """Divisors that are not 0, shifts by less than the width, and casts of floats, of which nothing is known."""
    for site in f.events.sites:
        number = Interner()
        nodes = {number(n) if not f.lazy(site) else id(n): n for root in site.roots for n in post_order(root)}
        for n in nodes.values():
            found = _arithmetic(f, site, n)
            if found is not None:
                yield found


def _arithmetic(f: Function, site: events.Site, n: Expr) -> Goal | None:
    at = f.visit(site)
    match n:
        case Apply(op=op, args=(_, b)) if operation(op).has("divides") and may_trap(n):
            wrong = at.value(b) == 0
            kind: Kind = "no division by zero"
        case Apply(args=(_, b)) if may_trap(n):
            by = at.value(b)
            wrong, kind = z3.Or(by < 0, by >= b.dtype.bits), "shift"
        case Cast(arg=arg) if arg.dtype.is_float and n.dtype.is_integer and n.dtype is not BOOL:
            claim = f"{show(arg)} fits {n.dtype}"
            return Goal(
                "cast", claim, "unknown", site.stmt.span, "it depends on the values of floats; checked on the run"
            )
        case _:
            return None
    when = at.instance.evaluated(site)[id(n)]
    claim = f"{show(n)} has a value: {statement_line(site)}"
    return at.goal(kind, claim, [wrong, *([] if when is None else [when])])


def windows(f: Function) -> Iterator[Goal]:
    """Find out which views lie inside their regions in each dimension: their elements are then found by indices.

    Later queries rest on it, so it is a goal of its own where it holds; where it is not shown, nothing rests on it.
    """
    for window in f.events.windows:
        view, firsts = window.view, starts_of(window.view)
        if firsts is None:
            continue
        at = f.visit(window.site, window)
        source = at.instance.shape(view.source, window.parent)
        starts = [at.value(s) for s in firsts]
        missing = len(starts) - len(view.buffer.shape)
        extents = [z3.IntVal(1)] * missing + list(at.instance.shapes[window])
        claims = [z3.And(0 <= s, s + e <= d) for s, e, d in zip(starts, extents, source, strict=True)]
        flat, step = z3.IntVal(0), z3.IntVal(1)
        for k in reversed(range(len(source))):
            if k >= missing:
                claims.append(step == at.value(view.strides[k - missing]))
            flat, step = flat + starts[k] * step, step * source[k]
        claims.append(flat == at.value(view.offset))
        some = [e > 0 for e in extents]
        facts = [*f.base, *at.query.terms.known, *at.here, *some, z3.Not(z3.And(*claims))]
        claim = f"each index of {view.buffer.name} is one of {view.source.name}, moved by where it begins"
        found = decide(facts, f"{f.func.name}: in bounds: {claim}\nunsat means that it holds for all sizes")
        window.direct = not f.doubt and found.holds == "never"
        if window.direct:
            yield Goal("in bounds", claim, "proved", window.site.stmt.span, query=found.text)


def scopes(f: Function) -> Iterator[Goal]:
    """No view says that its memory is of another kind than it is."""
    for window in f.events.windows:
        own, of = window.view.buffer, window.view.source
        if own.scope != of.scope:
            claim = f"{own.name} is no view of {of.name}: {own.scope} is not {of.scope}"
            yield f.visit(window.site).goal("own memory", claim, [])


def matches(f: Function) -> Iterator[Goal]:
    """What a buffer is a match of lies in the source, and has the buffer's shape."""
    for window in f.events.windows:
        claims = matching(window.view)
        for kind, trap, what in KINDS_OF_MATCH:
            at = f.visit(window.site)
            wrong = [at.value(c.low) > at.value(c.high) for c in claims if c.kind == trap]
            if wrong:
                claim = f"the region that {window.view.buffer.name} matches {what} {window.view.source.name}"
                yield at.goal(kind, claim, [z3.Or(*wrong)])


KINDS_OF_MATCH: tuple[tuple[Kind, str, str], ...] = (
    ("in bounds", "out of bounds", "lies in"),
    ("as matched", "shape", "has its shape in"),
)


def negative(f: Function) -> Iterator[Goal]:
    """Buffers that begin inside the function have no negative dims."""
    begins: list[events.Life | events.ViewWindow] = [*f.events.lives, *f.events.windows]
    for frame in begins:
        buffer = frame.buffer
        if any(isinstance(d, Expr) for d in buffer.shape):
            at = f.visit(frame.site, frame)
            wrong = z3.Or(*(d < 0 for d in at.instance.shapes[frame]))
            claim = f"no dim of {buffer.name} is negative: ({', '.join(map(show, buffer.shape))})"
            yield at.goal("dims not negative", claim, [wrong])


def domains(f: Function) -> Iterator[Goal]:
    """Iterators of blocks get values of their domains."""
    for d in f.events.domains:
        yield _domain(f, d)


def _domain(f: Function, d: events.IteratorDomain) -> Goal:
    at = f.visit(d.site)
    i = d.block.iterators[d.index]
    start = z3.IntVal(0) if i.start is None else at.value(i.start)
    value, extent = at.value(i.value), at.value(i.extent)
    claim = f"block {d.block.name}: {i.var.name} = {show(i.value)} lies in its domain of {show(i.extent)}"
    return at.goal("in domain", claim, [z3.Or(value < start, value >= start + extent)])


def bounds(f: Function) -> Iterator[Goal]:
    """Every access in bounds in each dimension, of the view that it names and of what lies below; no constant stored
    to."""
    for a in f.accesses:
        root, begin = events.root_of(a.buffer, a.site.frame)
        element, names = element_text(a), access_names(a)
        if a.indices and f.brief and plainly_within(a, root):
            yield f.shown("in bounds", f"{element} lies in {box_text(a.buffer)}: {statement_line(a.site)}", a.site.stmt)
        elif a.indices:
            at = f.visit(a.site)
            place = at.instance.element(a)
            wrong = z3.Not(z3.And(*place.exists))
            asserted = told(f, ElementRead(a, a.site.frame, place, at.instance))
            claim = f"{element} lies in {box_text(a.buffer)}: {statement_line(a.site)}"
            yield at.goal("in bounds", claim, [*asserted, at.instance.when(a), wrong], names)
        if a.write and (root in f.func.inputs or events.constant_contents(begin) is not None or _is_constant(a)):
            claim = f"{element} is not stored to: it is read-only"
            yield f.visit(a.site).goal("writable", claim, [], names)
        shared = is_private(root) and not _is_movable(begin) and any(map(_is_parallel, inner(a.site.frame, begin)))
        if a.write and shared:
            claim = f"{element} is not stored to: {root.name} belongs to one thread"
            yield f.visit(a.site).goal("own memory", claim, [], names)


def _is_constant(a: events.AccessEvent) -> bool:
    """Whether an access goes through a view that must not be written through."""
    return any(window.view.constant for window in events.views_below(a.buffer, a.site.frame))


def _is_movable(begin: events.EventScope | None) -> bool:
    """Whether a buffer that begins there is a block's own: a schedule says where it begins."""
    stmt = None if begin is None else begin.site.stmt
    return isinstance(stmt, Block) or (isinstance(stmt, Allocate) and stmt.movable)


def _is_parallel(frame: events.EventScope) -> bool:
    return isinstance(frame, events.Loop) and frame.stmt.kind == "parallel"


def inner(frame: events.EventScope | None, outer: events.EventScope | None) -> list[events.EventScope]:
    """The frames around, up to another one."""
    depth = -1 if outer is None else outer.depth
    return [g for g in events.scope_chain(frame) if g.depth > depth]
