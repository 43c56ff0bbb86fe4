"""Which facts a goal follows from (specs/verify.md, "Memory plans").

A search, of which nothing is trusted but that each fact is one: the solver is asked whether the goal follows. It takes
the outermost part of a form, replaces it by something that is no larger, and stops at a form that is plainly 0 or more.
With the few facts that a goal needs beside it, a text about thousands of buffers is easy for any solver.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd

from assay.semantics.integers.polynomials import (
    Extreme,
    Polynomial,
    PolynomialQuotient,
    Product,
    number,
    one,
    polynomial_range,
    product_range,
    value,
)
from assay.semantics.integers.ranges import Range, at_least
from assay.verify.memory.forms import Forms

STEPS = 300
"""So many forms are looked at for one goal."""

TERMS, DEGREE = 100, 6
"""A form with more terms, or products of more atoms, than this leads nowhere."""


def derive(
    goal: Polynomial, forms: Forms, ranges: list[Range], points: Sequence[list[int]] = ()
) -> tuple[Polynomial, ...] | None:
    """Facts that show a form to be 0 or more; None: the search finds none.

    `points`: the values of all atoms at some values of the symbols. What is negative there need not be tried.
    """
    todo: list[tuple[Polynomial, tuple[Polynomial, ...]]] = [(goal, ())]
    seen = {goal}
    for _ in range(STEPS):
        if not todo:
            return None
        rest, facts = todo.pop()
        if at_least(polynomial_range(rest, ranges), 0):
            return facts + tuple(within(rest, ranges))
        ways = []
        for fact, top in steps(rest, forms, ranges):
            less = scaled(rest, fact, top)
            small = len(less.terms) <= TERMS and all(len(p) <= DEGREE for p in less.terms)
            if small and less not in seen and all(value(less, p) >= 0 for p in points):
                seen.add(less)
                ways.append((less, (*facts, fact)))
        todo.extend(reversed(ways))
    return None


def within(rest: Polynomial, ranges: list[Range]) -> Iterator[Polynomial]:
    """What the ranges say of the parts of a form, as far as it matters for its least value."""
    for p, k in rest.ordered:
        low, high = product_range(p, ranges)
        end = low if k > 0 else high
        if end is not None:
            yield (one(p) - number(end)).scaled(1 if k > 0 else -1)


def scaled(rest: Polynomial, fact: Polynomial, top: Product) -> Polynomial:
    """A multiple of a form less a multiple of a fact, so that one product vanishes: if that is 0 or more, so is the
    form."""
    k, by = rest.terms[top], fact.terms[top]
    common = gcd(k, by)
    return rest.scaled(abs(by) // common) - fact.scaled(abs(k) // common)


def steps(rest: Polynomial, forms: Forms, ranges: list[Range]) -> Iterator[tuple[Polynomial, Product]]:
    """Facts that the outermost product of a form can be replaced by, the most promising first, and that product."""
    if not rest.terms:
        return
    top, k = max(rest.terms.items(), key=lambda t: (max(t[0]), len(t[0]), t[0]))
    negative = {p for p, factor in rest.terms.items() if factor < 0}
    low, high = product_range(top, ranges)
    end = low if k > 0 else high
    drop = [] if end is None else [(one(top) - number(end)).scaled(1 if k > 0 else -1)]
    opened = [f for f in _opened(top, k > 0, forms, ranges) if f.terms.get(top, 0) * k > 0]
    parts = {p for f in opened for p in f.terms} - {top}
    promising = k < 0 or parts & negative or _deep(top, forms)
    for fact in (*opened, *drop) if promising else (*drop, *opened):
        yield fact, top


def _deep(top: Product, forms: Forms) -> bool:
    return any(isinstance(forms.atoms[a], Extreme) for a in top)


def _opened(top: Product, below: bool, forms: Forms, ranges: list[Range]) -> Iterator[Polynomial]:
    """Facts that bound a product, from below or from above, by what is given and by what it is made of."""
    yield from forms.of_given(top, ranges)
    atom = max(top)
    at = top.index(atom)
    others = top[:at] + top[at + 1 :]
    if at_least(product_range(others, ranges), 0):
        for fact in _of_atom(atom, one((atom,)), below, forms):
            if (found := forms.product(one(others), fact)) is not None:
                yield found
    if others:
        yield from forms.envelopes(top, ranges)


def _of_atom(atom: int, single: Polynomial, below: bool, forms: Forms) -> Iterator[Polynomial]:
    match forms.atoms[atom]:
        case Extreme(which="max", first=a, second=b) if below:
            yield single - b
            yield single - a
        case Extreme(which="min", first=a, second=b) if not below:
            yield b - single
            yield a - single
        case PolynomialQuotient(dividend=a, divisor=b) if (down := forms.product(single, b)) is not None:
            yield down + b - number(1) - a if below else a - down
        case _:
            pass
