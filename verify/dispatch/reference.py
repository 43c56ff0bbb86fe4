"""What a compiled kernel is compared with on its first use (specs/verify.md, "Kernels for unknown sizes")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from assay.interp import vector
from assay.semantics.bounds import Bounded
from assay.semantics.errors import Crash
from assay.semantics.ops import operator
from assay.semantics.tensor import PrimFunc
from assay.verify.dispatch.guarded import GuardedOutput
from assay.verify.dispatch.neutral import PROVING
from assay.verify.trials.kernels import different, outside_allowed

Array = np.ndarray[Any, Any]


class KernelDiffers(Crash):
    """A kernel that was made for some sizes does something else than the tensor function."""


def by_definition(func: PrimFunc, inputs: Sequence[Array], scalars: Sequence[int]) -> tuple[Array, ...]:
    """The results by the interpreter, of the function for all sizes. Raises what the function traps on."""
    with PROVING:  # it plans with z3, which has one context for all threads
        return vector.run(func, inputs, scalars=scalars)


def compare_guarded(func: PrimFunc, what: str, wanted: Sequence[Array], got: Sequence[GuardedOutput]) -> None:
    """KernelDiffers where results are not those that they must be, bit for bit, or bytes around them were written."""
    for buffer, right, found in zip(func.outputs, wanted, got, strict=True):
        far = found.written_outside()
        if far:
            raise KernelDiffers(
                f"{what} writes {far} bytes outside of {buffer.name}, whose sizes are {found.array.shape} by its shape"
                " function"
            )
        odd = different(np.ascontiguousarray(right).reshape(right.shape), found.array)
        if odd:
            raise KernelDiffers(f"{what} differs from the function for all sizes in {buffer.name}: {odd}")


def require_equal(func: PrimFunc, what: str, wanted: Sequence[Array], got: Sequence[Array]) -> None:
    """KernelDiffers where results are not those that they must be, bit for bit."""
    for buffer, right, found in zip(func.outputs, wanted, got, strict=True):
        odd = different(right, found)
        if odd:
            raise KernelDiffers(f"{what} differs from the function for all sizes in {buffer.name}: {odd}")


def require_within(func: PrimFunc, inputs: Sequence[Array], got: Array) -> None:
    """KernelDiffers where a result is outside of what the operator allows that a function claims to be."""
    claim, attrs = func.attrs["operator"], func.attrs["attrs"]
    allowed: Any = operator(str(claim)).value(attrs, *map(Bounded.exact, inputs))
    odd = outside_allowed(allowed, got)
    if odd:
        raise KernelDiffers(f"the library's {claim} is outside of the operator's bound: {odd}")
