"""Einsum as products of matrices (specs/lower.md, "Import").

Every operand gets its axes by letter: a letter that stands twice is the diagonal. The operands are then multiplied
one after another, and a letter is summed over as soon as nothing that follows has it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from assay.lower.frontends.onnx.node import Node, Rule, tensor
from assay.lower.frontends.onnx.operators.reduction import places
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
        return tensor(self.value).shape[self.letters.index(letter)]


def _equation(node: Node) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """The letters of each operand and of the result; axes of an ellipsis are ...0, ...1, from the end."""
    text = node.attrs["equation"].replace(" ", "")
    left, arrow, right = text.partition("->")
    terms, operands = left.split(","), node.operands()
    if len(terms) != len(operands):
        raise node.wrong(f"equation {text!r} has {len(terms)} terms, {len(operands)} operands are given")
    parts = [_letters(node, t, tensor(x).ndim) for t, x in zip(terms, operands, strict=True)]
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
        raise node.wrong(f"equation {text!r}: the result names {', '.join(wrong) or 'a letter twice'}")
    return parts, out


def _letters(node: Node, term: str, rank: int) -> tuple[str, ...]:
    head, dots, tail = term.partition("...")
    count = rank - len(head) - len(tail)
    if not (head + tail).isalpha() and head + tail or count < 0 or (count and not dots):
        raise node.wrong(f"the term {term!r} does not name the axes of an operand of rank {rank}")
    return (*head, *(f"...{k}" for k in reversed(range(count))), *tail)


def _summed(node: Node, term: _Term, keep: set[str]) -> _Term:
    axes = tuple(k for k, x in enumerate(term.letters) if x not in keep)
    if not axes:
        return term
    value = node.call("sum", term.value, axis=axes, keepdims=False)
    return _Term(value, tuple(x for x in term.letters if x in keep))


def _diagonal(node: Node, value: Expr, letters: tuple[str, ...]) -> _Term:
    """One axis for each letter: of two, the elements off their diagonal count 0, and one is summed over."""
    while len(set(letters)) < len(letters):
        first = next(k for k, x in enumerate(letters) if x in letters[k + 1 :])
        second = letters.index(letters[first], first + 1)
        shape = tensor(value).shape
        if not provably_equal(shape[first], shape[second]):
            raise node.wrong(f"axes {first} and {second} of {value.type} have one letter, but not one size")
        on = node.call("equal", places(node, value, first), places(node, value, second))
        masked = node.call("where", on, value, 0)
        value = node.call("sum", masked, axis=(second,), keepdims=False)
        letters = letters[:second] + letters[second + 1 :]
    return _Term(value, letters)


def _arranged(node: Node, term: _Term, letters: Sequence[str]) -> Expr:
    """The tensor with its axes in the order of `letters`, of which it may lack some: these have size 1."""
    own = [x for x in letters if x in term.letters]
    axes = tuple(term.letters.index(x) for x in own)
    value = term.value if axes == tuple(range(len(axes))) else node.call("permute_dims", term.value, axes=axes)
    return node.shaped(value, tuple(term.size(x) if x in own else 1 for x in letters))


def _product(node: Node, a: _Term, b: _Term, keep: set[str]) -> _Term:
    """The product of two terms, summed over what is not kept: a product of matrices for each letter that both keep."""
    a = _summed(node, a, keep | set(b.letters))
    b = _summed(node, b, keep | set(a.letters))
    shared = [x for x in a.letters if x in b.letters]
    inner = [x for x in shared if x not in keep]
    batch = [x for x in shared if x in keep]
    rows, columns = ([x for x in t.letters if x not in shared] for t in (a, b))
    for x in inner:
        broadcast_shapes(str(node), [(a.size(x),), (b.size(x),)])
    if not inner or not all(provably_equal(a.size(x), b.size(x)) for x in inner):
        letters = [*batch, *rows, *columns, *inner]
        both = node.call("multiply", _arranged(node, a, letters), _arranged(node, b, letters))
        return _summed(node, _Term(both, tuple(letters)), keep)
    sizes = broadcast_shapes(str(node), [tuple(t.size(x) for x in batch) for t in (a, b)])
    left = _arranged(node, a, [*batch, *rows, *inner])
    right = _arranged(node, b, [*batch, *inner, *columns])
    height, width = (tuple(t.size(x) for x in of) for t, of in ((a, rows), (b, columns)))
    length = product([a.size(x) for x in inner])
    left = node.shaped(left, (*(a.size(x) for x in batch), product(height), length))
    right = node.shaped(right, (*(b.size(x) for x in batch), length, product(width)))
    made = node.shaped(node.call("matmul", left, right), (*sizes, *height, *width))
    return _Term(made, (*batch, *rows, *columns))


def einsum(node: Node) -> Expr:
    """Translate Einsum: diagonals first, then products from left to right, then sums and an order of axes."""
    parts, out = _equation(node)
    terms = [_diagonal(node, x, letters) for x, letters in zip(node.operands(), parts, strict=True)]
    result = terms[0]
    for k, term in enumerate(terms[1:], start=1):
        later = {x for t in terms[k + 1 :] for x in t.letters}
        result = _product(node, result, term, later | set(out))
    return _arranged(node, _summed(node, result, set(out)), out)


TABLE: dict[str, Rule] = {"Einsum": einsum}
