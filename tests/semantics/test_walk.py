"""The laws of the walks, folds and rewriters: order, sharing, parts left out, depth, and nothing to walk over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

import pytest
from hypothesis import given, strategies as st

from assay.semantics.walk import (
    TreeNode,
    Worklist,
    fold,
    fold_scoped,
    ids,
    needed_first,
    occurrences,
    post_order,
    pre_order,
    reached,
    rewrite,
)

DEEP = 100_000


@dataclass(frozen=True, eq=False)
class Plain:
    """A node with a name."""

    name: str
    children: tuple[Plain, ...] = ()

    def with_children(self, children: Sequence[Plain]) -> Plain:
        same = all(a is b for a, b in zip(self.children, children, strict=True))
        return self if same else Plain(self.name, tuple(children))


@st.composite
def graphs(draw: st.DrawFn) -> Plain:
    """A root above nodes that may be shared, by several parents and by one."""
    nodes: list[Plain] = []
    for i in range(draw(st.integers(1, 8))):
        parts = draw(st.lists(st.sampled_from(nodes), max_size=3)) if nodes else []
        nodes.append(Plain(f"n{i}", tuple(parts)))
    return nodes[-1]


def unfolded(node: Plain, after: bool) -> list[Plain]:
    """By recursion: every node each time that it stands in a whole."""
    inside = [n for c in node.children for n in unfolded(c, after)]
    return [*inside, node] if after else [node, *inside]


def met_first(nodes: Sequence[Plain]) -> list[Plain]:
    return list(dict.fromkeys(nodes))


def spelled(node: Plain, parts: Sequence[str]) -> str:
    return f"{node.name}({' '.join(parts)})"


def chain(depth: int = DEEP) -> Plain:
    node = Plain("end")
    for _ in range(depth):
        node = Plain("link", (node,))
    return node


@given(graphs())
def test_the_order_is_that_of_recursion(root: Plain) -> None:
    assert list(post_order(root)) == met_first(unfolded(root, after=True))
    assert list(pre_order(root)) == met_first(unfolded(root, after=False))
    assert list(occurrences(root)) == unfolded(root, after=False)
    assert list(reached([root], attrgetter("children"))) == list(pre_order(root))
    assert needed_first([root], attrgetter("children")) == list(post_order(root))


@given(graphs())
def test_folds_make_of_each_node_what_recursion_does(root: Plain) -> None:
    def spell(node: Plain) -> str:
        return spelled(node, [spell(c) for c in node.children])

    made: list[Plain] = []
    entered: list[Plain] = []

    def make(node: Plain, parts: Sequence[str]) -> str:
        made.append(node)
        return spelled(node, parts)

    assert fold(root, make) == spell(root)
    assert made == list(post_order(root)), "each node once"
    made.clear()

    def enter(node: Plain) -> Sequence[Plain]:
        entered.append(node)
        return node.children

    assert fold_scoped(root, enter, make) == spell(root)
    assert entered == unfolded(root, after=False)
    assert made == unfolded(root, after=True), "each node in each scope"


@given(graphs())
def test_a_worklist_enters_and_leaves_in_pairs(root: Plain) -> None:
    around: list[Plain] = []
    ends: list[Plain] = []

    def leave(node: Plain) -> None:
        assert around.pop() is node, "scopes are nested"
        ends.append(node)

    work = Worklist([root])
    for node in work:
        assert not around or node in around[-1].children
        around.append(node)
        work.on_leave(leave, node)
        work.add(node.children)
    assert not around
    assert ends == unfolded(root, after=True)


def test_parts_are_asked_for_after_the_whole_was_seen() -> None:
    """So a loop can decide, at a node, what of it is walked over."""
    seen: set[str] = set()
    root = Plain("root", (Plain("closed", (Plain("hidden"),)), Plain("open", (Plain("seen"),))))
    for node in pre_order(root, lambda n: () if n.name in seen and n.name == "closed" else n.children):
        seen.add(node.name)
    assert seen == {"root", "closed", "open", "seen"}


def test_parts_that_are_left_out_are_not_entered() -> None:
    shared = Plain("shared")
    root = Plain("root", (Plain("left out", (shared, Plain("below"))), shared))

    def some(node: Plain) -> Sequence[Plain]:
        return () if node.name == "left out" else node.children

    assert [n.name for n in post_order(root, some)] == ["left out", "shared", "root"]
    assert [n.name for n in pre_order(root, some)] == ["root", "left out", "shared"]
    assert [n.name for n in occurrences(root, some)] == ["root", "left out", "shared"]
    assert fold(root, spelled, some) == "root(left out() shared())"
    assert fold_scoped(root, some, spelled) == "root(left out() shared())"


def test_what_is_shared_is_one() -> None:
    leaf = Plain("leaf")
    root = Plain("root", (Plain("a", (leaf,)), leaf, leaf))
    assert [n.name for n in post_order(root)] == ["leaf", "a", "root"]
    assert [n.name for n in occurrences(root)].count("leaf") == 3
    changed = rewrite(root, lambda n: Plain("new") if n is leaf else n)
    assert changed.children[0].children[0] is changed.children[1] is changed.children[2]
    assert rewrite(root, lambda n: n) is root
    apart = fold_scoped(root, lambda n: n.children, lambda n, parts: Plain(n.name, tuple(parts)))
    assert apart.children[0].children[0] is not apart.children[1] is not apart.children[2]


def test_equal_nodes_are_two_and_equal_names_are_one() -> None:
    root = Plain("root", (Plain("x"), Plain("x")))
    assert len(list(post_order(root))) == 3
    calls = {"main": ["f", "g", "f"], "f": ["h"], "g": ["h", "main"], "h": ["h"], "other": ["f"]}
    assert list(reached(["main"], calls.__getitem__)) == ["main", "f", "h", "g"]
    assert needed_first(["other", "main"], calls.__getitem__) == ["h", "f", "other", "g", "main"]


def test_a_key_leaves_out_what_was_met() -> None:
    a, b = Plain("a"), Plain("b")
    work = Worklist([(a, b), (a, b)], ids)
    met: list[tuple[Plain, Plain]] = []
    for pair in work:
        met.append(pair)
        work.add([(b, a), (a, b), (a, a)])
    assert met == [(a, b), (b, a), (a, a)]


def test_things_made_on_the_way_keep_their_identity() -> None:
    """What was met stays alive: else another would get its address, and count as met."""
    work = Worklist([0], id)
    count = 0
    for _ in work:
        count += 1
        work.add([object()] if count < 1_000 else [])  # type: ignore[list-item]
    assert count == 1_000


def test_a_long_chain_needs_no_stack() -> None:
    root = chain()
    assert sum(1 for _ in post_order(root)) == DEEP + 1
    assert sum(1 for _ in pre_order(root)) == DEEP + 1
    assert sum(1 for _ in occurrences(root)) == DEEP + 1
    assert fold(root, lambda _, parts: 1 + sum(parts)) == DEEP + 1
    assert fold_scoped(root, lambda n: n.children, lambda _, parts: 1 + sum(parts)) == DEEP + 1
    assert sum(1 for _ in post_order(rewrite(root, lambda n: n if n.children else Plain("other")))) == DEEP + 1
    assert len(reached([0], lambda n: [n + 1] if n < DEEP else [])) == DEEP + 1
    assert needed_first([0], lambda n: [n + 1] if n < DEEP else [])[-1] == 0


def test_deep_sharing_takes_linear_time() -> None:
    """Of 200 nodes, each twice in the next: unfolded they are 2**200."""
    node = Plain("end")
    for _ in range(200):
        node = Plain("two", (node, node))
    assert len(list(post_order(node))) == len(list(pre_order(node))) == 201
    assert fold(node, lambda _, parts: sum(parts) or 1) == 2**200


def test_there_may_be_nothing() -> None:
    leaf = Plain("leaf")
    for walk in (post_order, pre_order, occurrences):
        assert list(walk(leaf)) == [leaf]
    assert fold(leaf, spelled) == fold_scoped(leaf, lambda n: n.children, spelled) == "leaf()"
    assert list(Worklist[int]([])) == []
    assert list(reached([], lambda n: [n])) == needed_first([], lambda n: [n]) == []


def test_a_call_that_fails_is_heard_of() -> None:
    work = Worklist([Plain("root")])
    with pytest.raises(ZeroDivisionError):
        for _ in work:
            work.on_leave(divmod, 1, 0)


# --- nodes whose parts are named ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Tip(TreeNode["TreeNode[object]"]):
    name: str = ""


@dataclass(frozen=True, eq=False)
class Named(Tip):
    first: object = None
    many: tuple[object, ...] = ()
    last: object = None


@pytest.mark.parametrize("parts", ["", "first", "*many", "first last", "first *many", "*many last", "first *many last"])
def test_the_parts_of_a_node_are_the_fields_that_it_names(parts: str) -> None:
    made = type("Made", (Named,), {"parts": parts})
    tips = [Tip(str(i)) for i in range(8)]
    node = made("whole", tips[0], tuple(tips[1:3]), tips[3])
    held = {"first": tips[:1], "*many": tips[1:3], "last": tips[3:4]}
    wanted = [tip for name in parts.split() for tip in held[name]]
    assert list(node.children) == wanted and node.with_children(wanted) is node
    if wanted:
        others = tips[4 : 4 + len(wanted)]
        other = node.with_children(others)
        assert type(other) is made and other is not node and other.name == "whole" and list(other.children) == others
        left_alone = [n for n in ("first", "last") if n not in parts.split()]
        assert all(getattr(other, n) is getattr(node, n) for n in left_alone)
    if "*many" in parts:
        longer = node.with_children([*wanted, tips[7]])
        assert len(longer.children) == len(wanted) + 1
