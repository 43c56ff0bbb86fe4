"""Names for the variables that a pass makes (row A10; specs/lower.md, "anf").

A generator belongs to one function: it has no state that another function or thread could see, so the same function
gets the same names in every run, process and thread.
"""

from __future__ import annotations

from collections.abc import Iterable


class FreshNames:
    """Names that differ from each other and from all names that are taken already (`reserved`)."""

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self.reserved = set(reserved)
        self.taken: set[str] = set()
        self.count: dict[str, int] = {}

    def claim(self, name: str) -> str:
        """`name` for the first that claims it; after that `name_1`, `name_2`, ..."""
        if name and name not in self.taken:
            self.taken.add(name)
            return name
        return self._next(f"{name or 'lv'}_", 1)

    def fresh(self, stem: str = "lv") -> str:
        """A name for a value that had none: lv0, lv1, ..."""
        return self._next(stem, 0)

    def _next(self, stem: str, first: int) -> str:
        number = self.count.get(stem, first)
        while f"{stem}{number}" in self.reserved or f"{stem}{number}" in self.taken:
            number += 1
        self.count[stem] = number + 1
        self.taken.add(f"{stem}{number}")
        return f"{stem}{number}"
