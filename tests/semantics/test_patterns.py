"""Whether the clauses of a match cover every value: against all small values, and how many steps it takes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from random import Random
from typing import Any, TypeAlias

import pytest

from assay.semantics import graph as g
from assay.semantics.errors import Unsupported
from assay.semantics.graph import Bind, Fields, Made, Pattern, Wildcard, var
from assay.semantics.graph.patterns import covers
from assay.semantics.module import Module
from assay.semantics.types import DataDef, DataType, TupleType, Type
from tests.scale import MANY

pytestmark = pytest.mark.row("J18")
BIT = DataDef("Bit", (), {"o": (), "i": ()})
TREE = DataDef("Tree", (), {"leaf": (), "node": (DataType("Tree"), DataType("Tree")), "bit": (DataType("Bit"),)})
MODULE = Module({"Bit": BIT, "Tree": TREE})
CONSTRUCTORS = {n: g.constructor(d, n) for d in (BIT, TREE) for n in d.constructors}
ANY = Wildcard()
Plain: TypeAlias = tuple[Any, ...]


def made(name: str, *fields: Pattern) -> Made:
    return Made(CONSTRUCTORS[name], fields)


O, I = made("o"), made("i")  # noqa: E741


def values(of: Type, depth: int) -> list[Plain]:
    """All values of a type, no deeper than `depth` constructors, where there are any."""
    if isinstance(of, TupleType):
        return [("", *parts) for parts in product(*(values(t, depth) for t in of.fields))]
    assert isinstance(of, DataType)
    found: list[Plain] = []
    for name, fields in MODULE.data(of.name).constructors.items():
        if depth > 1 or not fields:
            found += [(name, *parts) for parts in product(*(values(t, depth - 1) for t in fields))]
    return found


def takes(pattern: Pattern, value: Plain) -> bool:
    match pattern:
        case Made():
            return value[0] == pattern.constructor.name and all(map(takes, pattern.fields, value[1:]))
        case Fields():
            return all(map(takes, pattern.fields, value[1:]))
        case _:
            return True


def random_pattern(rng: Random, of: Type, depth: int) -> Pattern:
    if depth == 0 or rng.random() < 0.3:
        return rng.choice([ANY, Bind(var("v", of))])
    if isinstance(of, TupleType):
        return Fields(tuple(random_pattern(rng, t, depth) for t in of.fields))
    assert isinstance(of, DataType)
    name, fields = rng.choice(list(MODULE.data(of.name).constructors.items()))
    return made(name, *(random_pattern(rng, t, depth - 1) for t in fields))


@pytest.mark.parametrize(
    "of",
    [
        DataType("Tree"),
        TupleType((DataType("Bit"), DataType("Tree"))),
        TupleType((DataType("Bit"), TupleType((DataType("Bit"),) * 2))),
    ],
    ids=str,
)
def test_it_is_as_all_values_say(of: Type) -> None:
    rng = Random(str(of))
    every = values(of, 3)
    seen = {True: 0, False: 0}
    for _ in range(400):
        patterns = [random_pattern(rng, of, 2) for _ in range(rng.randrange(1, 9))]
        wanted = all(any(takes(p, v) for p in patterns) for v in every)
        assert covers(patterns, MODULE) == wanted, patterns
        seen[wanted] += 1
    assert min(seen.values()) > 20


def bits(columns: int, rows: Sequence[dict[int, Pattern]]) -> list[Pattern]:
    return [Fields(tuple(row.get(i, ANY) for i in range(columns))) for row in rows]


def diagonal(n: int) -> list[Pattern]:
    """Every row asks about one column: o. The last takes what has i everywhere."""
    return bits(n, [*({k: O} for k in reversed(range(n))), dict.fromkeys(range(n), I)])


def neighbours(n: int) -> list[Pattern]:
    """Two equal bits beside each other; what is left alternates, in two ways."""
    pairs = [{k: b, k + 1: b} for k in range(n - 1) for b in (O, I)]
    ends = [{k: (O, I)[(k + start) % 2] for k in range(n)} for start in (0, 1)]
    return bits(n, [*pairs, *ends])


def nested(n: int) -> list[Pattern]:
    """Trees that lean to one side, each with a hole of its own."""
    rows: list[Pattern] = []
    hole: Pattern = ANY
    for _ in range(n):
        rows.append(hole)
        hole = made("node", hole, made("node", ANY, ANY))
    return [
        *reversed(rows[1:]),
        made("leaf"),
        made("bit", ANY),
        made("node", ANY, made("leaf")),
        made("node", ANY, made("bit", ANY)),
    ]


@pytest.mark.parametrize("family", [diagonal, neighbours, nested])
def test_patterns_that_ask_about_many_parts_take_few_steps(family: Any) -> None:
    for n in (8, 16, 32):
        patterns = family(n)
        size = sum(len(p.children) + 1 for p in patterns)
        assert covers(patterns, MODULE, limit=40 * n * size)
        assert not covers(patterns[1:], MODULE, limit=40 * n * size) or family is nested


def test_data_types_with_many_constructors_take_few_steps() -> None:
    wide = DataDef("Wide", (), {f"c{k}": () for k in range(400)})
    module = Module({"Wide": wide})
    rows: list[Pattern] = [Made(g.constructor(wide, name), ()) for name in wide.constructors]
    assert covers(rows, module, limit=1000) and not covers(rows[:-1], module, limit=1000)
    assert covers([*rows[:-1], ANY], module, limit=1000)


def test_patterns_may_be_deep() -> None:
    deep: Pattern = ANY
    for _ in range(MANY):
        deep = made("node", ANY, deep)
    assert not covers([deep], MODULE)
    assert covers([deep, ANY], MODULE)


def test_what_is_too_intricate_is_refused_by_name() -> None:
    """Random clauses of three literals each: whether they cover all is whether a formula has no model."""
    rng = Random(4)
    rows = [{k: rng.choice((O, I)) for k in rng.sample(range(60), 3)} for _ in range(330)]
    with pytest.raises(Unsupported) as caught:
        covers(bits(60, rows), MODULE, limit=100_000)
    assert caught.value.label == "match.C6" and "partial" in caught.value.message
