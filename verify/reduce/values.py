"""Simpler values (specs/verify.md, "reduce")."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from assay.semantics.dtypes import dtype
from assay.verify.reduce.case import ReducedCase, outputs_of, rebuilt

Array = np.ndarray[Any, Any]
Cost = tuple[int, int, float]
PARTS = 64
"""Into how many parts an array is taken apart at most, to make one of them simpler."""
DIGITS = (1, 2, 3, 4, 6)
"""To how many digits numbers are rounded, the fewest first."""
STEPS = (2, 4, 8, 32, 128, 1024)
"""A whole number is made less by itself divided by each of these; and by 1."""


def simpler_values(case: ReducedCase) -> Iterator[ReducedCase]:
    """Cases with one array, or a part of it, that is simpler to read: 0, then 1, then one number everywhere, then whole
    numbers, the smaller the simpler, powers of two, and decimals of few digits. What is given is as simple as it can be
    when nothing of that shows it any more."""
    arrays = {**case.initializers, **case.inputs}
    for name, array in arrays.items():
        for simpler in _simpler(array):
            yield rebuilt(case, case.nodes, outputs_of(case), {**arrays, name: simpler})


def _simpler(array: Array) -> Iterator[Array]:
    """Arrays whose elements are no less simple, and some of them simpler."""
    if not array.size:
        return
    yield from _cheaper(array, _whole(array))
    flat = array.reshape(-1)
    length = max(1, array.size // 2)
    while array.size > 1:
        for start in range(0, array.size, length):
            part = flat[start : start + length]
            for fill in _cheaper(part, _whole(part)):
                changed = flat.copy()
                changed[start : start + length] = fill
                yield changed.reshape(array.shape)
        if length == 1 or array.size // length >= PARTS:
            return
        length = max(1, length // 2)


def _cheaper(array: Array, candidates: Iterator[Array]) -> Iterator[Array]:
    before = cost(array)
    yield from (c for c in candidates if cost(c) < before)


def _whole(array: Array) -> Iterator[Array]:
    """What all elements of an array may become, the simplest first."""
    yield np.zeros_like(array)
    yield np.ones_like(array)
    for one in dict.fromkeys((0, array.size - 1)):
        yield array.reshape(-1)[one : one + 1].repeat(array.size).reshape(array.shape)
    of = dtype(array.dtype)
    if of.kind == "bool" or of.bits < 8:
        return
    with np.errstate(all="ignore"):
        wide = array.astype(np.float64)
        for found in _numbers(wide, of.is_float):
            made = np.where(np.isfinite(found), found, wide)
            if np.abs(made[np.isfinite(made)]).max(initial=0) <= float(of.max):
                yield made.astype(array.dtype)


def _numbers(wide: Array, is_float: bool) -> Iterator[Array]:
    """Simpler numbers in place of numbers, element by element."""
    whole = np.rint(wide)
    if is_float:
        yield whole
        yield np.trunc(wide)
        yield np.sign(wide) * np.ceil(np.abs(wide))
    size = np.floor(np.log2(np.abs(wide)))
    for power in (np.rint(size / 2), size - 4, size - 1, size, size + 1):
        yield np.sign(wide) * np.exp2(np.maximum(power, 0.0 if not is_float else power))
    for step in STEPS:
        yield np.sign(whole) * (np.abs(whole) - np.ceil(np.abs(whole) / step))
    yield np.sign(whole) * (np.abs(whole) - 1)
    yield np.abs(wide)
    if is_float:
        for digits in DIGITS:
            yield np.array([float(f"{x:.{digits - 1}e}") for x in wide.reshape(-1)]).reshape(wide.shape)


def cost(array: Array) -> Cost:
    """How much there is to read: nothing for 0, a little for 1, more for other whole numbers and powers of two by their
    digits, most for other numbers; then how many different numbers there are, and how large they are."""
    elements, counts = np.unique(
        np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(array.size, -1), axis=0, return_counts=True
    )
    with np.errstate(all="ignore"):
        values = np.ascontiguousarray(elements).view(array.dtype).reshape(-1).astype(np.float64)
    reading = sum(int(n) * _reading(float(x)) for x, n in zip(values, counts, strict=True))
    sizes = np.log2(1 + np.abs(values[np.isfinite(values)]))
    return reading, len(values), float((sizes * counts[np.isfinite(values)]).sum())


def _reading(value: float) -> int:
    """How much one number is to read."""
    if value == 0:
        return 0 if not np.signbit(value) else 2
    if value == 1:
        return 1
    if not np.isfinite(value):
        return 3
    sign = value < 0
    text = f"{abs(value):.12g}"
    whole = abs(value) == abs(round(value)) and abs(value) < 1e6
    power = float(np.frexp(abs(value))[0]) == 0.5
    return min(2 + len(text) if whole else 6 + len(text), 5 if power else 1_000) + sign
