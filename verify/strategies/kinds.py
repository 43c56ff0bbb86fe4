"""Data types, dims, shapes, types and scalars that are made by choices (specs/verify.md, "Programs").

The dims of one shape differ pairwise, so that two axes that are mixed up show; now and then one is 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assay.semantics.dtypes import DTYPES, DType
from assay.semantics.scalar import Dim, Var as Symbol
from assay.semantics.types import ShapeType, TensorType, TupleType, Type
from assay.verify.strategies.choosing import Pick, one_of

COMMON = ("float32", "int32", "bool", "int64", "float64", "int8", "uint8", "float16", "bfloat16")
"""What most programs compute with, the simplest first."""
SIZES = (2, 3, 4, 5, 7, 6)
"""Sizes of axes. A tensor of four axes has some hundred elements at most."""


def a_dtype(pick: Pick, names: Sequence[str] = COMMON) -> DType:
    """An element type of these names; the first is the simplest, and the likeliest."""
    return DTYPES[names[0] if pick(2) == 0 else one_of(pick, names)]


def a_shape(pick: Pick, rank: int, *, ones: bool = True, empty: bool = False) -> tuple[int, ...]:
    """Sizes of `rank` axes, pairwise distinct but for ones, up to six axes; a size of 0 only where `empty`. Ones are
    the simplest, and rare."""
    free = list(SIZES)
    shape = []
    for _ in range(rank):
        way = pick(12)
        if ones and way == 0:
            shape.append(1)
        elif empty and way == 11:
            shape.append(0)
        else:
            shape.append(free.pop(pick(min(3, len(free)))) if free else 2)
    return tuple(shape)


def a_rank(pick: Pick, least: int = 0, most: int = 4) -> int:
    """A number of axes, most often 1 or 2."""
    ranks = [r for r in (1, 2, 2, 3, 0, 4, 5) if least <= r <= most] or [least]
    return one_of(pick, ranks)


def a_tensor_type(
    pick: Pick, names: Sequence[str] = COMMON, *, symbols: Sequence[Symbol] = (), empty: bool = False
) -> TensorType:
    """A tensor type; with `symbols` some dims are such symbols."""
    shape: list[Dim] = list(a_shape(pick, a_rank(pick), empty=empty))
    for axis in range(len(shape)):
        if symbols and pick(3) == 2:
            shape[axis] = one_of(pick, symbols)
    return TensorType(tuple(shape), a_dtype(pick, names))


def a_type(pick: Pick, depth: int = 2, symbols: Sequence[Symbol] = ()) -> Type:
    """A type of values: a tensor, a shape, or a tuple of types, nested at most `depth` deep."""
    match pick(4) if depth else 0:
        case 2:
            return TupleType(tuple(a_type(pick, depth - 1, symbols) for _ in range(pick(4))))
        case 3:
            return ShapeType(tuple(one_of(pick, SIZES) for _ in range(pick(4))))
        case _:
            return a_tensor_type(pick, symbols=symbols)


def a_scalar(pick: Pick, of: DType) -> Any:
    """A number of an element type, as its NumPy scalar; small ones first, then those that are most often wrong."""
    return of.numpy.type(one_of(pick, special(of)))


def special(of: DType) -> tuple[Any, ...]:
    """Numbers of an element type as Python's: small ones, then zeros of both signs, extremes, subnormals, infinities
    and NaN, as far as the type has them."""
    if of.kind == "bool":
        return (False, True)
    if of.is_integer:
        low, high = int(of.min), int(of.max)
        found = (0, 1, 2, 3, -1, high, low, high // 2 + 1, low + 1, high - 1)
        return tuple(dict.fromkeys(n for n in found if low <= n <= high))
    least, normal, most = of.smallest_subnormal, of.smallest_normal, float(of.max)
    reals = [
        1.0,
        0.0,
        2.0,
        -1.0,
        0.5,
        -0.0,
        least,
        -least,
        normal,
        normal - least,
        most,
        -most,
        1 + 2 * of.unit_roundoff,
    ]
    kept = [r for r in reals if float(of.numpy.type(r)) == r]
    return (*kept, *(s for s in (float("inf"), float("-inf"), float("nan")) if _has(of, s)))


def _has(of: DType, number: float) -> bool:
    """Whether a type has this infinity or NaN."""
    made = float(of.numpy.type(number))
    return made == number or (made != made and number != number)
