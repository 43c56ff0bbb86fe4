"""Terms that are equal in every case of how a value stands to a number (specs/verify.md, "legalize").

`x < 0 ? a : x` and `x >= 0 ? x : a` are other terms, and differ where x is NaN unless a is NaN then. So a value that is
compared with a number is less, equal, greater, or NaN; in each of these the comparisons are known, and where it is
equal or NaN so is the value. A zero is one of two.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import nan

import numpy as np

from assay.semantics.dtypes import BOOL, DType
from assay.semantics.walk import Worklist
from assay.verify.operator_terms.array import Array, TermRun
from assay.verify.operator_terms.paths import known_numbers, node

COMPARED = ("lt", "le", "eq", "ne")
MOST_VALUES = 2
"""Values of one element whose cases are told apart."""
MOST_ELEMENTS = 256
MOST_FAILED = 3
"""Elements that are not shown to be equal, after which the others are left."""
MOST_PARTS = 400
"""Terms of one element in which comparisons are looked for."""
Split = tuple[dict[int, bool], dict[int, int]]
"""What is known in one case: conditions, and terms that are other terms there."""


def equal_in_all_cases(run: TermRun, left: Array, right: Array) -> Array:
    """Of pairs of terms those that are equal, bit for bit, in every case."""
    same = left == right
    failed = 0
    for k in np.flatnonzero(~same)[:MOST_ELEMENTS]:
        if failed == MOST_FAILED:
            break
        pair = np.array([left[k], right[k]], np.int64)
        values = _compared_values(run, pair)
        if 0 < len(values) <= MOST_VALUES:
            cases = product(*(list(_cases(run, *v)) for v in values))
            same[k] = all(_equal(run, pair, case) for case in cases)
        failed += not same[k]
    return np.asarray(same)


def _equal(run: TermRun, pair: Array, case: tuple[Split, ...]) -> bool:
    facts = {n: holds for some, _ in case for n, holds in some.items()}
    given = {n: to for _, some in case for n, to in some.items()}
    left, right = known_numbers(run, pair, facts, given)
    return bool(left == right)


def _compared_values(run: TermRun, pair: Array) -> list[tuple[int, int, DType]]:
    """The floats that are compared with numbers in what the terms are made of, with the number."""
    terms = run.terms
    found: dict[tuple[int, int, DType], None] = {}
    seen: set[int] = set()
    work = Worklist([int(n) for n in pair])
    for n in work:
        if n in seen or len(seen) > MOST_PARTS:
            continue
        seen.add(n)
        name, of, a, b = node(terms, n)
        if not name:
            continue
        work.add([a, b])
        if name in COMPARED and of is not None and of.is_float:
            for x, number in ((a, b), (b, a)):
                if number in terms.values and x not in terms.values and not np.isnan(float(terms.values[number][1])):
                    found[x, number, of] = None
    return list(found)


def _cases(run: TermRun, x: int, number: int, of: DType) -> Iterator[Split]:
    """How x stands to a number that is not NaN: everything that it may be is one of these."""
    terms = run.terms

    def facts(less: bool, equal: bool) -> dict[int, bool]:
        greater = not (less or equal)
        told = (
            ("lt", x, number, less), ("lt", number, x, greater), ("eq", x, number, equal),
            ("ne", x, number, not equal), ("le", x, number, not greater), ("le", number, x, not less),
        )  # fmt: skip
        return {int(terms.apply(name, of, BOOL, a, b)): holds for name, a, b, holds in told}

    def literal(value: float) -> int:
        return int(terms.constant(of.numpy.type(value), of))

    yield facts(less=True, equal=False), {}
    yield facts(less=False, equal=False), {}
    yield {}, {x: literal(nan)}
    value = float(terms.values[number][1])
    for v in (0.0, -0.0) if value == 0 else (value,):
        yield {}, {x: literal(v)}
