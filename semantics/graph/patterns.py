"""Patterns of a match: whether clauses cover every value; other variables (specs/semantics.md, "Data types").

A matrix of patterns, a row for each clause and a column for each part of the value, misses a value if one of the
matrices does that remain when a column is opened at each of its constructors (Maranget, "Warnings for pattern
matching", 2007). The order of rows does not matter here, and columns that ask nothing are left out, so that a matrix is
a set of rows; each is looked at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from assay.semantics.errors import Unsupported
from assay.semantics.graph import Bind, Fields, Made, Pattern, Var, Wildcard
from assay.semantics.module import Module
from assay.semantics.walk import Worklist, fold

Row: TypeAlias = tuple[Pattern | None, ...]
"""What a clause asks of each part of a value; None asks nothing."""

LIMIT = 2_000_000
"""How many patterns may be looked at. Whether a match covers every value is NP-hard; no sensible match comes near."""


def covers(patterns: Sequence[Pattern], module: Module, limit: int = LIMIT) -> bool:
    """Whether every value matches one of the patterns, which are well-typed. Unsupported where that is too
    intricate."""
    work = Worklist[Sequence[Row]]([_matrix([(_asks(p),) for p in patterns])], _key)
    for rows in work:
        if not rows:
            return False
        if not all(rows):  # some row asks nothing: it takes every value
            continue
        limit -= len(rows) * len(rows[0])
        if limit < 0:
            raise Unsupported(
                "whether the clauses cover every value is too intricate to decide: make the match partial, or its"
                " patterns simpler",
                label="match.C6",
            )
        work.add(_opened(rows, _column(rows), module))
    return True


def _asks(pattern: Pattern) -> Pattern | None:
    return None if isinstance(pattern, (Wildcard, Bind)) else pattern


def _key(rows: Sequence[Row]) -> frozenset[tuple[int, ...]]:
    return frozenset(tuple(0 if p is None else id(p) for p in row) for row in rows)


def _matrix(rows: Iterable[Row]) -> list[Row]:
    """Rows without what asks nothing: rows that stand there twice, and columns. A row that takes everything is
    alone."""
    found = list(dict.fromkeys(rows))
    if any(all(p is None for p in row) for row in found):
        return [()]
    used = [i for i in range(len(found[0])) if any(row[i] is not None for row in found)] if found else []
    return [tuple(row[i] for i in used) for row in found]


def _column(rows: Sequence[Row]) -> int:
    """A column of the row that asks about the fewest: it takes most values, and soon takes all that are left. Of those
    the one that most rows ask about: the others go to every constructor."""
    asked = [sum(row[i] is not None for row in rows) for i in range(len(rows[0]))]
    least = min(rows, key=lambda row: sum(p is not None for p in row))
    return max((i for i, p in enumerate(least) if p is not None), key=asked.__getitem__)


def _opened(rows: Sequence[Row], at: int, module: Module) -> Iterable[Sequence[Row]]:
    """The matrices for the values whose part `at` each constructor made; one for all constructors that no row names."""
    made: dict[str | None, list[Row]] = {}
    width: dict[str | None, int] = {}
    data: str | None = None
    for row in rows:
        match row[at]:
            case Made() as p:
                name: str | None = p.constructor.name
                data = p.constructor.data
            case Fields() as p:
                name = None
            case _:
                continue
        made.setdefault(name, []).append((*row[:at], *map(_asks, p.fields), *row[at + 1 :]))
        width[name] = len(p.fields)
    others = [(row[:at], row[at + 1 :]) for row in rows if row[at] is None]
    for name, found in made.items():
        nothing: Row = (None,) * width[name]
        yield _matrix([*found, *((*left, *nothing, *right) for left, right in others)])
    if data is not None and any(name not in made for name in module.data(data).constructors):
        yield _matrix((*left, *right) for left, right in others)


def with_variables(pattern: Pattern, new: Callable[[Var], Var]) -> Pattern:
    """The pattern with other variables."""

    def made(p: Pattern, fields: list[Pattern]) -> Pattern:
        match p:
            case Bind():
                return Bind(new(p.var))
            case Made() | Fields():
                return replace(p, fields=tuple(fields))
            case _:
                return p

    return fold(pattern, made)
