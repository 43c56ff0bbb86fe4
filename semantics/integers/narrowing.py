"""Bounds of symbols that follow from expressions being 0 or more (specs/semantics.md, "Integers").

No tensor has a dim below 0, so a run of a program in which one is `(n // 2) * 2 - 1` has an n of 2 or more. What is
found is nothing more than what follows: no value is left out at which all the expressions are 0 or more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from assay.semantics.integers.polynomials import (
    Extreme,
    Polynomial,
    PolynomialQuotient,
    Polynomials,
    Product,
    Symbol,
    number,
    one,
    polynomial_range,
)
from assay.semantics.integers.ranges import Range, at_least, meet
from assay.semantics.memory import Bounds, range_of
from assay.semantics.scalar.expression import Dim, Expr, Var
from assay.semantics.walk import Worklist

ROUNDS = 4
"""So often bounds that were found are used to find more."""


def narrowed(bounds: Bounds, dims: Iterable[Dim]) -> Bounds:
    """Bounds of the symbols that hold wherever all of some dims are 0 or more. Those that are not narrowed stay."""
    polynomials = Polynomials(bounds)
    forms = dict.fromkeys(polynomials.of(d) for d in dims if isinstance(d, Expr))
    wanted = [f for f in forms if not at_least(polynomials.range(f), 0)]
    found = dict(bounds)
    for _ in range(ROUNDS if wanted else 0):
        before = dict(found)
        ranges = polynomials.ranges_within(found)
        for f in wanted:
            for v, of in _follow(f, polynomials, ranges):
                found[v] = meet_bounds(range_of(found, v), of)
        if found == before:
            break
    return found


def meet_bounds(a: tuple[int, int | None], b: Range) -> tuple[int, int | None]:
    """The bounds of a symbol, met with a range."""
    low, high = meet(a, b)
    assert low is not None, "a symbol has a least value"
    return low, high


def _follow(f: Polynomial, polynomials: Polynomials, ranges: Sequence[Range]) -> Iterable[tuple[Var, Range]]:
    """What follows for symbols from a form being 0 or more, its parts lying in ranges."""
    work = Worklist([f])
    for f in work:
        for product, k in f.ordered:
            most = polynomial_range(f - one(product).scaled(k), ranges)[1]
            if len(product) > 1 or most is None:
                continue
            # k * atom + most is 0 or more
            end: Range = (-(most // k), None) if k > 0 else (None, most // -k)
            match polynomials.atoms[product[0]]:
                case Symbol(var=var):
                    yield var, end
                case _:
                    work.add(_inside(product, end, polynomials))


def _inside(product: Product, end: Range, polynomials: Polynomials) -> Iterable[Polynomial]:
    """Forms of the parts of an atom that are 0 or more where the atom lies in a range with one end."""
    low, high = end
    match polynomials.atoms[product[0]]:
        case PolynomialQuotient(dividend=a, divisor=b) if (by := b.as_number) is not None:
            if low is not None:
                yield a - number(low * by)
            if high is not None:
                yield number(high * by + by - 1) - a
        case Extreme(which="max", first=a, second=b) if high is not None:
            yield from (number(high) - a, number(high) - b)
        case Extreme(which="min", first=a, second=b) if low is not None:
            yield from (a - number(low), b - number(low))
        case _:
            pass
