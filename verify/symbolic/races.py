"""Iterations of parallel and vectorized loops are independent (specs/verify.md, "Proofs for all sizes")."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

import z3

from assay.semantics.scalar.smt import Term
from assay.semantics.tensor import INDEPENDENT, Buffer, loads
from assay.verify.symbolic.events import AccessEvent, Again, EventScope, Loop, distinct, is_within, root_of, scope_chain
from assay.verify.symbolic.function import Function, access_names, element_text
from assay.verify.symbolic.goals import Answer, Goal, Kind
from assay.verify.symbolic.instance import Instance
from assay.verify.symbolic.plain import plainly_apart

MOST_PAIRS = 60
MOST_AT_ONCE = 12
"""Pairs of accesses that are looked at for one loop and buffer, and those that one query may have."""

Pair: TypeAlias = tuple[AccessEvent, AccessEvent]


def independent(f: Function) -> Iterator[Goal]:
    """No two iterations touch a common element that one of them writes, what begins inside the loop apart."""
    for loop in f.events.loops:
        if loop.stmt.kind not in INDEPENDENT:
            continue

        def apart(a: AccessEvent, loop: Loop = loop) -> Hashable:
            alone = f.lazy(a.site) or loop.stmt.kind == "vectorized" or any(map(loads, a.indices))
            return a.site.frame, a.site if alone else None

        groups: dict[tuple[Buffer, EventScope | None], list[AccessEvent]] = {}
        for a in f.events.accesses:
            root, begin = root_of(a.buffer, a.site.frame)
            if is_within(a.site.frame, loop) and not is_within(begin, loop):
                groups.setdefault((root, begin), []).append(a)
        for (root, _), found in groups.items():
            pairs = _pairs(distinct(found, apart))
            if pairs:
                yield from _race(f, loop, root, pairs)


def _pairs(accesses: Sequence[AccessEvent]) -> list[Pair]:
    return [(a, b) for k, a in enumerate(accesses) for b in accesses[k:] if a.write or b.write]


def _race(f: Function, loop: Loop, root: Buffer, pairs: Sequence[Pair]) -> Iterator[Goal]:
    """One goal for all pairs, and only if z3 cannot decide that one for each."""
    claim = f"no two iterations of the loop over {loop.var.name} touch one element of {root.name} that one writes"
    if _kind(loop) == "side by side":
        claim = f"lanes of the loop over {loop.var.name} may touch {root.name} at once"
    if f.brief and plainly_apart(loop, root, pairs):
        yield f.shown(_kind(loop), claim, loop.stmt)
        return
    if len(pairs) > MOST_PAIRS:
        detail = f"{len(pairs)} pairs of accesses; checked on the run"
        yield Goal(_kind(loop), claim, "unknown", loop.stmt.span, detail)
        return
    if len(pairs) <= MOST_AT_ONCE:
        goal = _meeting(f, loop, claim, pairs)
        if goal.verdict == "proved" or len(pairs) == 1 or goal.verdict == "refuted":
            yield goal
            return
    for a, b in pairs:
        both = f"{element_text(a)} and {element_text(b)}" if a is not b else f"{element_text(a)} and itself"
        yield _meeting(f, loop, f"{claim}: {both}", [(a, b)])


def _kind(loop: Loop) -> Kind:
    return "side by side" if loop.stmt.kind == "vectorized" else "independent"


def _wrong(loop: Loop, a: AccessEvent, one: Instance, b: AccessEvent, two: Instance) -> Term:
    """That two iterations may not both touch one element: at all, or for lanes (rule E5) in that order."""
    if _kind(loop) == "independent":
        return one.loops[loop] != two.loops[loop]
    return z3.Or(_overtaken(loop, a, one, b, two), _overtaken(loop, b, two, a, one))


def _overtaken(loop: Loop, a: AccessEvent, one: Instance, b: AccessEvent, two: Instance) -> Term:
    """That `a` is of an earlier lane, and `b` comes before it when all lanes take each step at once.

    In one step all read before one writes.
    """
    reads_first = b.write and not a.write
    late = a.site.number > b.site.number if reads_first else a.site.number >= b.site.number
    later: Term = z3.BoolVal(late)
    shared = set(scope_chain(b.site.frame))
    for g in reversed(scope_chain(a.site.frame)):
        if g in shared and g.depth > loop.depth and isinstance(g, (Loop, Again)):
            x, y = _turn(one, g), _turn(two, g)
            later = z3.Or(x > y, z3.And(x == y, later))
    return z3.And(one.loops[loop] < two.loops[loop], later)


def _turn(instance: Instance, frame: EventScope) -> Term:
    """How many iterations of a loop came before: where it starts may differ between lanes."""
    match frame:
        case Loop(stmt=stmt, site=site) if stmt.start is not None:
            return instance.loops[frame] - instance.value(stmt.start, site)
        case _:
            return instance.loops[frame]


def _meeting(f: Function, loop: Loop, claim: str, pairs: Sequence[Pair]) -> Goal:
    query = f.query()
    met: list[tuple[Term, Instance, Instance]] = []
    for a, b in pairs:
        one = f.run(query, a.site.frame)
        two = f.run(query, b.site.frame, {g: one.loops[g] for g in scope_chain(loop.parent) if g in one.loops})
        facts = [*one.guards, *one.facts, *two.guards, *two.facts, one.when(a), two.when(b)]
        meet = one.element(a).equals(two.element(b))
        met.append((z3.And(*facts, meet, _wrong(loop, a, one, b, two)), one, two))

    def instances(answer: Answer) -> Sequence[Instance]:
        return next(
            (one, two) for holds, one, two in met if z3.is_true(answer.model.eval(holds, model_completion=True))
        )

    about = [name for pair in pairs for a in pair for name in access_names(a)]
    goal = f.goal(_kind(loop), claim, None, query, [z3.Or(*(m[0] for m in met))], instances, about)
    return replace(goal, where=loop.stmt.span)
