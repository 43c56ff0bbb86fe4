"""A term as text of bounded size, and the first part in which two terms differ (specs/verify.md, "equivalence")."""

from __future__ import annotations

import numpy as np

from assay.semantics.scalar import OPERATIONS
from assay.semantics.walk import spelled
from assay.verify.equivalence.terms import UNWRITTEN, Terms

DEEPEST = 4
"""Levels of a term that are shown; a chain of one operation is one level."""
ENDS = 3
"""Operands that are shown at the two ends of a chain."""


def show_term(terms: Terms, number: int, depth: int = DEEPEST) -> str:
    """The term, its outer levels only: what is left out is `...`, of a long chain its middle."""

    def pieces(term: tuple[int, int]) -> list[tuple[int, int] | str]:
        return _pieces(terms, *term) if term[1] or not _is_inner(terms, term[0]) else ["..."]

    return spelled((int(number), depth), pieces)


def _is_inner(terms: Terms, number: int) -> bool:
    return bool(terms.keys[number])


def _pieces(terms: Terms, number: int, depth: int) -> list[tuple[int, int] | str]:
    if number == UNWRITTEN:
        return ["unwritten"]
    if number in terms.values:
        return [str(terms.values[number][1])]
    code, a, b = (int(x) for x in terms.parts(number))
    if not code:
        return [_element(terms, number)]
    name, of = terms.names[code]
    inner = depth - 1
    if name == "select":
        _, then, otherwise = (int(x) for x in terms.parts(b))
        return ["select(", (a, inner), ", ", (then, inner), ", ", (otherwise, inner), ")"]
    if name.startswith("element of "):
        indices: list[tuple[int, int] | str] = []
        while a:
            _, index, rest = (int(x) for x in terms.parts(a))
            indices += [", ", (index, inner)]
            a = rest
        return [name.removeprefix("element of "), "[", *indices[1:], "]"]
    if name.startswith("trap "):
        return [name.removeprefix("trap "), " of ", (a, inner), *(() if b == terms.true else (" where ", (b, inner)))]
    if name.startswith("cast "):
        return [f"{of}(", (a, inner), ")"]
    symbol = OPERATIONS[name].symbol if name in OPERATIONS else ""
    if not b:
        return [f"{symbol or name}(", (a, inner), ")"]
    if not symbol:
        return [f"{name}(", (a, inner), ", ", (b, inner), ")"]
    return ["(", *_joined(_chain(terms, number, code), symbol, inner), ")"]


def _joined(parts: list[int], symbol: str, depth: int) -> list[tuple[int, int] | str]:
    left_out = len(parts) - 2 * ENDS
    out: list[tuple[int, int] | str] = []
    for k, part in enumerate(parts):
        if left_out > 1 and ENDS <= k < ENDS + left_out:
            out += [f" {symbol} ...{left_out} more..."] if k == ENDS else []
        else:
            out += [f" {symbol} " if k else "", (part, depth)]
    return out


def _chain(terms: Terms, number: int, code: int) -> list[int]:
    """The operands of an operation that is repeated on one side, innermost first."""
    rest: list[int] = []
    while True:
        _, a, b = (int(x) for x in terms.parts(number))
        nested = [int(x) for x in terms.parts(np.array([a, b]))[0]]
        if nested[0] == code:
            rest.append(b)
            number = a
        elif nested[1] == code and terms.names[code][0] == "add":  # commuted when it was interned
            rest.append(a)
            number = b
        else:
            return [a, b, *reversed(rest)]


def _element(terms: Terms, number: int) -> str:
    for name, shape, first in terms.inputs:
        size = int(np.prod(shape, dtype=np.int64))
        if first <= number < first + size:
            place = np.unravel_index(number - first, shape) if shape else ()
            return f"{name}[{', '.join(map(str, map(int, place)))}]" if shape else name
    return f"?{number}"


def first_difference(terms: Terms, a: int, b: int) -> tuple[int, int]:
    """The parts, as deep as possible, that make two terms differ: same operation and one operand the same are gone
    through."""
    while True:
        (f, *left), (g, *right) = ([int(x) for x in terms.parts(n)] for n in (a, b))
        if f != g or not f:
            return a, b
        apart = [(x, y) for x, y in zip(left, right, strict=True) if x != y]
        if len(apart) != 1:
            return a, b
        ((a, b),) = apart
