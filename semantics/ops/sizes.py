"""Arithmetic on dims that type rules share: products, quotients, what is never negative (specs/semantics.md, "Types").

A symbol stands for the size of some axis, so it is never negative. What cannot be shown here is not assumed: the type
rules that ask say which dim to write instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from assay.semantics import scalar
from assay.semantics.dtypes import INT64
from assay.semantics.integers.polynomials import Polynomials
from assay.semantics.integers.ranges import EVERYTHING, Range, at_least, compare, meet, reach
from assay.semantics.walk import occurrences, post_order


def is_dim(value: object, least: int = 0) -> bool:
    """Whether `value` can stand for a size: an int of at least `least`, or an int64 expression."""
    if isinstance(value, scalar.Expr):
        return value.dtype is INT64
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def is_int(value: object, least: int | None = None) -> bool:
    """Whether `value` is a Python int (not a bool) of at least `least`."""
    return isinstance(value, int) and not isinstance(value, bool) and (least is None or value >= least)


# --- equality of products -----------------------------------------------------------------------------------------


def product(dims: Sequence[scalar.Dim]) -> scalar.Dim:
    """The product of dims; 1 if there are none."""
    number = prod(d for d in dims if isinstance(d, int))
    symbols = [d for d in dims if isinstance(d, scalar.Expr)]
    if not symbols or number == 0:
        return number
    whole = symbols[0]
    for d in symbols[1:]:
        whole = whole * d
    return whole * number  # last, so that what divides it is seen


def same_size(a: Sequence[scalar.Dim], b: Sequence[scalar.Dim]) -> bool:
    """Whether two shapes have equally many elements for all values of their symbols, as far as algebra shows."""
    sizes = Polynomials({})
    return sizes.of(product(a)) == sizes.of(product(b))


def product_fits(need: Sequence[scalar.Dim], nbytes: scalar.Dim, limits: Mapping[scalar.Var, int]) -> bool | None:
    """Whether a product of dims is at most `nbytes` for all values of their symbols; None where that is not decided.

    `limits` are the largest values of symbols, as far as some are known.
    """
    sizes = Polynomials({v: (0, n) for v, n in limits.items()})
    return compare("ge", sizes.range(sizes.of(nbytes) - sizes.of(product(need))))


def missing_dim(shape: Sequence[scalar.Dim], known: Sequence[scalar.Dim]) -> scalar.Dim | None:
    """The one dim that, with those `known`, has as many elements as `shape`; None where it cannot be told.

    Dims that stand on both sides cancel first, so that the answer is one even where such a dim is 0. What is left of
    `known` must be numbers whose product, not 0, divides what is left of `shape`.
    """
    left, rest = without_common(shape, known)
    total, divisor = scalar.simplify(product(left)), product(rest)
    if not isinstance(divisor, int) or divisor == 0:
        return None
    if isinstance(total, int):
        return None if total % divisor else total // divisor
    form = scalar.linear(total)
    if form is None or not form.is_multiple(divisor):
        return None
    return floor_div(total, divisor)


def factors(dim: scalar.Dim) -> Iterator[scalar.Dim]:
    """What a dim is a product of; the dim itself, where it is none."""
    return (d for d in occurrences(scalar.simplify(dim), _multiplied) if not _multiplied(d))


def _multiplied(dim: scalar.Dim) -> Sequence[scalar.Dim]:
    """The two or more that a dim is a product of."""
    form = None if isinstance(dim, int) else scalar.linear(dim)
    if form is not None and not form.constant and len(form.terms) == 1:
        ((atom, count),) = form.terms.items()
        if count != 1:
            return count, atom
    return dim.args if isinstance(dim, scalar.Apply) and dim.op == "mul" else ()


def without_common(
    shape: Sequence[scalar.Dim], known: Sequence[scalar.Dim]
) -> tuple[list[scalar.Dim], list[scalar.Dim]]:
    """The factors of the dims of both, in their order, but for those that stand on both sides."""
    left: list[scalar.Dim] = [f for d in shape for f in factors(d)]
    rest: list[scalar.Dim] = []
    for d in (f for e in known for f in factors(e)):
        same = next((i for i, e in enumerate(left) if scalar.provably_equal(d, e)), None)
        if same is None:
            rest.append(d)
        else:
            del left[same]
    return left, rest


# --- quotients and order ------------------------------------------------------------------------------------------


def floor_div(dim: scalar.Dim, by: int) -> scalar.Dim:
    """`dim` // `by` (at least 1), whole multiples taken out: (2n + 3) // 2 is n + 1."""
    form = scalar.linear(dim)
    if isinstance(dim, int) or form is None:
        return dim // by
    whole: scalar.Dim = 0
    rest: scalar.Dim = 0
    for atom, k in sorted(
        form.terms.items(), key=lambda term: scalar.show(term[0])
    ):  # one order, so that equals look the same
        if k % by == 0:
            whole = whole + atom * (k // by)
        else:
            rest = rest + atom * k
    return scalar.simplify(whole + (rest + form.constant % by) // by + form.constant // by)


def ceil_div(dim: scalar.Dim, by: int) -> scalar.Dim:
    """`dim` / `by` (at least 1), rounded up."""
    return floor_div(scalar.simplify(dim + (by - 1)), by)


def never_negative(dim: scalar.Dim) -> bool:
    """Whether `dim` is at least 0 for all sizes that its symbols can stand for, as far as ranges show."""
    if isinstance(dim, int):
        return dim >= 0
    return _never_negative(dim) or ((least := _without_quotients(dim)) is not dim and _never_negative(least))


def _without_quotients(dim: scalar.Expr) -> scalar.Dim:
    """What `dim` is at least, with n for each c * (n // c) that is taken away: n - 2 * (n // 2) is at least n - n."""
    form = scalar.linear(dim)
    out: scalar.Dim = dim
    for atom, k in {} if form is None else form.terms.items():
        if isinstance(atom, scalar.Apply) and atom.op == "floordiv" and isinstance(atom.args[1], scalar.Const):
            by = int(atom.args[1].value)
            if k < 0 < by and k % by == 0:
                out = scalar.simplify(out - atom * k + atom.args[0] * (k // by))
    return out


def _never_negative(dim: scalar.Dim) -> bool:
    if isinstance(dim, int):
        return dim >= 0
    shown: dict[int, Range] = {}
    for node in post_order(dim, lambda n: n.children if isinstance(n, scalar.Apply) else ()):
        match node:
            case scalar.Var():
                found: Range = (0, None)
            case scalar.Const() if node.dtype.is_integer:
                found = int(node.value), int(node.value)
            case scalar.Apply():
                found = reach(node.op, [shown[id(c)] for c in node.args])
                form = scalar.linear(node) if not at_least(found, 0) else None
                if form is not None and node not in form.terms:
                    found = meet(found, form.range(lambda a: shown[id(a)]))
            case _:
                found = EVERYTHING
        shown[id(node)] = found
    return at_least(shown[id(dim)], 0)


def larger(a: scalar.Dim, b: scalar.Dim) -> scalar.Dim:
    """The larger of two dims; a plain one of them where signs show which."""
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    difference = scalar.simplify(_expr(a) - b)
    if never_negative(difference):
        return a
    if never_negative(scalar.simplify(_expr(b) - a)):
        return b
    return scalar.apply("max", a, b)


def smaller(a: scalar.Dim, b: scalar.Dim) -> scalar.Dim:
    """The smaller of two dims; a plain one of them where signs show which."""
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    if never_negative(scalar.simplify(_expr(a) - b)):
        return b
    if never_negative(scalar.simplify(_expr(b) - a)):
        return a
    return scalar.apply("min", a, b)


def from_end(index: scalar.Dim, size: scalar.Dim) -> scalar.Dim:
    """An index that counts from the end where it is negative, counted from the front."""
    if isinstance(index, int):
        return index if index >= 0 else scalar.simplify(size + index)
    if never_negative(index):
        return index
    if never_negative(scalar.simplify(-1 - index)):
        return scalar.simplify(size + index)
    return scalar.select(index < 0, _expr(size) + index, index)


def _expr(dim: scalar.Dim) -> scalar.Expr:
    return dim if isinstance(dim, scalar.Expr) else scalar.const(dim)


FAR = 2**31 - 1
"""An index of this size or more, of either sign, is beyond the end of any axis whose size is a symbol."""


def slice_places(size: scalar.Dim, begin: scalar.Dim, end: scalar.Dim, stride: int) -> tuple[scalar.Dim, scalar.Dim]:
    """Where `x[begin:end:stride]` begins along an axis of that size, and before what it ends, by NumPy's rule: places
    outside are moved to the border."""
    low, high = (0, size) if stride > 0 else (-1, scalar.simplify(size - 1))

    def place(index: scalar.Dim) -> scalar.Dim:
        if isinstance(index, int) and abs(index) >= FAR:
            return high if index > 0 else low
        return larger(smaller(from_end(index, size), high), low)

    return place(begin), place(end)


def slice_length(size: scalar.Dim, begin: scalar.Dim, end: scalar.Dim, stride: int) -> scalar.Dim:
    """How many elements `x[begin:end:stride]` has along an axis of that size, by NumPy's rule."""
    if isinstance(size, int) and isinstance(begin, int) and isinstance(end, int):
        return len(range(*slice(begin, end, stride).indices(size)))
    first, last = slice_places(size, begin, end, stride)
    reach = scalar.simplify(last - first if stride > 0 else first - last)
    return ceil_div(larger(reach, 0), abs(stride))
