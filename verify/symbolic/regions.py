"""Blocks touch nothing that they do not declare (specs/verify.md, "Proofs for all sizes")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import z3

from assay.semantics.scalar import Interner
from assay.semantics.scalar.smt import Term
from assay.semantics.tensor import Region
from assay.semantics.tensor.regions import concerned
from assay.verify.symbolic.events import AccessEvent, EventScope, Mark, is_within, root_of
from assay.verify.symbolic.function import Function, access_names, element_text, shown
from assay.verify.symbolic.goals import Goal
from assay.verify.symbolic.instance import Instance


def declared(f: Function) -> Iterator[Goal]:
    """Every access in a block that declares accesses, of what began outside of it (rule M6.11)."""
    for frame in f.events.marks:
        assert isinstance(frame.what, Mark)
        seen: set[Any] = set()
        number = Interner()
        for a in f.events.accesses:
            said = frame.what.block.writes if a.write else frame.what.block.reads
            if said is None or not is_within(a.site.frame, frame):
                continue
            _, begin = root_of(a.buffer, a.site.frame)
            key = (a.site, a.buffer, a.write, tuple(map(number, a.indices)))
            if not is_within(begin, frame) and key not in seen:
                seen.add(key)
                yield _region(f, frame, said, a)


def _region(f: Function, frame: EventScope, said: Sequence[Region], a: AccessEvent) -> Goal:
    assert isinstance(frame.what, Mark)
    block = frame.what.block
    mine = [*said, *(() if a.write or block.init is None else block.writes or ())]
    query = f.query()
    instance, here = f.here(query, a.site)
    place = instance.element(a)
    inside = [
        _contains(instance, frame.what, r, at)
        for buffer, at in place.names(query.terms)
        for r in mine
        if r.buffer is buffer
    ]
    claim = f"block {block.name} declares that it {'writes' if a.write else 'reads'} {element_text(a)}: {shown(a.site)}"
    facts = [*here, instance.when(a), *place.own, *place.claims, z3.Not(z3.Or(*inside))]
    return f.goal("in region", claim, a.site, query, facts, [instance], access_names(a))


def _contains(instance: Instance, mark: Mark, region: Region, at: tuple[Term, ...]) -> Term:
    inside = [z3.BoolVal(True)]
    for index, parts in zip(at, concerned(region), strict=True):
        if parts is not None:
            low, *stop = (instance.value(e, mark.site) for e in parts)
            inside.append(z3.And(low <= index, index < stop[0]) if stop else index == low)
    return z3.And(*inside)
