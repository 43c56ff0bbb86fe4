"""Operands that show what ordinary ones hide (specs/verify.md, "Trials").

A kind of operands is a choice of numbers of one dtype; which place of an operand gets which of them is drawn.

- specials: NaN, infinities, both zeros, subnormal numbers, the ends of the range, between ordinary numbers.
- ties: few different numbers, so that many are equal; halves, which lie between two whole numbers. A step of a program
  is handed elements equal to those of its other operands too, so that it meets its constants (`meeting`).
- extremes: the ends of the range and their neighbours, all finite.
- constants: what the function itself compares with or computes with, and the numbers next to it.
- mixed: each element is of one of these kinds; for functions whose elements do not meet.
- mild: zeros, infinities and NaN between ordinary numbers, nothing large or tiny.
- steep: numbers whose exponentials are beyond the range, between ordinary ones; the squares of those are within it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Literal

import numpy as np

from assay.semantics.dtypes import DType
from assay.semantics.scalar import Const
from assay.semantics.tensor import PrimFunc, program_order
from assay.semantics.tensor.blocks import without_blocks
from assay.semantics.walk import post_order

Array = np.ndarray[Any, Any]
Kind = Literal["specials", "ties", "extremes", "constants", "mixed", "mild", "steep"]
KINDS: tuple[Kind, ...] = ("specials", "ties", "extremes", "constants")


def _as(values: Iterable[float], of: DType) -> Array:
    """The numbers in a dtype, each bit pattern once."""
    with np.errstate(all="ignore"):
        found = np.array(list(values), np.float64).astype(of.numpy)
    return distinct_numbers(found)


def distinct_numbers(numbers: Array) -> Array:
    """The numbers, each bit pattern once, in the order of their first."""
    bits = np.ascontiguousarray(numbers).view(f"u{numbers.dtype.itemsize}")
    _, first = np.unique(bits, return_index=True)
    return numbers[np.sort(first)]


@cache
def special_values(of: DType) -> Array:
    """The numbers of a dtype at which operations go another way than elsewhere."""
    if of.kind == "bool":
        return np.array([False, True])
    if of.is_integer:
        low, high = int(of.min), int(of.max)
        some = {low, low + 1, high - 1, high, 0, 1, 2, 3, 7, -1, -2, -3, -7, high // 2 + 1, of.bits - 1, of.bits}
        return np.array(sorted(n for n in some if low <= n <= high), np.int64 if low else np.uint64).astype(of.numpy)
    least, tiny, top, eps = of.smallest_normal, of.smallest_subnormal, float(of.max), 2 * of.unit_roundoff
    sized = [
        0.0,
        tiny,
        3 * tiny,
        least - tiny,
        least,
        least + tiny,
        top,
        top * (1 - eps / 2),
        1.0,
        1 + eps,
        1 - eps / 2,
    ]
    sized += [0.5, 1.5, 2.0, 2.5, 3.0, 1 / eps, 2 / eps + 1, np.inf]
    return np.concatenate([_as((s * v for v in sized for s in (1, -1)), of), _as([np.nan], of)])


@cache
def _ties(of: DType) -> Array:
    if of.kind == "bool":
        return np.array([False, True])
    if of.is_integer:
        return np.array([0, 1, 2, 3] if int(of.min) == 0 else [-1, 0, 1, 2], np.int64).astype(of.numpy)
    return _as([-2.5, -1.5, -1, -0.5, -0.0, 0.0, 0.5, 1.0, 1.5, 2.5], of)


@cache
def _extremes(of: DType) -> Array:
    found = special_values(of)
    if not of.is_float:
        return found
    found = found[np.isfinite(found)]
    size = np.abs(found.astype(np.float64))
    return found[(size > float(of.max) / 4) | (size < 4 * of.smallest_normal)]


def constants_of(func: PrimFunc) -> list[Any]:
    """The numbers, but for sizes and places in memory, that stand in a function."""
    found: dict[float, None] = {}
    for stmt in program_order(without_blocks(func).body):
        for root in stmt.expressions:
            for n in post_order(root):
                if isinstance(n, Const) and n.dtype.kind != "bool":
                    found[n.value.item() if n.dtype.is_integer else float(n.value)] = None
    return list(found)[:32]


def around(numbers: Sequence[Any], of: DType) -> Array:
    """Numbers of a dtype, and those next to them."""
    if of.kind == "bool":
        return np.array([False, True])
    if of.is_integer:
        near = {int(n) + d for n in numbers if np.isfinite(n) for d in (-1, 0, 1)}
        inside = sorted(n for n in near if int(of.min) <= n <= int(of.max))
        return np.array(inside or [0], object).astype(of.numpy)
    with np.errstate(all="ignore"):
        plain = np.array([float(n) for n in numbers], np.float64).astype(of.numpy)
    plain = plain[~np.isnan(plain)]
    plain = plain if plain.size else np.zeros(1, of.numpy)
    # the numbers of one sign have their bits in their order; of 4 bits the others of a byte are 0
    bits = plain.view(f"u{of.itemsize}")
    one, own = np.asarray(1, bits.dtype), np.asarray((1 << of.bits) - 1, bits.dtype)
    return distinct_numbers(np.concatenate([(b & own).view(of.numpy) for b in (bits, bits + one, bits - one)]))


def telling_numbers(of: DType, constants: Sequence[Any] = ()) -> Array:
    """The numbers of all kinds, each once."""
    return distinct_numbers(np.concatenate([special_values(of), _ties(of), around(constants, of)]))


def draw(of: DType, shape: Sequence[int], rng: np.random.Generator, kind: Kind, constants: Sequence[Any] = ()) -> Array:
    """An operand of a kind. `constants` are what the function has."""
    shape = tuple(shape)
    if of.kind == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    match kind:
        case "ties":
            return pick(_ties(of), shape, rng)
        case "extremes":
            return pick(_extremes(of), shape, rng)
        case "constants":
            plain = ordinary(of, shape, rng)
            return np.where(rng.random(shape) < 0.7, pick(around(constants, of), shape, rng), plain)
        case "specials":
            # in half of the rows many, in the others few: what is summed with an infinity says little
            often = np.where(rng.random((*shape[:1], *(1,) * (len(shape) - 1))) < 0.5, 0.7, 0.1)
            return np.where(rng.random(shape) < often, pick(special_values(of), shape, rng), ordinary(of, shape, rng))
        case "mixed":
            drawn = [draw(of, shape, rng, k, constants) for k in KINDS]
            return _chosen(drawn, rng)
        case "mild":
            some = special_values(of)
            if of.is_float:
                some = some[~np.isfinite(some) | (some == 0) | (np.abs(some.astype(np.float64)) == 1)]
            return np.asarray(np.where(rng.random(shape) < 0.1, pick(some, shape, rng), ordinary(of, shape, rng)))
        case "steep":
            most = np.log(float(of.max)) if of.is_float else 1.0
            some = _as([s * n * most for n in (0.5, 1.5, 2.5) for s in (1, -1)], of)
            found = np.asarray(np.where(rng.random(shape) < 0.3, pick(some, shape, rng), ordinary(of, shape, rng)))
            if found.size:  # one at least, however small the operand
                found.reshape(-1)[rng.integers(found.size)] = 1.5 * most
            return found


def _chosen(drawn: Sequence[Array], rng: np.random.Generator) -> Array:
    """Each element from one of several arrays; NumPy's own `choose` knows its own dtypes only."""
    found, which = drawn[0].copy(), rng.integers(0, len(drawn), drawn[0].shape)
    for k, other in enumerate(drawn[1:], 1):
        np.copyto(found, other, where=which == k)
    return found


def meeting(x: Array, others: Sequence[Array], rng: np.random.Generator, surely: bool = True) -> Array:
    """`x` with elements of `others` of its dtype, at the places where they meet by broadcasting, else at any: some of
    each, of the last one at least, if `surely`. Truths meet anyway."""
    found = x.copy()
    for other in others:
        if other.dtype != x.dtype or x.dtype == np.bool_ or not other.size or not x.size:
            continue
        try:
            there = np.broadcast_to(other, x.shape)
        except ValueError:
            there = pick(other.reshape(-1), x.shape, rng)
        here = np.asarray(rng.random(x.shape) < 0.3)
        if surely:
            here.reshape(-1)[rng.integers(x.size)] = True
        np.copyto(found, there, where=here)
    return found


def pick(some: Array, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """An array of this shape, of elements chosen at random."""
    return np.asarray(some[rng.integers(0, len(some), shape)])


def ordinary(of: DType, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Reals of both signs and several sizes, or whole numbers of the whole range, small ones as often."""
    if of.is_float:
        with np.errstate(all="ignore"):
            found: Array = np.ldexp(rng.standard_normal(shape, np.float32), rng.integers(-3, 4, shape, np.int8)).astype(
                of.numpy
            )
            return found
    low, high = int(of.min), int(of.max)
    wide = rng.integers(low, high, shape, np.int64 if low else np.uint64, endpoint=True)
    small = rng.integers(max(low, -9), min(high, 9), shape, np.int64, endpoint=True)
    return np.asarray(np.where(rng.random(shape) < 0.5, wide.astype(of.numpy), small.astype(of.numpy)))


def every(of: DType) -> Array:
    """All numbers of a dtype of at most 16 bits, bit pattern after bit pattern."""
    if of.kind == "bool":
        return np.array([False, True])
    if of.bits < 8:
        whole = np.arange(1 << of.bits, dtype=np.int16)
        if of.is_float:
            return whole.astype(np.uint8).view(of.numpy)
        return (whole + int(of.min)).astype(np.int8 if int(of.min) else np.uint8).astype(of.numpy)
    return np.arange(1 << of.bits, dtype=np.uint32).astype(f"u{of.itemsize}").view(of.numpy)
