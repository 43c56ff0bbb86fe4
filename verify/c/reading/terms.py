"""Terms that stand for what C and tensor functions compute: one for equal computations (specs/verify.md, "c").

Whole numbers are exact, without a width: polynomials over atoms, with `wrap` where a number is taken back into a type.
Floats are operations on floats, each of which rounds once in its own type. Two terms are one object exactly if they are
built alike; nothing is said of terms that are two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from assay.semantics.walk import spelled

Sort: TypeAlias = str
"""int, bool, f32 or f64."""
Interval: TypeAlias = tuple[float, float]
"""The least and the greatest number; infinities where nothing is known."""
Poly: TypeAlias = dict[tuple["Term", ...], int]
MOST_SHOWN = 200
UNBOUNDED: Interval = (float("-inf"), float("inf"))


@dataclass(frozen=True, eq=False)
class Term:
    """One term. `args` are terms and what else tells it from others; `within` holds of an atom whatever it is made
    of."""

    op: str
    args: tuple[Any, ...]
    sort: Sort
    number: int
    within: Interval = UNBOUNDED

    @property
    def children(self) -> tuple[Term, ...]:
        """The terms that it is made of."""
        if self.op == "poly":
            return tuple(dict.fromkeys(a for mono, _ in self.args for a in mono))
        return tuple(a for a in self.args if isinstance(a, Term))

    @property
    def is_constant(self) -> bool:
        """Whether it is a whole number."""
        return self.op == "poly" and all(not mono for mono, _ in self.args)

    @property
    def value(self) -> int:
        """The number that a constant is."""
        return int(self.args[0][1]) if self.args else 0

    def __repr__(self) -> str:
        return shown_term(self)


@dataclass
class TermTable:
    """The terms that there are."""

    made: dict[tuple[Any, ...], Term] = field(default_factory=dict)

    def term(self, op: str, args: tuple[Any, ...], sort: Sort, within: Interval = UNBOUNDED) -> Term:
        """The one term of this operation and these arguments."""
        key = (op, args, sort)
        found = self.made.get(key)
        if found is None:
            found = self.made[key] = Term(op, args, sort, len(self.made), within)
        return found

    def fresh(self, name: str, sort: Sort, within: Interval = UNBOUNDED) -> Term:
        """An unknown that is no other one."""
        return self.term("unknown", (name, len(self.made)), sort, within)

    def whole(self, value: int) -> Term:
        """A whole number."""
        return self.of_poly({(): value})

    def of_poly(self, poly: Mapping[tuple[Term, ...], int]) -> Term:
        """The term of a polynomial; an atom by itself is itself."""
        rows = tuple(sorted(((m, c) for m, c in poly.items() if c), key=lambda r: [t.number for t in r[0]]))
        if len(rows) == 1 and rows[0][1] == 1 and len(rows[0][0]) == 1:
            return rows[0][0][0]
        return self.term("poly", rows, "int")

    def total(self, parts: Iterable[tuple[int, Term]]) -> Term:
        """A sum of terms, each so many times."""
        poly: Poly = {}
        for factor, term in parts:
            for mono, c in as_poly(term).items():
                poly[mono] = poly.get(mono, 0) + factor * c
        return self.of_poly(poly)

    def product(self, a: Term, b: Term) -> Term:
        """A product of whole numbers."""
        poly: Poly = {}
        right = as_poly(b)
        for m, c in as_poly(a).items():
            for n, d in right.items():
                both = tuple(sorted((*m, *n), key=lambda t: t.number))
                poly[both] = poly.get(both, 0) + c * d
        return self.of_poly(poly)

    def truth(self, value: bool) -> Term:
        """True or false."""
        return self.term("truth", (value,), "bool")


def as_poly(term: Term) -> Poly:
    """The polynomial that a whole number is."""
    return dict(term.args) if term.op == "poly" else {(term,): 1}


def shown_term(term: Term, depth: int = 4) -> str:
    """A term for messages, of bounded depth and length."""
    text = spelled((term, depth), _pieces)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def _pieces(part: tuple[Term, int]) -> list[tuple[Term, int] | str]:
    node, depth = part
    if depth == 0:
        return ["..."]
    if node.op == "poly":
        pieces: list[tuple[Term, int] | str] = []
        for mono, c in node.args:
            pieces += [" + " if pieces else "", str(c) if c != 1 or not mono else ""]
            for i, a in enumerate(mono):
                pieces += ["*" if i or c != 1 else "", (a, depth - 1)]
        return pieces or ["0"]
    if node.op == "unknown":
        return [str(node.args[0])]
    if node.op in ("truth", "float"):
        return [str(node.args[0])]
    pieces = [node.op, "("]
    for i, a in enumerate(node.args):
        pieces += [", " if i else "", (a, depth - 1) if isinstance(a, Term) else getattr(a, "name", str(a))]
    return [*pieces, ")"]
