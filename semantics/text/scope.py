"""What names stand for while a function is read (specs/semantics.md, "Text")."""

from __future__ import annotations

from typing import TypeVar

M = TypeVar("M")


class Scope(dict[str, M]):
    """What names stand for; a declaration holds until the block that it stands in is left, or for good."""

    def __init__(self) -> None:
        super().__init__()
        self._outer: list[tuple[str, M | None]] = []

    def declare(self, name: str, meaning: M, lasting: bool = False) -> None:
        """Lets a name stand for `meaning`, beyond the block it is in if `lasting`."""
        if not lasting:
            self._outer.append((name, self.get(name)))
        self[name] = meaning

    def since(self, mark: int) -> set[str]:
        """The names that were declared since `mark`."""
        return {name for name, _ in self._outer[mark:]}

    def mark(self) -> int:
        """The place to which `leave` goes back."""
        return len(self._outer)

    def leave(self, mark: int) -> None:
        """Forget what was declared since `mark`, but for what was declared for good."""
        while len(self._outer) > mark:
            name, outer = self._outer.pop()
            if outer is None:
                self.pop(name, None)
            else:
                self[name] = outer
