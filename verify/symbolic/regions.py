"""Blocks touch nothing that they do not declare (specs/verify.md, "Proofs for all sizes")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import z3

from assay.semantics.scalar.smt import Term
from assay.semantics.tensor import Region
from assay.semantics.tensor.regions import concerned
from assay.verify.symbolic.events import AccessEvent, Mark, is_within, root_of
from assay.verify.symbolic.function import Function, access_names, element_text, statement_line
from assay.verify.symbolic.goals import Goal
from assay.verify.symbolic.instance import Instance


def declared(f: Function) -> Iterator[Goal]:
    """Every access in a block that declares accesses, of what began outside of it (rule M6.11)."""
    for mark in f.events.marks:
        for a in f.accesses:
            said = mark.block.writes if a.write else mark.block.reads
            _, begin = root_of(a.buffer, a.site.frame)
            if said is not None and is_within(a.site.frame, mark) and not is_within(begin, mark):
                yield _region(f, mark, said, a)


def _region(f: Function, mark: Mark, said: Sequence[Region], a: AccessEvent) -> Goal:
    block = mark.block
    mine = [*said, *(() if a.write or block.init is None else block.writes or ())]
    at = f.visit(a.site)
    place = at.instance.element(a)
    inside = [
        _contains(at.instance, mark, r, indices)
        for buffer, indices in place.names(at.query.terms)
        for r in mine
        if r.buffer is buffer
    ]
    verb = "writes" if a.write else "reads"
    claim = f"block {block.name} declares that it {verb} {element_text(a)}: {statement_line(a.site)}"
    wrong = [at.instance.when(a), *place.exists, z3.Not(z3.Or(*inside))]
    return at.goal("in region", claim, wrong, access_names(a))


def _contains(instance: Instance, mark: Mark, region: Region, at: tuple[Term, ...]) -> Term:
    inside = [z3.BoolVal(True)]
    for index, parts in zip(at, concerned(region), strict=True):
        if parts is not None:
            low, *stop = (instance.value(e, mark.site) for e in parts)
            inside.append(z3.And(low <= index, index < stop[0]) if stop else index == low)
    return z3.And(*inside)
