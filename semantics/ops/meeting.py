"""How two sizes meet where tensors are stretched to one another, if only a run knows whether one of them is 1
(specs/semantics.md, "Types").

NumPy's rule takes two sizes that are equal, and stretches one that is 1. Of symbols it says the size of the result all
the same: `joined(n, m)` is m where n is 1, else n. What it asks of n is that n is 1 or that size, which is the dim
`one_or(n, size)`: a cast to it is the check of a run, and tells the type rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd

from assay.semantics import scalar
from assay.semantics.integers.polynomials import Polynomials
from assay.semantics.integers.ranges import at_least, at_most
from assay.semantics.scalar import Apply, Const, Dim, Expr, Var, provably_equal, simplify


def _is_number(dim: Dim, wanted: int) -> bool:
    return int(dim.value) == wanted if isinstance(dim, Const) else isinstance(dim, int) and dim == wanted


def _tested(dim: Dim) -> tuple[Expr, Expr, Expr] | None:
    """Of a dim `select(n == 1, a, b)` what n, a and b are."""
    if not isinstance(dim, Apply) or dim.op != "select":
        return None
    test, then, otherwise = dim.args
    if not isinstance(test, Apply) or test.op != "eq" or not _is_number(test.args[1], 1):
        return None
    return test.args[0], then, otherwise


def _is_one(dim: Dim) -> Expr:
    assert isinstance(dim, Expr)
    return scalar.apply("eq", dim, 1)


def one_or(dim: Dim, size: Dim) -> Dim:
    """1 where `dim` is 1, else `size`: what `dim` has to be, to be stretched to that size."""
    return scalar.select(_is_one(dim), 1, size)


def is_one_or(dim: Dim, size: Dim) -> bool:
    """Whether `dim` is 1 or `size`, whatever the values of the symbols are: by itself, or in both cases of a choice."""
    if _is_number(dim, 1) or provably_equal(dim, size):
        return True
    found = _tested(dim)
    return found is not None and all(_is_number(c, 1) or provably_equal(c, size) for c in found[1:])


def may_stretch(dim: Dim) -> bool:
    """Whether `dim` is one that `one_or` makes: 1 or a size to which it is stretched."""
    found = _tested(dim)
    return found is not None and _is_number(found[1], 1)


def parts(dim: Dim) -> list[Dim]:
    """The dims of which `dim` is what they are stretched to; itself, where it is no such dim."""
    found: list[Dim] = []
    while (split := _tested(dim)) is not None and provably_equal(split[0], split[2]):
        found.append(split[2])
        dim = split[1]
    return [*found, int(dim.value) if isinstance(dim, Const) else dim]


def joined(*dims: Dim) -> Dim:
    """The size to which dims are stretched: the first that is not 1, else 1. A number comes last, and the others in one
    order, so that equals look the same."""
    every: list[Dim] = []
    for part in (p for d in dims for p in parts(d)):
        if not any(provably_equal(part, e) for e in every):
            every.append(part)
    every.sort(key=lambda d: (isinstance(d, int), scalar.show(d)))
    out = every[-1]
    for part in reversed(every[:-1]):
        out = scalar.select(_is_one(part), out, part)
    return out


def never_one(dim: Dim) -> bool:
    """Whether `dim` is 1 for no values of its symbols, as far as ranges and divisors show."""
    if isinstance(dim, int):
        return dim != 1
    sizes = Polynomials({})
    found = sizes.of(dim)
    factor = gcd(*found.terms.values())
    if factor and (1 - found.constant) % factor:
        return True
    where = sizes.range(found)
    return at_least(where, 2) or at_most(where, 0)


def one_with(a: Dim, b: Dim) -> bool:
    """Whether `b` is 1 wherever `a` is, as far as can be shown: then `a` is not stretched to `b`, but equal to it."""
    if never_one(a) or provably_equal(a, b):
        return True
    own, others = parts(a), parts(b)  # a joined size is 1 only if all of its parts are
    return all(any(_one_with(p, q) for p in own) for q in others)


def _one_with(a: Dim, b: Dim) -> bool:
    if provably_equal(a, b) or (isinstance(b, int) and b == 1):
        return True
    a, b = _core(a), _core(b)
    if isinstance(a, int) or isinstance(b, int):
        return False
    return provably_equal(a, b) or all(_is_number(simplify(scalar.substitute(b, at)), 1) for at in _where_one(a))


def _core(dim: Dim) -> Dim:
    """What is 1 where `dim` is, and only there: of a minimum with a number above 1 the other."""
    while isinstance(dim, Apply) and dim.op == "min":
        plain = [a for a in dim.args if not (isinstance(a, Const) and int(a.value) > 1)]
        if len(plain) != 1:
            break
        dim = plain[0]
    return dim


def _where_one(dim: Expr) -> Iterator[dict[Var, int]]:
    """The values of symbols that make a sum of them 1; one without values where they cannot be told."""
    form = scalar.linear(dim)
    symbols = [] if form is None else [a for a in form.terms if isinstance(a, Var)]
    if form is None or len(symbols) < len(form.terms) or min(form.terms.values()) < 1 or form.constant not in (0, 1):
        yield {}
    elif form.constant == 1:
        yield dict.fromkeys(symbols, 0)
    else:
        for one in (s for s in symbols if form.terms[s] == 1):
            yield {s: int(s is one) for s in symbols}


def meeting(dims: Sequence[Dim]) -> Dim | None:
    """The size to which dims are stretched that may meet where a run decides; None where numbers rule it out.

    A dim that is 1 wherever the other one is cannot be stretched to it: it has to be equal, and stands for both.
    """
    found: Dim = 1
    for d in dims:
        if _is_number(found, 1) or provably_equal(found, d):
            found = d
        elif _is_number(d, 1):
            continue
        elif isinstance(found, int) and isinstance(d, int):
            return None
        else:
            found = _met(found, d)
    return found


def _met(a: Dim, b: Dim) -> Dim:
    a_stays, b_stays = one_with(a, b), one_with(b, a)
    if a_stays and b_stays:  # they are equal, or the run fails: the plainer one says it
        equal = plainest((a, b))
        assert equal is not None  # two numbers do not come here
        return equal
    if a_stays or b_stays:
        return b if b_stays else a
    return joined(a, b)


def plainest(dims: Sequence[Dim]) -> Dim | None:
    """The one that says best what sizes are that have to be equal: a number, else the shortest; None where two numbers
    rule it out."""
    numbers = {d for d in dims if isinstance(d, int)}
    if len(numbers) > 1:
        return None
    return min(dims, key=lambda d: (not isinstance(d, int), len(scalar.show(d))))


def wanted_of(dim: Dim, size: Dim) -> Dim:
    """What a cast has to say of `dim`, so that it can be stretched to `size`: `dim` itself where that is shown."""
    if is_one_or(dim, size):
        return dim
    return size if one_with(dim, size) or isinstance(dim, int) else one_or(dim, size)
