"""Patterns of a match: whether clauses cover every value (specs/semantics.md, "Data types").

The question is asked column by column (Maranget, "Warnings for pattern matching", 2007).
"""

from __future__ import annotations

from collections.abc import Sequence

from assay.semantics.graph import Bind, Fields, Made, Pattern, Wildcard, constructor, field_types
from assay.semantics.module import Module
from assay.semantics.types import DataType, TupleType, Type

Row = tuple[Pattern, ...]


def covers(patterns: Sequence[Pattern], of: Type, module: Module) -> bool:
    """Whether every value of type `of` matches one of the patterns."""
    work: list[tuple[list[Row], tuple[Type, ...]]] = [([(p,) for p in patterns], (of,))]
    while work:
        rows, types = work.pop()
        if not rows:
            return False
        if not types:
            continue
        first, *others = types
        rest = tuple(others)
        if all(isinstance(p, (Wildcard, Bind)) for p in rows[0]):
            continue
        if all(isinstance(row[0], (Wildcard, Bind)) for row in rows):
            work.append(([row[1:] for row in rows], rest))
        elif isinstance(first, TupleType):
            work.append((_inside(rows, len(first.fields), None), (*first.fields, *rest)))
        elif isinstance(first, DataType):
            data = module.data(first.name)
            for name in data.constructors:
                fields = field_types(constructor(data, name), first)
                work.append((_inside(rows, len(fields), name), (*fields, *rest)))
    return True


def _inside(rows: Sequence[Row], fields: int, name: str | None) -> list[Row]:
    """The rows for values that constructor `name` made (None: a tuple), their first pattern opened."""
    found: list[Row] = []
    for first, *rest in rows:
        match first:
            case Wildcard() | Bind():
                found.append((*[Wildcard()] * fields, *rest))
            case Fields():
                found.append((*first.fields, *rest))
            case Made() if first.constructor.name == name:
                found.append((*first.fields, *rest))
            case _:
                pass
    return found
