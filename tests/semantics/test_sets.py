"""Disjoint sets (specs/semantics.md, "Graph IR")."""

from __future__ import annotations

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
