"""The one walk and the one rewriter over every tree of the language (specs/semantics.md).

Neither recurses, so a chain of 100,000 nodes is as good as one of ten. A node with several parents is visited once:
sharing is identity (rule M2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar


class Tree(Protocol):
    """A node that knows its parts, which are of the same language. Nodes are compared by identity."""

    @property
    def children(self) -> Sequence[Any]: ...


class Node(Tree, Protocol):
    """A node that can be built anew around other parts. Nodes are immutable."""

    def with_children(self, children: Sequence[Any]) -> Any:
        """The same node around other parts; itself where all parts are the same objects."""
        ...


T = TypeVar("T", bound=Tree)
N = TypeVar("N", bound=Node)


def post_order(root: T, children: Callable[[T], Sequence[T]] | None = None) -> Iterator[T]:
    """Every node below `root` once, parts before wholes, parts left to right; `root` comes last.

    `children` may leave parts out (a callable that returns () for a node does not enter it).
    """
    parts: Callable[[T], Sequence[T]] = children or (lambda n: n.children)
    stack: list[tuple[T, Iterator[T]]] = [(root, iter(parts(root)))]
    opened = {id(root)}
    while stack:
        node, rest = stack[-1]
        for child in rest:
            if id(child) not in opened:
                opened.add(id(child))
                stack.append((child, iter(parts(child))))
                break
        else:
            stack.pop()
            yield node


def rewrite(root: N, change: Callable[[N], N]) -> N:
    """`root` with `change` applied to every node, parts first; what is shared stays shared."""
    new: dict[int, N] = {}
    for node in post_order(root):
        parts = [new[id(c)] for c in node.children]
        new[id(node)] = change(node.with_children(parts))
    return new[id(root)]
