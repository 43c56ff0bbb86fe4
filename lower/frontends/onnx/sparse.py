"""Sparse tensors of ONNX as dense ones (specs/lower.md, "Import").

A SparseTensorProto has the elements that are not 0 and their places: by number in row-major order, or one place for
each axis; ascending, none twice. Everything else is 0.
"""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from onnx import SparseTensorProto

from assay.lower.frontends.onnx.tensors import array_of
from assay.semantics.budget import claim
from assay.semantics.errors import Invalid
from assay.semantics.types import MOST_AXES

Array = np.ndarray[Any, Any]


def dense(sparse: SparseTensorProto, what: str, folder: Path | None) -> Array:
    """The whole tensor. Invalid (onnx.C9) where places and elements do not fit each other; what `array_of` raises;
    BudgetSpent where it is more than fits."""
    shape = tuple(sparse.dims)
    values, places = array_of(sparse.values, what, folder), array_of(sparse.indices, f"the places of {what}", folder)
    count = values.size
    if len(shape) > MOST_AXES or any(d < 0 for d in shape):
        raise Invalid(f"{what} has the shape {shape[:8]}", label="onnx.C9")
    if values.ndim != 1 or places.dtype != np.int64 or places.shape not in ((count,), (count, len(shape))):
        raise Invalid(
            f"{what} has values of shape {values.shape} and places {places.dtype} of shape {places.shape}; a vector and"
            f" int64 of shape ({count},) or ({count}, {len(shape)}) are wanted",
            label="onnx.C9",
        )
    claim(prod(shape) * values.itemsize, f"{what} as a dense tensor of shape {shape}", None)
    sizes = np.array(shape if places.ndim == 2 else [prod(shape)], np.int64)
    each = places.reshape(count, len(sizes))
    if np.any((each < 0) | (each >= sizes)):
        raise Invalid(f"{what} has an element outside of its shape {shape}", label="onnx.C9")
    flat = np.ravel_multi_index(tuple(each.T), tuple(sizes)) if count else np.zeros(0, np.int64)
    if np.any(np.diff(flat) <= 0):
        raise Invalid(f"{what} has places that do not ascend", label="onnx.C9")
    made = np.zeros(prod(shape), values.dtype)
    made[flat] = values
    return made.reshape(shape)
