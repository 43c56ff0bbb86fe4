"""Operands that are padded, and results that are cut back (specs/verify.md, "Kernels for unknown sizes")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from assay.verify.dispatch.choice import Choice

Array = np.ndarray[Any, Any]


def padded(array: Array, shape: Sequence[int]) -> Array:
    """The array in the corner of a larger one, zeros elsewhere."""
    if array.shape == tuple(shape):
        return array
    whole = np.zeros(tuple(shape), array.dtype)
    whole[tuple(slice(n) for n in array.shape)] = array
    return whole


def cut_back(array: Array, shape: Sequence[int]) -> Array:
    """The corner of an array, by itself."""
    if array.shape == tuple(shape):
        return array
    return np.array(array[tuple(slice(n) for n in shape)], order="C")


def targets(choice: Choice, sizes: Mapping[str, int]) -> tuple[dict[str, int], str]:
    """The sizes by name that a way of padding runs at, where some are `sizes`; or none, and why there is none. A size
    that the way does not name stays as it is."""
    found: dict[str, int] = {}
    for name, buckets in choice.sizes:
        if name not in sizes:
            continue
        if sizes[name] < 0:
            return {}, f"{name} = {sizes[name]} is no size: generic"
        target = next((b for b in buckets if b >= sizes[name]), None)
        if target is None:
            return {}, f"{name} = {sizes[name]} is more than {buckets[-1]}: generic"
        found[name] = target
    return found, ""
