"""What NumPy's functions do to arrays of terms (specs/verify.md, "legalize").

Sums and products are taken in row-major order. NumPy's own order is another one, and rule M9 leaves it open: of floats
the run says so, and is then compared up to the order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from operator import getitem
from typing import Any, TypeAlias

import numpy as np

from assay.semantics.arrays import OF_UFUNCS
from assay.semantics.dtypes import BOOL, INT64
from assay.verify.equivalence.order import UndecidedTrace
from assay.verify.operator_terms.array import ComplexTerms, TermArray, TermRun, coerce, implements, operate

Array: TypeAlias = np.ndarray[Any, Any]

BITWISE = {np.bitwise_and: ("and", "bitand"), np.bitwise_or: ("or", "bitor"), np.bitwise_xor: ("ne", "bitxor")}


def _run_of(operands: Sequence[Any]) -> TermRun:
    return next(x.run for x in operands if isinstance(x, TermArray))


def _pointwise(function: Any, name: str) -> None:
    def rule(*operands: Any) -> TermArray:
        return operate(_run_of(operands), name, *coerce(*operands))

    implements(function)(rule)


for _f, _name in OF_UFUNCS.items():
    _pointwise(_f, _name)


def _bits(function: Any, logical: str, bitwise: str) -> None:
    def rule(*operands: Any) -> TermArray:
        terms = coerce(*operands)
        return operate(terms[0].run, logical if terms[0].of is BOOL else bitwise, *terms)

    implements(function)(rule)


for _f, (_logical, _bitwise) in BITWISE.items():
    _bits(_f, _logical, _bitwise)


@implements(np.invert)
def invert(x: TermArray) -> TermArray:
    """The negation of a truth, or of each bit: -1 - x."""
    if x.of is BOOL:
        return operate(x.run, "not", x)
    minus = np.asarray(x.of.max if x.of.kind == "uint" else -1).astype(x.dtype)
    return operate(x.run, "sub", minus, x)


@implements(np.trunc)
def trunc(x: TermArray) -> TermArray:
    """The whole number beside an element on the side of 0, as the scalar table has it."""
    below = operate(x.run, "lt", x, np.zeros((), x.dtype))
    return operate(x.run, "select", below, operate(x.run, "ceil", x), operate(x.run, "floor", x))


@implements(np.isnan)
def isnan(x: TermArray) -> TermArray:
    """Whether an element is NaN: what differs from itself."""
    return operate(x.run, "ne", x, x)


@implements(np.signbit)
def signbit(x: TermArray) -> TermArray:
    """Whether an element has the sign bit; never, where that is known."""
    terms = x.run.terms
    made = terms.intern(terms.code("signbit", x.of), x.numbers)
    return TermArray(x.run, np.where(terms.plus[x.numbers], terms.false, made), BOOL)


def _extreme(name: str) -> Callable[[Any, Any], TermArray]:
    def rule(a: Any, b: Any) -> TermArray:
        a, b = coerce(a, b)
        return TermArray(a.run, a.run.terms.open_extreme(name, a.of, a.numbers, b.numbers), a.of)

    return rule


maximum, minimum = implements(np.maximum)(_extreme("larger")), implements(np.minimum)(_extreme("smaller"))


@implements(np.where)
def where(condition: Any, then: Any, otherwise: Any) -> TermArray:
    """A choice, element by element."""
    run = _run_of((condition, then, otherwise))
    if not isinstance(condition, TermArray):
        condition = run.array(condition)
    if not isinstance(then, TermArray) and not isinstance(otherwise, TermArray):
        then = run.array(then)
    return operate(run, "select", condition, *coerce(then, otherwise))


# --- placing -----------------------------------------------------------------------------------------------------


def _one(function: Any) -> None:
    implements(function)(lambda x, *args, **kwargs: x.moved(lambda a: function(a, *args, **kwargs)))


for _f in (
    np.reshape, np.ravel, np.transpose, np.moveaxis, np.swapaxes, np.expand_dims, np.squeeze, np.broadcast_to,
    np.flip, np.roll, np.rot90, np.repeat, np.tile, np.copy, np.diagonal, np.atleast_1d, np.delete,
):  # fmt: skip
    _one(_f)


def _many(function: Any) -> None:
    def rule(parts: Sequence[Any], *args: Any, **kwargs: Any) -> TermArray:
        terms = coerce(*parts)
        return TermArray(terms[0].run, function([x.numbers for x in terms], *args, **kwargs), terms[0].of)

    implements(function)(rule)


_many(np.concatenate)
_many(np.stack)


@implements(np.split, np.array_split)
def split(x: TermArray, *args: Any, **kwargs: Any) -> list[TermArray]:
    """The pieces along an axis."""
    return [TermArray(x.run, part, x.of) for part in np.split(x.numbers, *args, **kwargs)]


@implements(np.ascontiguousarray)
def contiguous(x: TermArray, dtype: Any = None) -> TermArray:
    """The array itself, as another dtype where one is given."""
    return x if dtype is None else x.astype(dtype)


@implements(np.pad)
def pad(x: TermArray, pad_width: Any, mode: Any = "constant", constant_values: Any = 0) -> TermArray:
    """More elements around: one number."""
    if mode != "constant":
        raise UndecidedTrace(f"pad in mode {mode} has no rule for terms")
    fill = x.run.array(np.asarray(constant_values).astype(x.dtype))
    return x.moved(lambda a: np.pad(a, pad_width, constant_values=int(fill.numbers)))


@implements(np.take)
def take(x: TermArray, indices: Any, axis: int | None = None, **kwargs: Any) -> TermArray:
    """Elements at places that are numbers, or of an operand as it is at places that are data."""
    if isinstance(indices, TermArray) and not x.run.terms.literal[indices.numbers].all():
        return _gathered(x, indices, axis)
    places = indices.known() if isinstance(indices, TermArray) else indices
    return x.moved(lambda a: np.take(a, places, axis=axis, **kwargs))


def _gathered(x: TermArray, indices: TermArray, axis: int | None) -> TermArray:
    """Elements of an operand at places that are data along one axis."""
    if axis is None:
        raise UndecidedTrace("places that are data, along no axis")
    axis %= x.ndim
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    grid = np.indices((*before, *(1,) * indices.ndim, *after), np.int64, sparse=True)
    own = indices.reshape((1,) * axis + indices.shape + (1,) * len(after))
    return element_at(x, [*grid[:axis], own, *grid[axis + indices.ndim :]], (*before, *indices.shape, *after))


@implements(getitem)
def elements_taken(x: TermArray, index: tuple[Any, ...]) -> TermArray:
    """Elements at places along the first axes, an array of terms for each of these."""
    if not all(isinstance(i, TermArray) for i in index):
        raise UndecidedTrace("places that are data along some axes alone")
    if all(x.run.terms.literal[i.numbers].all() for i in index):
        return x[tuple(i.known() for i in index)]
    shape, after = np.broadcast_shapes(*(i.shape for i in index)), x.shape[len(index) :]
    own = [i.moved(lambda a: np.broadcast_to(a, shape).reshape(shape + (1,) * len(after))) for i in index]
    grid = np.indices((*(1,) * len(shape), *after), np.int64, sparse=True)
    return element_at(x, [*own, *grid[len(shape) :]], (*shape, *after))


def element_at(x: TermArray, at: Sequence[Any], shape: tuple[int, ...]) -> TermArray:
    """The elements of an operand at an index, of which a part is data, for each place of a shape."""
    run = x.run
    if 0 in shape:
        return run.array(np.zeros(shape, x.dtype))
    flat, places = x.numbers.reshape(-1), np.arange(x.size)
    number = next((k for k, first in enumerate(run.symbols.first) if np.array_equal(flat, first + places)), -1)
    if number < 0 or not x.size:
        raise UndecidedTrace("places that are data, of what is no operand")
    numbers = [i.numbers if isinstance(i, TermArray) else run.terms.constant(i, INT64) for i in at]
    made = run.terms.gather(run.symbols.names[number], x.of, [np.broadcast_to(n, shape) for n in numbers])
    run.symbols.note("bounds", made, run.terms.true, np.ones(shape, bool))
    return TermArray(run, made, x.of)


@implements(np.full_like)
def full_like(x: TermArray, fill_value: Any, **kwargs: Any) -> TermArray:
    """One number everywhere."""
    return x.run.array(np.full(x.shape, fill_value, x.dtype))


@implements(np.zeros_like)
def zeros_like(x: TermArray, dtype: Any = None, **kwargs: Any) -> TermArray | ComplexTerms:
    """Zero everywhere."""
    zero = full_like(x, 0)
    return ComplexTerms(zero, zero) if np.dtype(dtype or x.dtype).kind == "c" else zero


@implements(np.shape)
def shape(x: TermArray) -> tuple[int, ...]:
    """As `np.shape`."""
    return x.shape


@implements(np.ndim)
def ndim(x: TermArray) -> int:
    """As `np.ndim`."""
    return x.ndim


@implements(np.size)
def element_count(x: TermArray) -> int:
    """As `np.size`."""
    return x.size


# --- reductions --------------------------------------------------------------------------------------------------


def _rows(x: TermArray, axis: Any, keepdims: bool) -> tuple[TermArray, tuple[int, ...]]:
    """The elements that each result takes along a last axis, in row-major order; and the shape of the results."""
    axes = range(x.ndim) if axis is None else [axis] if isinstance(axis, (int, np.integer)) else axis
    reduced = sorted(int(a) % x.ndim for a in axes)
    kept = [a for a in range(x.ndim) if a not in reduced]
    count = prod(x.shape[a] for a in reduced)
    outer = [x.shape[a] for a in kept]
    out = [1 if a in reduced else n for a, n in enumerate(x.shape)] if keepdims else outer
    return x.transpose([*kept, *reduced]).reshape([*outer, count]), tuple(out)


def _reduction(join: Callable[[TermArray, TermArray], TermArray], unit: Any, open_order: bool = False) -> Any:
    def rule(
        x: TermArray, axis: Any = None, dtype: Any = None, keepdims: bool = False, initial: Any = None, **more: Any
    ) -> TermArray:
        if more and any(v is not np._NoValue for v in more.values()):
            raise UndecidedTrace(f"a reduction with {', '.join(more)} has no rule for terms")
        if dtype is not None and np.dtype(dtype) != x.dtype:
            x = x.astype(dtype)
        rows, out = _rows(x, axis, bool(keepdims))
        count = rows.shape[-1]
        total: TermArray | None = None
        start = initial if initial is not None and initial is not np._NoValue else unit if not count else None
        if start is not None:
            total = x.run.array(np.full(rows.shape[:-1], start, x.dtype))
        for k in range(count):
            total = rows[..., k] if total is None else join(total, rows[..., k])
        if total is None:
            raise UndecidedTrace("a reduction of nothing has no rule for terms")
        if open_order and x.of.is_float and count > 1:
            x.run.in_any_order = True
        return total.reshape(out)

    return rule


def _joined(name: str) -> Callable[[TermArray, TermArray], TermArray]:
    return lambda a, b: operate(a.run, name, a, b)


total = implements(np.sum, (np.add, "reduce"))(_reduction(_joined("add"), 0, True))
product = implements(np.prod, (np.multiply, "reduce"))(_reduction(_joined("mul"), 1, True))
largest = implements(np.max, (np.maximum, "reduce"))(_reduction(maximum, None))
least = implements(np.min, (np.minimum, "reduce"))(_reduction(minimum, None))


def _truths(name: str, unit: bool) -> Callable[..., TermArray]:
    reduce = _reduction(_joined(name), unit)

    def rule(x: TermArray, axis: Any = None, **more: Any) -> TermArray:
        if x.of is not BOOL:
            x = operate(x.run, "ne", x, np.zeros((), x.dtype))
        made: TermArray = reduce(x, axis, **more)
        return made

    return rule


any_true = implements(np.any, (np.logical_or, "reduce"))(_truths("or", False))
all_true = implements(np.all, (np.logical_and, "reduce"))(_truths("and", True))


def _accumulated(name: str) -> Callable[..., TermArray]:
    def rule(x: TermArray, axis: int = 0) -> TermArray:
        made: list[TermArray] = []
        for k in range(x.shape[axis]):
            part = x[(slice(None),) * (axis % x.ndim) + (k,)]
            made.append(operate(x.run, name, made[-1], part) if made else part)
        return _stacked(made, axis) if made else x

    return rule


def _stacked(parts: list[TermArray], axis: int) -> TermArray:
    return TermArray(parts[0].run, np.stack([p.numbers for p in parts], axis), parts[0].of)


implements((np.add, "accumulate"))(_accumulated("add"))
implements((np.multiply, "accumulate"))(_accumulated("mul"))


@implements(np.matmul)
def matmul(a: Any, b: Any) -> TermArray:
    """Sums of products, from 0."""
    a, b = coerce(a, b)
    left = a.reshape((1, *a.shape)) if a.ndim == 1 else a
    right = b.reshape((*b.shape, 1)) if b.ndim == 1 else b
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    shape = (*batch, left.shape[-2], right.shape[-1])
    made: TermArray = a.run.array(np.zeros(shape, a.dtype))
    for k in range(left.shape[-1]):
        made = made + left[..., :, k, None] * right[..., None, k, :]
    if a.of.is_float and left.shape[-1]:
        a.run.in_any_order = True
    if a.ndim == 1:
        made = made[..., 0, :]
    return made[..., 0] if b.ndim == 1 else made
