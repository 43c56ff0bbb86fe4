"""Disjoint sets (specs/semantics.md, "Graph IR")."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from assay.semantics.sets import DisjointSets

PAIRS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12)


@given(PAIRS)
def test_classes_are_those_of_the_graph_of_pairs(pairs: list[tuple[int, int]]) -> None:
    sets = DisjointSets[int]()
    wanted = {x: {x} for x in range(10)}
    for a, b in pairs:
        joined = sets.join(a, b)
        assert joined == (b not in wanted[a])
        both = wanted[a] | wanted[b]
        wanted.update(dict.fromkeys(both, both))
    found = sets.classes(range(10))
    assert [c[0] for c in found] == sorted(min(c) for c in found)  # in the order of their first member
    assert sorted(x for c in found for x in c) == list(range(10))
    for c in found:
        assert all(set(c) == wanted[x] and sets.find(x) == sets.find(c[0]) for x in c)


def test_finding_is_fast_in_whatever_order_it_was_joined() -> None:
    sets = DisjointSets[int]()
    for i in range(100_000):
        sets.join(i + 1, i)
    assert len(sets.classes(range(100_001))) == 1


class Counted:
    """A thing that counts how often a table is asked about any of its kind."""

    asked = 0

    def __hash__(self) -> int:
        Counted.asked += 1
        return id(self)


@pytest.mark.parametrize("first", [True, False])
def test_a_small_class_is_put_below_a_large_one(first: bool) -> None:
    """So the way to the one that stands for it is short: here, one step."""
    sets, things = DisjointSets[Counted](), [Counted() for _ in range(200)]
    for thing in things[1:]:
        large = sets.find(things[0])
        sets.join(*((large, thing) if first else (thing, large)))
    for thing in things:
        Counted.asked = 0
        sets.find(thing)
        assert Counted.asked <= 4
