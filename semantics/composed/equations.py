"""Sums of products that are written as an equation, as products of matrices (specs/semantics.md, "Text").

Every operand gets its axes by letter: a letter that stands twice is the diagonal. The operands are then multiplied
one after another, and a letter is summed over as soon as nothing that follows has it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from assay.semantics.composed.index_tuples import counted, gathered
from assay.semantics.composed.maker import Maker, tensor_of
from assay.semantics.graph import Expr
from assay.semantics.ops.common import broadcast_shapes
from assay.semantics.ops.sizes import product
from assay.semantics.scalar import Dim, provably_equal


@dataclass(frozen=True)
class _Term:
    """A tensor with a letter for each axis."""

    value: Expr
    letters: tuple[str, ...]

    def size(self, letter: str) -> Dim:
        return tensor_of(self.value).shape[self.letters.index(letter)]


def _equation(make: Maker, equation: str, operands: Sequence[Expr]) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """The letters of each operand and of the result; axes of an ellipsis are ...0, ...1, from the end."""
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise make.wrong(f"equation {text!r} has {len(terms)} terms, {len(operands)} operands are given")
    parts = [_letters(make, t, tensor_of(x).ndim) for t, x in zip(terms, operands, strict=True)]
    rest = max((sum(x.startswith("...") for x in p) for p in parts), default=0)
    dots = tuple(f"...{k}" for k in reversed(range(rest)))
    count = Counter(x for p in parts for x in p)
    if arrow:
        head, found, tail = right.partition("...")
        out = (*head, *(dots if found else ()), *tail)
    else:
        out = (*dots, *sorted(x for x, n in count.items() if n == 1 and x not in dots))
    wrong = [x for x in out if x not in count and x not in dots]
    if wrong or len(set(out)) != len(out):
        raise make.wrong(f"equation {text!r}: the result names {', '.join(wrong) or 'a letter twice'}")
    return parts, out


def _letters(make: Maker, term: str, rank: int) -> tuple[str, ...]:
    head, dots, tail = term.partition("...")
    count = rank - len(head) - len(tail)
    if not (head + tail).isalpha() and head + tail or count < 0 or (count and not dots):
        raise make.wrong(f"the term {term!r} does not name the axes of an operand of rank {rank}")
    return (*head, *(f"...{k}" for k in reversed(range(count))), *tail)


def _summed(make: Maker, term: _Term, keep: set[str]) -> _Term:
    axes = tuple(k for k, x in enumerate(term.letters) if x not in keep)
    if not axes:
        return term
    value = make.call("sum", term.value, axis=axes, keepdims=False)
    return _Term(value, tuple(x for x in term.letters if x in keep))


def _diagonal(make: Maker, value: Expr, letters: tuple[str, ...]) -> _Term:
    """One axis for each letter: of two, the elements where both are at one place, along a last axis."""
    while len(set(letters)) < len(letters):
        first = next(k for k, x in enumerate(letters) if x in letters[k + 1 :])
        second = letters.index(letters[first], first + 1)
        shape = tensor_of(value).shape
        if not provably_equal(shape[first], shape[second]):
            raise make.wrong(f"axes {first} and {second} of {value.type} have one letter, but not one size")
        rest = [k for k in range(len(letters)) if k not in (first, second)]
        moved = make.call("permute_dims", value, axes=(*rest, first, second))
        size = (*(shape[k] for k in rest), shape[first])
        own = counted(make, (*size, 1), len(rest))
        value = make.shaped(gathered(make, moved, own, len(rest) + 1), size)
        letters = (*(letters[k] for k in rest), letters[first])
    return _Term(value, letters)


def _arranged(make: Maker, term: _Term, letters: Sequence[str]) -> Expr:
    """The tensor with its axes in the order of `letters`, of which it may lack some: these have size 1."""
    own = [x for x in letters if x in term.letters]
    axes = tuple(term.letters.index(x) for x in own)
    value = term.value if axes == tuple(range(len(axes))) else make.call("permute_dims", term.value, axes=axes)
    return make.shaped(value, tuple(term.size(x) if x in own else 1 for x in letters))


def _product(make: Maker, a: _Term, b: _Term, keep: set[str]) -> _Term:
    """The product of two terms, summed over what is not kept: a product of matrices for each letter that both keep."""
    a = _summed(make, a, keep | set(b.letters))
    b = _summed(make, b, keep | set(a.letters))
    shared = [x for x in a.letters if x in b.letters]
    inner = [x for x in shared if x not in keep]
    batch = [x for x in shared if x in keep]
    rows, columns = ([x for x in t.letters if x not in shared] for t in (a, b))
    for x in inner:
        broadcast_shapes("einsum", [(a.size(x),), (b.size(x),)])
    if not inner or not all(provably_equal(a.size(x), b.size(x)) for x in inner):
        letters = [*batch, *rows, *columns, *inner]
        both = make.call("multiply", _arranged(make, a, letters), _arranged(make, b, letters))
        return _summed(make, _Term(both, tuple(letters)), keep)
    sizes = broadcast_shapes("einsum", [tuple(t.size(x) for x in batch) for t in (a, b)])
    left = _arranged(make, a, [*batch, *rows, *inner])
    right = _arranged(make, b, [*batch, *inner, *columns])
    height, width = (tuple(t.size(x) for x in of) for t, of in ((a, rows), (b, columns)))
    length = product([a.size(x) for x in inner])
    left = make.shaped(left, (*(a.size(x) for x in batch), product(height), length))
    right = make.shaped(right, (*(b.size(x) for x in batch), length, product(width)))
    made = make.shaped(make.call("matmul", left, right), (*sizes, *height, *width))
    return _Term(made, (*batch, *rows, *columns))


def einsum(make: Maker, equation: str, operands: Sequence[Expr]) -> Expr:
    """Diagonals first, then products from left to right, then sums and an order of axes."""
    parts, out = _equation(make, equation, operands)
    terms = [_diagonal(make, x, letters) for x, letters in zip(operands, parts, strict=True)]
    result = terms[0]
    for k, term in enumerate(terms[1:], start=1):
        later = {x for t in terms[k + 1 :] for x in t.letters}
        result = _product(make, result, term, later | set(out))
    return _arranged(make, _summed(make, result, set(out)), out)
