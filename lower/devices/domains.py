"""Domains: variables that stand for where a value lives, and their unification (rule M8; specs/lower.md, "devices").

A domain is *first-order*, one variable, or that of a function: one domain for each parameter and one for the result.
A function's domain has the structure of its type, and is made only as deep as it is looked at. Where a function meets a
first-order domain (it is in a tuple, say), all its domains become that one. So no domain ever contains itself: a
variable is never bound to a structure, it swallows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from assay.semantics.graph import Expr
from assay.semantics.types import FuncType, Type
from assay.semantics.walk import Worklist


class Tie(NamedTuple):
    """Two domains are one, for a reason: what is said of a node."""

    one: int
    other: int
    why: str
    node: Expr


class Domains:
    """Domains by number, with union-find. Every tie is kept, so that a contradiction can be explained."""

    def __init__(self) -> None:
        self._parent: list[int] = []
        self._size: list[int] = []
        self._type: dict[int, FuncType] = {}
        """For the representative of a function's domain the type that it has."""
        self._parts: dict[int, tuple[int, ...]] = {}
        """Its parameters and its result, once somebody has looked."""
        self._inner: dict[int, int] = {}
        """Of a function's domain the first-order domain of what it gives in the end."""
        self.ties: list[Tie] = []

    def __len__(self) -> int:
        return len(self._parent)

    def new(self) -> int:
        """A first-order domain about which nothing is known."""
        self._parent.append(len(self._parent))
        self._size.append(1)
        return len(self._parent) - 1

    def of_type(self, of: Type) -> int:
        """A new domain for a value of that type."""
        made = self.new()
        if isinstance(of, FuncType):
            self._type[made] = of
        return made

    def function(self, of: FuncType, params: Sequence[int], result: int) -> int:
        """The domain of a function with these domains."""
        made = self.of_type(of)
        self._parts[made] = (*params, result)
        return made

    def find(self, domain: int) -> int:
        """The representative of a domain's class."""
        parent = self._parent
        root = domain
        while parent[root] != root:
            root = parent[root]
        while parent[domain] != root:
            parent[domain], domain = root, parent[domain]
        return root

    def param(self, domain: int, index: int) -> int:
        """Where a function wants its parameter."""
        root = self.find(domain)
        return self._opened(root)[index] if root in self._type else domain

    def result(self, domain: int) -> int:
        """Where a function gives its result."""
        root = self.find(domain)
        return self._opened(root)[-1] if root in self._type else domain

    def home(self, domain: int) -> int:
        """The first-order domain in which a value lives: a function lives where what it gives in the end does."""
        passed: list[int] = []
        on_way: set[int] = set()
        root = self.find(domain)
        while root in self._type:
            if root in on_way:  # the occurs check: a generic function was given f, and what f gives
                del self._type[root]
                for part in self._parts.pop(root):
                    self.tie(part, root, "the result of a function that is one with the function", self.ties[-1].node)
                return self.home(domain)
            on_way.add(root)
            passed.append(root)
            domain = self._inner.get(root, self._opened(root)[-1])
            root = self.find(domain)
        for p in passed:
            self._inner[p] = domain
        return domain

    def tie(self, a: int, b: int, why: str, node: Expr) -> None:
        """The two are one from now on, with all their parts."""
        work = Worklist([(a, b)])
        for a, b in work:
            x, y = self.find(a), self.find(b)
            self.ties.append(Tie(a, b, why, node))
            if x == y:
                continue
            if self._size[x] < self._size[y]:
                x, y = y, x
            self._parent[y] = x
            self._size[x] += self._size[y]
            types = [t for t in (self._type.pop(x, None), self._type.pop(y, None)) if t is not None]
            parts = [p for p in (self._parts.pop(x, None), self._parts.pop(y, None)) if p is not None]
            inner = [i for i in (self._inner.pop(x, None), self._inner.pop(y, None)) if i is not None]
            if len(types) == 2 and len(types[0].params) == len(types[1].params):
                self._type[x] = types[0]
                if parts:
                    self._parts[x] = parts[0]
                if inner:
                    self._inner[x] = inner[0]
                if len(parts) == 2:
                    work.add(zip(*parts, strict=True))
            else:
                work.add((p, x) for ps in parts for p in ps)

    def _opened(self, root: int) -> tuple[int, ...]:
        if root not in self._parts:
            of = self._type[root]
            self._parts[root] = tuple(self.of_type(t) for t in (*of.params, of.result))
        return self._parts[root]

    def between(self, a: int, b: int) -> list[Tie]:
        """Ties that lead from one domain of a class to another: as few as there can be."""
        if a == b:
            return []
        at: dict[int, list[Tie]] = {}
        for t in self.ties:
            at.setdefault(t.one, []).append(t)
            at.setdefault(t.other, []).append(t)
        came: dict[int, Tie] = {}
        seen = {a}
        queue = [a]
        for here in queue:
            for t in at.get(here, ()):
                there = t.other if t.one == here else t.one
                if there not in seen:
                    seen.add(there)
                    came[there] = t
                    queue.append(there)
        path: list[Tie] = []
        while b != a and b in came:
            path.append(came[b])
            b = path[-1].one if path[-1].other == b else path[-1].other
        return path[::-1]
