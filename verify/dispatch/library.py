"""A library's function for a tensor function (specs/verify.md, "Kernels for unknown sizes").

The library adds up in an order of its own. Its result lies within the operator's bound, which is compared on the first
use at each choice of sizes; it is not the tensor function bit for bit, and nothing says that it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from assay.semantics.dtypes import dtype
from assay.semantics.errors import Crash
from assay.semantics.tensor import PrimFunc

Array = np.ndarray[Any, Any]
TYPES = ("float32", "float64")


def why_not(func: PrimFunc, inputs: Sequence[Array]) -> str:
    """Why the library cannot do it; "" where it can."""
    if func.attrs.get("operator") != "matmul" or len(inputs) != 2 or func.num_outputs != 1:
        return "it claims to be no matmul"
    types = {str(dtype(a.dtype)) for a in inputs} | {str(func.outputs[0].dtype)}
    if len(types) > 1 or not types <= set(TYPES):
        return f"its tensors are {', '.join(sorted(types))}"
    return ""


def run(func: PrimFunc, inputs: Sequence[Array], shape: tuple[int, ...]) -> Array:
    """The product of two arrays, whose shape is to be what the shape function gives."""
    a, b = inputs
    made = np.asarray(np.matmul(a, b))
    if made.shape != shape:
        raise Crash(f"NumPy's product of {a.shape} and {b.shape} has the shape {made.shape}, {func.name} {shape}")
    return np.ascontiguousarray(made).reshape(shape)
