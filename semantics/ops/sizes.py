"""Arithmetic on dims that type rules share: products, quotients, what is never negative (specs/semantics.md, "Types").

A symbol stands for the size of some axis, so it is never negative. What cannot be shown here is not assumed: the type
rules that ask say which dim to write instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import prod

from assay.semantics.dtypes import INT64
from assay.semantics.integers.polynomials import Polynomials
from assay.semantics.integers.ranges import EVERYTHING, Range, at_least, compare, meet, reach
from assay.semantics.scalar import (
    Apply,
    Const,
    Dim,
    Expr,
    Interner,
    Var,
    apply,
    const,
    linear,
    select,
    show,
    simplify,
)
from assay.semantics.walk import post_order


def is_dim(value: object, least: int = 0) -> bool:
    """Whether `value` can stand for a size: an int of at least `least`, or an int64 expression."""
    if isinstance(value, Expr):
        return value.dtype is INT64
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def is_int(value: object, least: int | None = None) -> bool:
    """Whether `value` is a Python int (not a bool) of at least `least`."""
    return isinstance(value, int) and not isinstance(value, bool) and (least is None or value >= least)


# --- equality of products -----------------------------------------------------------------------------------------


def product(dims: Sequence[Dim]) -> Dim:
    """The product of dims; 1 if there are none."""
    number: Dim = prod(d for d in dims if isinstance(d, int))
    for d in dims:
        if isinstance(d, Expr) and not (isinstance(number, int) and number == 0):
            number = d * number if isinstance(number, int) else number * d
    return number


def same_size(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    """Whether two shapes have equally many elements for all values of their symbols, as far as algebra shows."""
    sizes = Polynomials({})
    return sizes.of(product(a)) == sizes.of(product(b))


def fits(need: Sequence[Dim], nbytes: Dim, limits: Mapping[Var, int]) -> bool | None:
    """Whether a product of dims is at most `nbytes` for all values of their symbols; None where that is not decided.

    `limits` are the largest values of symbols, as far as some are known.
    """
    sizes = Polynomials({v: (0, n) for v, n in limits.items()})
    return compare("ge", sizes.range(sizes.of(nbytes) - sizes.of(product(need))))


def missing_dim(shape: Sequence[Dim], known: Sequence[Dim]) -> Dim | None:
    """The one dim that, with those `known`, has as many elements as `shape`; None where it cannot be told.

    Dims that stand on both sides cancel first, so that the answer is one even where such a dim is 0. What is left of
    `known` must be numbers whose product, not 0, divides what is left of `shape`.
    """
    number = Interner()
    have, want = Counter(number(simplify(d)) for d in shape), Counter(number(simplify(d)) for d in known)
    left = {number(d): d for d in map(simplify, [*shape, *known])}
    rest = [left[n] for n in (want - have).elements()]
    total = simplify(product([left[n] for n in (have - want).elements()]))
    divisor = product(rest)
    if not isinstance(divisor, int) or divisor == 0:
        return None
    if isinstance(total, int):
        return None if total % divisor else total // divisor
    form = linear(total)
    if form is None or not form.is_multiple(divisor):
        return None
    return floor_div(total, divisor)


# --- quotients and order ------------------------------------------------------------------------------------------


def floor_div(dim: Dim, by: int) -> Dim:
    """`dim` // `by` (at least 1), whole multiples taken out: (2n + 3) // 2 is n + 1."""
    form = linear(dim)
    if isinstance(dim, int) or form is None:
        return dim // by
    whole: Dim = 0
    rest: Dim = 0
    for atom, k in sorted(
        form.terms.items(), key=lambda term: show(term[0])
    ):  # one order, so that equals look the same
        if k % by == 0:
            whole = whole + atom * (k // by)
        else:
            rest = rest + atom * k
    return simplify(whole + (rest + form.constant % by) // by + form.constant // by)


def ceil_div(dim: Dim, by: int) -> Dim:
    """`dim` / `by` (at least 1), rounded up."""
    return floor_div(simplify(dim + (by - 1)), by)


def never_negative(dim: Dim) -> bool:
    """Whether `dim` is at least 0 for all sizes that its symbols can stand for, as far as ranges show."""
    if isinstance(dim, int):
        return dim >= 0
    shown: dict[int, Range] = {}
    for node in post_order(dim, lambda n: n.children if isinstance(n, Apply) else ()):
        match node:
            case Var():
                found: Range = (0, None)
            case Const() if node.dtype.is_integer:
                found = int(node.value), int(node.value)
            case Apply():
                found = reach(node.op, [shown[id(c)] for c in node.args])
                form = linear(node) if not at_least(found, 0) else None
                if form is not None and node not in form.terms:
                    found = meet(found, form.range(lambda a: shown[id(a)]))
            case _:
                found = EVERYTHING
        shown[id(node)] = found
    return at_least(shown[id(dim)], 0)


def larger(a: Dim, b: Dim) -> Dim:
    """The larger of two dims; a plain one of them where signs show which."""
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    difference = simplify(_expr(a) - b)
    if never_negative(difference):
        return a
    if never_negative(simplify(_expr(b) - a)):
        return b
    return apply("max", a, b)


def smaller(a: Dim, b: Dim) -> Dim:
    """The smaller of two dims; a plain one of them where signs show which."""
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    if never_negative(simplify(_expr(a) - b)):
        return b
    if never_negative(simplify(_expr(b) - a)):
        return a
    return apply("min", a, b)


def from_end(index: Dim, size: Dim) -> Dim:
    """An index that counts from the end where it is negative, counted from the front."""
    if isinstance(index, int):
        return index if index >= 0 else simplify(size + index)
    if never_negative(index):
        return index
    if never_negative(simplify(-1 - index)):
        return simplify(size + index)
    return select(index < 0, _expr(size) + index, index)


def _expr(dim: Dim) -> Expr:
    return dim if isinstance(dim, Expr) else const(dim)


FAR = 2**31 - 1
"""An index of this size or more, of either sign, is beyond the end of any axis whose size is a symbol."""


def slice_length(size: Dim, begin: Dim, end: Dim, stride: int) -> Dim:
    """How many elements `x[begin:end:stride]` has along an axis of that size, by NumPy's rule."""
    if isinstance(size, int) and isinstance(begin, int) and isinstance(end, int):
        return len(range(*slice(begin, end, stride).indices(size)))
    low, high = (0, size) if stride > 0 else (-1, simplify(size - 1))

    def place(index: Dim) -> Dim:
        if isinstance(index, int) and abs(index) >= FAR:
            return high if index > 0 else low
        return larger(smaller(from_end(index, size), high), low)

    first, last = place(begin), place(end)
    reach = simplify(last - first if stride > 0 else first - last)
    return ceil_div(larger(reach, 0), abs(stride))
