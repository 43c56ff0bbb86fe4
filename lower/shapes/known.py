"""The sizes that have names at some place of a function (specs/lower.md, "shapes")."""

from __future__ import annotations

from assay.semantics.errors import Unsupported
from assay.semantics.graph.scopes import Forest
from assay.semantics.scalar import Dim, Interner, Var as Symbol, variables


class KnownSizes:
    """A table of sizes that follows the walk: what a block names is forgotten when the walk leaves it.

    A symbol gets its value once in an activation (rule M4.2). Where one might have got it on another way, and then
    would have to agree, no name that is only known inside a block can say so: that is refused.
    """

    def __init__(self) -> None:
        self.number = Interner()
        self.forest = Forest()
        self.scope = self.forest.add()
        self.alternatives: set[int] = set()
        """The scopes of which a run enters one part only: an If, a Match."""
        self.home: dict[int, int] = {self.scope: self.scope}
        """The function around each scope."""
        self._places: dict[int, str] = {}
        self._positive: set[int] = set()
        self._log: list[tuple[str, int]] = []
        self._stored: dict[Symbol, list[int]] = {}

    def enter(self, kind: str = "") -> int:
        """A scope inside the present one: an "alternative" has parts of which one is entered, a "function" is called
        any number of times. What it gives is handed to `leave`."""
        self.scope = self.forest.add(self.scope)
        if kind == "alternative":
            self.alternatives.add(self.scope)
        self.home[self.scope] = self.scope if kind == "function" else self.home[self.forest.parent[self.scope]]
        return len(self._log)

    def leave(self, mark: int) -> None:
        """Forget what became known since `mark`, and go back to the scope around."""
        self.scope = self.forest.parent[self.scope]
        while len(self._log) > mark:
            what, key = self._log.pop()
            if what == "place":
                del self._places[key]
            else:
                self._positive.discard(key)

    def has(self, d: Dim) -> bool:
        """Whether the value of a size is known here."""
        return isinstance(d, int) or self.number(d) in self._places

    def all_of(self, d: Dim) -> bool:
        """Whether every symbol of a dim has a value here."""
        return all(self.has(v) for v in variables(d))

    def place(self, d: Dim) -> str:
        """Where a symbol got its value, for messages."""
        return self._places[self.number(d)]

    def add(self, d: Dim, place: str = "") -> None:
        """A size has a name from here on."""
        if isinstance(d, Symbol):
            for other in self._stored.setdefault(d, []):
                self._check(d, other)
            self._stored[d].append(self.scope)
        key = self.number(d)
        self._places[key] = place
        self._log.append(("place", key))

    def is_positive(self, d: Dim) -> bool:
        """Whether it was checked, or is clear, that a size is not negative."""
        return d >= 0 if isinstance(d, int) else isinstance(d, Symbol) or self.number(d) in self._positive

    def positive(self, d: Dim) -> None:
        """Note that a size is not negative."""
        key = self.number(d)
        if key not in self._positive:
            self._positive.add(key)
            self._log.append(("positive", key))

    def _check(self, s: Symbol, other: int) -> None:
        """Unsupported unless no activation can meet both the present scope and `other`."""
        meet = self.forest.around(self.scope, other)
        if meet in self.alternatives:
            return
        if all(self.forest.depth[self.home[x]] > self.forest.depth[meet] for x in (self.scope, other)):
            return  # two functions, each with activations of its own
        raise Unsupported(
            f"the size {s.name} gets its value on one way and is met again where that value is not known: give one of"
            " them another name, or let both ways give it",
            label="shapes.C1",
        )
