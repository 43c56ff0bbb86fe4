"""Linear forms: integer multiples of atoms, and a constant (specs/semantics.md, "Integers")."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Self, TypeVar

from assay.semantics.integers.ranges import Range

A = TypeVar("A", bound=Hashable)
F = TypeVar("F", bound="Form[Any]")


@dataclass(frozen=True, eq=False)
class Form(Generic[A]):
    """A sum of multiples of atoms, no factor 0, and a constant. Equal forms are equal sums, whatever the atoms are."""

    terms: Mapping[A, int]
    constant: int = 0

    @cached_property
    def _hash(self) -> int:
        return hash((frozenset(self.terms.items()), self.constant))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Form) and self.constant == other.constant and self.terms == other.terms

    def __hash__(self) -> int:
        return self._hash

    @classmethod
    def of(cls, terms: Mapping[A, int], constant: int = 0) -> Self:
        """The form with these factors, of which some may be 0."""
        # a z3 term, too, can be a factor (`assay.verify.symbolic.witness`): of those only `==` is a bool
        return cls({a: k for a, k in terms.items() if not k == 0}, constant)

    def plus(self, other: Form[A], factor: int = 1) -> Self:
        """`self + factor * other`."""
        terms = dict(self.terms)
        for a, k in other.terms.items():
            terms[a] = terms.get(a, 0) + factor * k
        return self.of(terms, self.constant + factor * other.constant)

    def __add__(self, other: Form[A]) -> Self:
        return self.plus(other)

    def __sub__(self, other: Form[A]) -> Self:
        return self.plus(other, -1)

    def scaled(self, factor: int) -> Self:
        """`factor * self`."""
        return self.of({a: factor * k for a, k in self.terms.items()}, factor * self.constant)

    @property
    def as_number(self) -> int | None:
        """The number that it is, if it is one."""
        return None if self.terms else self.constant

    def is_multiple(self, of: int) -> bool:
        """Whether a number divides every factor and the constant."""
        return all(k % of == 0 for k in (*self.terms.values(), self.constant))

    def divided(self, divisor: int) -> tuple[Self, Self]:
        """Each factor and the constant over a divisor, rounded down, and what remains of each."""
        quotients = {a: k // divisor for a, k in self.terms.items()}
        remainders = {a: k % divisor for a, k in self.terms.items()}
        return self.of(quotients, self.constant // divisor), self.of(remainders, self.constant % divisor)

    def only(self, wanted: Callable[[A], bool]) -> Self:
        """The multiples of some of its atoms, without the constant."""
        return type(self)({a: k for a, k in self.terms.items() if wanted(a)})

    def value(self, of: Callable[[A], int]) -> int:
        """Its value, given those of its atoms."""
        return self.constant + sum(k * of(a) for a, k in self.terms.items())

    def range(self, of: Callable[[A], Range]) -> Range:
        """Where its values lie, given where those of its atoms lie."""
        low: int | None = self.constant
        high: int | None = self.constant
        for a, k in self.terms.items():
            least, most = of(a) if k > 0 else of(a)[::-1]
            low = None if low is None or least is None else low + k * least
            high = None if high is None or most is None else high + k * most
        return low, high


def combined(op: str, args: Sequence[F]) -> F | None:
    """The form of a sum, a difference, an opposite or a multiple; None for other operations."""
    a, b = args[0], args[-1]
    match op:
        case "add":
            return a.plus(b)
        case "sub":
            return a.plus(b, -1)
        case "neg":
            return a.scaled(-1)
        case "mul" if not a.terms:
            return b.scaled(a.constant)
        case "mul" if not b.terms:
            return a.scaled(b.constant)
        case _:
            return None
