"""Sets: disjoint ones, kept by union and find, and sets of numbers as bits (specs/semantics.md, "Graph IR")."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


def ones(mask: int) -> Iterator[int]:
    """The members of a set of numbers that is held as bits, the least first."""
    while mask:
        low = mask & -mask
        mask ^= low
        yield low.bit_length() - 1


class DisjointSets(Generic[T]):
    """Things in classes that are joined; what was never joined is alone. Union by size: Tarjan, "Efficiency of a good
    but not linear set union algorithm", 1975."""

    def __init__(self) -> None:
        self._above: dict[T, T] = {}
        self._size: dict[T, int] = {}

    def find(self, x: T) -> T:
        """The one that stands for the class of `x`."""
        above = self._above
        while (up := above.get(x, x)) != x:
            above[x] = above.get(up, up)
            x = up
        return x

    def join(self, a: T, b: T) -> bool:
        """Put two classes together; False if they are one already."""
        a, b = self.find(a), self.find(b)
        if a == b:
            return False
        size = self._size
        if size.get(a, 1) > size.get(b, 1):
            a, b = b, a
        self._above[a] = b
        size[b] = size.get(a, 1) + size.get(b, 1)
        return True

    def classes(self, of: Iterable[T]) -> list[list[T]]:
        """The classes of some things, in the order of their first member."""
        found: dict[T, list[T]] = {}
        for x in of:
            found.setdefault(self.find(x), []).append(x)
        return list(found.values())
