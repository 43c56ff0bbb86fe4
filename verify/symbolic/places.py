"""Goals about single places: overflow, division by zero, domains, bounds (specs/verify.md, "Proofs for all sizes")."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import z3

from assay.semantics.dtypes import BOOL
from assay.semantics.scalar import Apply, Cast, Expr, Interner, Load, Var, may_trap, operation, show
from assay.semantics.scalar.smt import Term, inside, leaves
from assay.semantics.tensor import Allocate, Block, For, LetStmt
from assay.semantics.tensor.places import is_private
from assay.semantics.tensor.regions import matching
from assay.semantics.walk import post_order
from assay.verify.symbolic.events import (
    AccessEvent,
    EventScope,
    IteratorDomain,
    Life,
    Loop,
    Site,
    ViewWindow,
    beginning,
    constant_contents,
    root_of,
    scope_chain,
)
from assay.verify.symbolic.function import Function, access_names, box_text, element_text, shown
from assay.verify.symbolic.goals import Answer, Goal, Kind, decide
from assay.verify.symbolic.initialisation import told
from assay.verify.symbolic.instance import Instance, InstanceQuery, starts_of
from assay.verify.symbolic.replay import ReplayedGoal, leaves_dtype


def overflow_goals(f: Function) -> Iterator[Goal]:
    """That indices, extents and conditions stay within their dtypes; sites remember which steps were shown to.

    What depends on elements is not a goal: there wrapping is the meaning. It is translated with its wrapping.
    """
    tainted: set[Var] = set()
    for site in f.events.sites:
        known = set(tainted)
        nodes: dict[int, Expr] = {}
        data: set[int] = set()
        for root in f.steps[site]:
            for n in post_order(root):
                nodes[id(n)] = n
        for n in nodes.values():
            if isinstance(n, Load) or n in known or any(id(c) in data for c in n.children):
                data.add(id(n))
        if isinstance(site.stmt, LetStmt):
            loads = any(isinstance(n, Load) or n in known for n in post_order(site.stmt.value))
            tainted |= {site.stmt.var} if loads else set()
        for i in getattr(site.stmt, "iterators", ()):
            tainted |= {i.var} if any(isinstance(n, Load) or n in known for n in post_order(i.value)) else set()
        leaving = [n for n in nodes.values() if id(n) not in data and leaves(n)]
        if leaving:
            yield from _overflow(f, site, leaving)
        if isinstance(site.stmt, For) and (
            site.stmt.start is not None or site.stmt.extent.dtype is not site.stmt.var.dtype
        ):
            yield _counter(f, site, site.stmt)


def _counter(f: Function, site: Site, loop: For) -> Goal:
    """That a loop's variable gets to its end."""
    query = f.query()
    instance, here = f.here(query, site)
    start = z3.IntVal(0) if loop.start is None else instance.value(loop.start, site)
    extent = instance.value(loop.extent, site)
    wrong = z3.And(
        extent > 0, z3.Or(z3.Not(inside(start, loop.var.dtype)), start + extent - 1 > int(loop.var.dtype.max))
    )
    claim = f"{loop.var.name} stays in {loop.var.dtype}: {shown(site)}"
    facts = [*here, *f.sizes(query, instance), wrong]
    goal = f.goal(
        "no overflow", claim, site, query, facts, [instance], (), lambda *_: ReplayedGoal(False, "it is not run")
    )
    if goal.verdict != "proved":
        f.doubt = f"the variable of the loop over {loop.var.name} may wrap around; checked on the run"
    return goal


def _overflow(f: Function, site: Site, leaving: Sequence[Expr]) -> Iterator[Goal]:
    """One goal for all steps of a site: the first to leave its dtype has operands that did not. Else one for each."""

    def against(query: InstanceQuery, nodes: Sequence[Expr]) -> tuple[Instance, list[Term]]:
        instance, here = f.here(query, site)
        when = instance.evaluated(site)
        wrong = []
        for n in nodes:
            parts = [instance.value(c, site) for c in n.children]
            condition = when.get(id(n))
            out = [z3.Not(inside(query.terms.exactly(n, parts), n.dtype))]
            if isinstance(n, Apply) and operation(n.op).has("divides"):
                out.append(parts[1] != 0)
            wrong.append(z3.And(*out, *([] if condition is None else [condition])))
        return instance, [*here, *f.sizes(query, instance), z3.Or(*wrong)]

    claim = f"indices and extents stay in their dtypes: {shown(site)}"
    site.exact.update(map(id, leaving))
    query = f.query()
    instance, constraints = against(query, leaving)
    whole = decide([*f.base, *query.terms.known, *constraints], f"{f.func.name}: no overflow: {claim}")
    if whole.holds == "never":
        yield Goal("no overflow", claim, "unknown" if f.doubt else "proved", site.stmt.span, f.doubt, query=whole.text)
        return
    site.exact.difference_update(map(id, leaving))
    failed = False
    for n in leaving:
        query = f.query()
        instance, constraints = against(query, [n])
        found = f.goal(
            "no overflow",
            f"{show(n)} stays in {n.dtype}: {shown(site)}",
            site,
            query,
            constraints,
            [instance],
            (),
            _confirmed(site, n),
        )
        if found.verdict == "proved":
            site.exact.add(id(n))
        if found.verdict == "proved" or not failed:
            yield found
        failed = failed or found.verdict != "proved"


def _confirmed(site: Site, node: Expr) -> Callable[[Answer, Mapping[Var, Any]], ReplayedGoal]:
    """Whether a counterexample's values really take a step out of its dtype."""
    return lambda answer, values: leaves_dtype(site, node, values)


def arithmetic(f: Function) -> Iterator[Goal]:
    """Divisors that are not 0, shifts by less than the width, and casts of floats, of which nothing is known."""
    for site in f.events.sites:
        number = Interner()
        nodes = {number(n) if not f.lazy(site) else id(n): n for root in site.roots for n in post_order(root)}
        for n in nodes.values():
            found = _arithmetic(f, site, n)
            if found is not None:
                yield found


def _arithmetic(f: Function, site: Site, n: Expr) -> Goal | None:
    query = f.query()
    match n:
        case Apply(op=op, args=(_, b)) if operation(op).has("divides") and may_trap(n):
            instance, here = f.here(query, site)
            wrong = instance.value(b, site) == 0
            kind: Kind = "no division by zero"
        case Apply(args=(_, b)) if may_trap(n):
            instance, here = f.here(query, site)
            by = instance.value(b, site)
            wrong, kind = z3.Or(by < 0, by >= b.dtype.bits), "shift"
        case Cast(arg=arg) if arg.dtype.is_float and n.dtype.is_integer and n.dtype is not BOOL:
            claim = f"{show(arg)} fits {n.dtype}"
            return Goal(
                "cast", claim, "unknown", site.stmt.span, "it depends on the values of floats; checked on the run"
            )
        case _:
            return None
    when = instance.evaluated(site)[id(n)]
    claim = f"{show(n)} has a value: {shown(site)}"
    return f.goal(kind, claim, site, query, [*here, wrong, *([] if when is None else [when])], [instance])


def windows(f: Function) -> Iterator[Goal]:
    """Find out which views lie inside their regions in each dimension: their elements are then found by indices.

    Later queries rest on it, so it is a goal of its own where it holds; where it is not shown, nothing rests on it.
    """
    for frame in f.events.windows:
        window = frame.what
        assert isinstance(window, ViewWindow)
        view, firsts = window.view, starts_of(window.view)
        if firsts is None:
            continue
        query = f.query()
        instance = f.run(query, frame)
        source = instance.shape(view.source, frame.parent)
        starts = [instance.value(s, window.site) for s in firsts]
        missing = len(starts) - len(view.buffer.shape)
        extents = [z3.IntVal(1)] * missing + list(instance.shapes[frame])
        claims = [z3.And(0 <= s, s + e <= d) for s, e, d in zip(starts, extents, source, strict=True)]
        flat, step = z3.IntVal(0), z3.IntVal(1)
        for k in reversed(range(len(source))):
            if k >= missing:
                claims.append(step == instance.value(view.strides[k - missing], window.site))
            flat, step = flat + starts[k] * step, step * source[k]
        claims.append(flat == instance.value(view.offset, window.site))
        some = [e > 0 for e in extents]
        facts = [*f.base, *query.terms.known, *instance.guards, *instance.facts, *some, z3.Not(z3.And(*claims))]
        claim = f"each index of {view.buffer.name} is one of {view.source.name}, moved by where it begins"
        found = decide(facts, f"{f.func.name}: in bounds: {claim}\nunsat means that it holds for all sizes")
        window.direct = not f.doubt and found.holds == "never"
        if window.direct:
            yield Goal("in bounds", claim, "proved", window.site.stmt.span, query=found.text)


def scopes(f: Function) -> Iterator[Goal]:
    """No view says that its memory is of another kind than it is."""
    for frame in f.events.windows:
        window = frame.what
        assert isinstance(window, ViewWindow)
        view = window.view
        if view.buffer.scope != view.source.scope:
            query = f.query()
            instance, here = f.here(query, window.site)
            claim = (
                f"{view.buffer.name} is no view of {view.source.name}: {view.buffer.scope} is not {view.source.scope}"
            )
            yield f.goal("own memory", claim, window.site, query, here, [instance])


def matches(f: Function) -> Iterator[Goal]:
    """What a buffer is a match of lies in the source, and has the buffer's shape."""
    for frame in f.events.windows:
        window = frame.what
        assert isinstance(window, ViewWindow)
        claims = matching(window.view)
        for kind, trap, what in KINDS_OF_MATCH:
            query = f.query()
            instance, here = f.here(query, window.site)
            wrong = [
                instance.value(c.low, window.site) > instance.value(c.high, window.site)
                for c in claims
                if c.kind == trap
            ]
            if wrong:
                claim = f"the region that {window.view.buffer.name} matches {what} {window.view.source.name}"
                yield f.goal(kind, claim, window.site, query, [*here, z3.Or(*wrong)], [instance])


KINDS_OF_MATCH: tuple[tuple[Kind, str, str], ...] = (
    ("in bounds", "out of bounds", "lies in"),
    ("as matched", "shape", "has its shape in"),
)


def negative(f: Function) -> Iterator[Goal]:
    """Buffers that begin inside the function have no negative dims."""
    for frame in (*f.events.lives, *f.events.windows):
        what = frame.what
        assert isinstance(what, (Life, ViewWindow))
        buffer = what.buffer if isinstance(what, Life) else what.view.buffer
        if not any(isinstance(d, Expr) for d in buffer.shape):
            continue
        query = f.query()
        instance = f.run(query, frame)
        wrong = z3.Or(*(d < 0 for d in instance.shapes[frame]))
        claim = f"no dim of {buffer.name} is negative: ({', '.join(map(show, buffer.shape))})"
        yield f.goal(
            "dims not negative", claim, what.site, query, [*instance.guards, *instance.facts, wrong], [instance]
        )


def domains(f: Function) -> Iterator[Goal]:
    """Iterators of blocks get values of their domains."""
    for d in f.events.domains:
        yield _domain(f, d)


def _domain(f: Function, d: IteratorDomain) -> Goal:
    query = f.query()
    instance, here = f.here(query, d.site)
    i = d.block.iterators[d.index]
    start = z3.IntVal(0) if i.start is None else instance.value(i.start, d.site)
    value, extent = instance.value(i.value, d.site), instance.value(i.extent, d.site)
    claim = f"block {d.block.name}: {i.var.name} = {show(i.value)} lies in its domain of {show(i.extent)}"
    return f.goal("in domain", claim, d.site, query, [*here, z3.Or(value < start, value >= start + extent)], [instance])


def bounds(f: Function) -> Iterator[Goal]:
    """Every access in bounds in each dimension, of the view that it names and of what lies below; no constant stored
    to."""
    seen: set[Any] = set()
    number = Interner()
    for a in f.events.accesses:
        key = (a.site, a.buffer, a.write, tuple(map(number, a.indices)), id(a.node) if f.lazy(a.site) else 0)
        if key in seen:
            continue
        seen.add(key)
        root, begin = root_of(a.buffer, a.site.frame)
        if a.indices:
            query = f.query()
            instance, here = f.here(query, a.site)
            place = instance.element(a)
            wrong = z3.Not(z3.And(*place.own, *place.claims))
            facts = [*here, *told(f, query, a, instance), instance.when(a), wrong]
            claim = f"{element_text(a)} lies in {box_text(a.buffer)}: {shown(a.site)}"
            yield f.goal("in bounds", claim, a.site, query, facts, [instance], access_names(a))
        if a.write and (root in f.func.inputs or constant_contents(begin) is not None or _is_constant(a)):
            query = f.query()
            instance, here = f.here(query, a.site)
            yield f.goal(
                "writable",
                f"{element_text(a)} is not stored to: it is read-only",
                a.site,
                query,
                here,
                [instance],
                access_names(a),
            )
        if (
            a.write
            and is_private(root)
            and not _is_movable(begin)
            and any(map(_is_parallel, inner(a.site.frame, begin)))
        ):
            query = f.query()
            instance, here = f.here(query, a.site)
            claim = f"{element_text(a)} is not stored to: {root.name} belongs to one thread"
            yield f.goal("own memory", claim, a.site, query, here, [instance], access_names(a))


def _is_constant(a: AccessEvent) -> bool:
    """Whether an access goes through a view that must not be written through."""
    buffer, begin = a.buffer, beginning(a.buffer, a.site.frame)
    while begin is not None and isinstance(begin.what, ViewWindow):
        if begin.what.view.constant:
            return True
        buffer = begin.what.view.source
        begin = beginning(buffer, begin.parent)
    return False


def _is_movable(begin: EventScope | None) -> bool:
    """Whether a buffer that begins there is a block's own: a schedule says where it begins."""
    stmt = None if begin is None else begin.what.site.stmt
    return isinstance(stmt, Block) or (isinstance(stmt, Allocate) and stmt.movable)


def _is_parallel(frame: EventScope) -> bool:
    return isinstance(frame.what, Loop) and frame.what.stmt.kind == "parallel"


def inner(frame: EventScope | None, outer: EventScope | None) -> list[EventScope]:
    """The frames around, up to another one."""
    depth = -1 if outer is None else outer.depth
    return [g for g in scope_chain(frame) if g.depth > depth]
